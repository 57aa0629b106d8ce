package stream

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Listener accepts connections from Dial.
type Listener struct {
	m     *rdmacm.Manager
	id    *rdmacm.ID
	ch    *rdmacm.EventChannel
	o     *options
	lease *lease // nil if the Manager is the caller's

	open   context.Context // ends with Close
	cancel context.CancelFunc
	close  sync.Once

	turn    chan struct{}                // holds an element while a goroutine handles events; guards the following
	pending map[*rdmacm.ID]*list.Element // accepted, and not established
	order   list.List                    // those as waiting, the oldest first
	gone    error                        // the adapter, or the last of several, is gone
}

// waiting is an accepted connection that is not established, and the address of its peer.
type waiting struct {
	c    *Conn
	from netip.Addr
}

// errNoListener is returned by calls on a nil Listener.
var errNoListener = fmt.Errorf("no listener: %w", ib.EINVAL)

// Listen opens an adapter on an address such as "10.0.0.1:7471" and listens there;
// without a host, on the first usable address. The adapter closes with the Listener and
// the last of its Conns. Where adapters cannot share an address (see verbs.Config.Addr),
// Dial in the same program needs another address, or the Manager of the Listener's
// adapter. ctx bounds only the resolution of a host name. Errors are those of ListenOn and
// verbs.Open.
func Listen(ctx context.Context, addr string, opts ...Option) (*Listener, error) {
	var m *rdmacm.Manager
	o, err := newOptions(ctx, addr, opts)
	if err == nil {
		m, err = o.openOn(o.addrs[0].Addr())
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l, err := o.listen(m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", addr, err), m.Close())
	}
	l.lease = newLease(m)
	return l, nil
}

// openOn opens an adapter on an address.
func (o *options) openOn(a netip.Addr) (*rdmacm.Manager, error) {
	cfg := cmp.Or(o.cfg, &verbs.Config{})
	if o.cfg == nil && !a.IsUnspecified() {
		cfg.Addr = a.String()
	}
	return rdmacm.Open(*cfg)
}

// ListenOn accepts connections at an address such as "10.0.0.1:7471"; without a host, at
// every IPv4 address of the Manager's adapters. Port 0 stands for any free port. ctx
// bounds the resolution of a host name; of several addresses it uses the first that an
// adapter has. Errors are those of BindAddr and of the ID's Listen.
func ListenOn(ctx context.Context, m *rdmacm.Manager, addr string, opts ...Option) (*Listener, error) {
	var l *Listener
	o, err := newOptions(ctx, addr, opts)
	if err == nil {
		l, err = o.listen(m)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

func (o *options) listen(m *rdmacm.Manager) (l *Listener, err error) {
	l = &Listener{m: m, o: o, ch: m.NewEventChannel(), turn: make(chan struct{}, 1), pending: make(map[*rdmacm.ID]*list.Element)}
	if l.id, err = m.CreateID(l.ch, rdmacm.TCP); err != nil {
		return nil, err
	}
	for _, a := range o.addrs {
		if err = l.id.BindAddr(a); !errors.Is(err, ib.ENODEV) && !errors.Is(err, ib.EADDRNOTAVAIL) {
			break
		}
	}
	if err == nil {
		err = l.id.Listen(o.backlog)
	}
	if err != nil {
		return nil, errors.Join(err, l.id.Destroy(), l.ch.Close())
	}
	l.open, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Addr returns an Addr.
func (l *Listener) Addr() net.Addr { return Addr{l.ID().LocalAddr()} }

// ID returns the listener's ID.
func (l *Listener) ID() *rdmacm.ID {
	if l == nil {
		return nil
	}
	return l.id
}

// Accept waits for a connection until ctx ends. It rejects requests of peers that are
// not a Conn. Requests are handled only while a goroutine is in Accept; any number may
// be. net.ErrClosed after Close, ENODEV once the adapter is gone.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	c, err := l.accept(ctx)
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "rdma", Addr: l.Addr(), Err: err}
	}
	return c, nil
}

func (l *Listener) accept(ctx context.Context) (*Conn, error) {
	if l == nil {
		return nil, errNoListener
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.open, func() { cancel(net.ErrClosed) })()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for l.gone == nil && l.open.Err() == nil {
		if ctx.Err() != nil { // Get takes events that wait, whatever ctx says
			return nil, context.Cause(ctx)
		}
		e, err := l.ch.Get(ctx)
		switch {
		case errors.Is(err, rdmacm.ErrClosed): // by closing the Manager
			return nil, net.ErrClosed
		case err != nil:
			return nil, context.Cause(ctx)
		}
		e.Ack()
		if c := l.step(e); c != nil {
			return c, nil
		}
	}
	return nil, cmp.Or(l.gone, net.ErrClosed)
}

// step handles an event and returns a connection if one is established.
func (l *Listener) step(e *rdmacm.Event) *Conn {
	switch {
	case e.Type == rdmacm.EventConnectRequest:
		l.answer(e)
		return nil
	case e.ID == l.id: // DEVICE_REMOVAL
		l.gone = e.Err
		return nil
	}
	w := l.pending[e.ID]
	if w == nil {
		return nil
	}
	c := l.remove(w)
	if e.Type == rdmacm.EventEstablished {
		if err := c.migrate(l.m); err == nil {
			return c
		}
	}
	_ = c.release() // it has failed, and has no other user
	return nil
}

// remove removes a connection from the list of those that are not established.
func (l *Listener) remove(w *list.Element) *Conn {
	c := l.order.Remove(w).(waiting).c
	delete(l.pending, c.id)
	return c
}

// oldest returns the connection that waits longest of the address that has the most.
func (l *Listener) oldest() *list.Element {
	first, count := make(map[netip.Addr]*list.Element), make(map[netip.Addr]int)
	var most *list.Element
	for w := l.order.Front(); w != nil; w = w.Next() {
		from := w.Value.(waiting).from
		if count[from]++; count[from] == 1 {
			first[from] = w
		}
	}
	n := 0
	for w := l.order.Front(); w != nil; w = w.Next() { // of equals the one that waits longest
		if from := w.Value.(waiting).from; count[from] > n {
			most, n = first[from], count[from]
		}
	}
	return most
}

// answer accepts a request from a Conn. If too many connections already wait for RTU, it drops
// the oldest of the address that has the most: a peer that never sends one must not keep
// others out.
func (l *Listener) answer(e *rdmacm.Event) {
	peer, err := parseGreeting(e.Param.PrivateData)
	reason := mad.RejConsumer
	var c *Conn
	if err == nil {
		if l.order.Len() >= l.o.backlog {
			_ = l.remove(l.oldest()).release() // it has no other user
		}
		reason = mad.RejNoResources
		c, err = newConn(e.ID, l.o)
	}
	if err != nil {
		// If the peer has given up, there is nothing to reject.
		why := err.Error()
		_ = e.ID.RejectWith(reason, []byte(why[:min(len(why), reasonLen)]))
		_ = e.ID.Destroy()
		return
	}
	c.stream.meet(peer)
	c.lease = l.lease
	c.lease.take()
	w := waiting{c, peerOf(e.ID)}
	if err := e.ID.Accept(c.param()); err != nil {
		_ = c.release() // the request was rejected
		return
	}
	l.pending[e.ID] = l.order.PushBack(w)
}

// reasonLen is the room for private data in a REJ.
const reasonLen = 148

// peerOf returns the address to which answers to a request go. PeerAddr is what the request
// says, which can be any address.
func peerOf(id *rdmacm.ID) netip.Addr {
	attr, _, _ := id.QPAttr(ib.RTR) // known from the request on
	return attr.AV.DGID.Addr()
}

// Close ends the listener. Connections that Accept returned continue; others are
// rejected. net.ErrClosed if it is already closed.
func (l *Listener) Close() error {
	if l == nil {
		return errNoListener
	}
	err := net.ErrClosed
	l.close.Do(func() {
		l.cancel()
		l.turn <- struct{}{}
		for l.order.Len() > 0 {
			_ = l.remove(l.order.Front()).release() // it has no other user
		}
		err = l.id.Destroy()
		if errors.Is(err, rdmacm.ErrClosed) { // by closing the Manager
			err = nil
		}
		err = errors.Join(err, l.ch.Close(), l.lease.release())
	})
	if err != nil {
		return &net.OpError{Op: "close", Net: "rdma", Addr: l.Addr(), Err: err}
	}
	return nil
}

// NetListener returns the Listener as a net.Listener, for programs such as
// net/http's Server. Closing either closes both.
func (l *Listener) NetListener() net.Listener { return netListener{l} }

type netListener struct{ *Listener }

// Accept waits for a connection without a time limit.
func (l netListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	return c, nil
}
