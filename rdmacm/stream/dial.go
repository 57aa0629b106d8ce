package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Dial opens an adapter and connects to a Listener at an address such as
// "10.0.0.1:7471". The adapter closes with the Conn. A program with several connections
// should use DialOn, so that they share an adapter. Errors are those of DialOn and
// verbs.Open.
func Dial(ctx context.Context, addr string, opts ...Option) (*Conn, error) {
	var m *rdmacm.Manager
	o, err := newOptions(ctx, addr, opts)
	if err == nil {
		m, err = o.openFor(o.addrs[0].Addr())
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	c, err := o.dial(ctx, m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", addr, err), m.Close())
	}
	c.lease = newLease(m)
	return c, nil
}

// tries bounds the loopback addresses that Dial tries.
const tries = 16

// openFor opens an adapter from which a peer can be reached.
func (o *options) openFor(peer netip.Addr) (*rdmacm.Manager, error) {
	if o.cfg != nil {
		return rdmacm.Open(*o.cfg)
	}
	if !peer.IsLoopback() || !peer.Is4() {
		from, err := iface.SourceTo(peer)
		if err != nil {
			return nil, err
		}
		if !from.IsValid() {
			return nil, fmt.Errorf("no local address can reach %v: %w", peer, ib.EADDRNOTAVAIL)
		}
		return rdmacm.Open(verbs.Config{Addr: from.String()})
	}
	for i := 1; ; i++ {
		b := [4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}
		m, err := rdmacm.Open(verbs.Config{Addr: netip.AddrFrom4(b).String()})
		if i == tries || !errors.Is(err, ib.EADDRINUSE) {
			return m, err
		}
	}
}

// DialOn connects to a Listener at an address such as "10.0.0.1:7471", from the adapter
// of the Manager that ResolveAddr finds. If a name has several addresses, it uses the
// first that an adapter can reach; it does not try the next one if that does not answer.
// DialOn waits until the connection is established or ctx ends.
//
// Errors unwrap to ctx.Err if ctx ended; to ECONNREFUSED if there is no listener or it
// rejects (rdmacm.RejectError); to ETIMEDOUT if there is no answer; to EINVAL for invalid
// options or a peer that does not use this package. Other errors are those of name
// resolution, of ResolveAddr, and of creating the objects of a connection.
func DialOn(ctx context.Context, m *rdmacm.Manager, addr string, opts ...Option) (*Conn, error) {
	var c *Conn
	o, err := newOptions(ctx, addr, opts)
	if err == nil {
		c, err = o.dial(ctx, m)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return c, nil
}

// dial connects to the first of the addresses that an adapter can reach.
func (o *options) dial(ctx context.Context, m *rdmacm.Manager) (*Conn, error) {
	var first error
	for _, to := range o.addrs {
		id, err := resolved(m, to)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		c, err := newConn(id, o)
		if err != nil {
			return nil, errors.Join(err, id.Destroy())
		}
		if err := c.connect(ctx, m); err != nil {
			return nil, errors.Join(err, c.release())
		}
		return c, nil
	}
	return nil, first
}

// resolved returns an ID that may connect to an address. It is synchronous, because resolving
// does not take time.
func resolved(m *rdmacm.Manager, to netip.AddrPort) (*rdmacm.ID, error) {
	id, err := m.CreateID(nil, rdmacm.TCP)
	if err != nil {
		return nil, err
	}
	if err = id.ResolveAddr(netip.AddrPort{}, to); err == nil {
		err = id.ResolveRoute()
	}
	if err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	return id, nil
}

// connect sends the request and waits for the answer.
func (c *Conn) connect(ctx context.Context, m *rdmacm.Manager) error {
	err := c.migrate(m)
	if err == nil {
		err = c.id.Connect(c.param())
	}
	if err != nil {
		return err
	}
	e, err := await(ctx, c.stream.events, rdmacm.EventEstablished)
	switch {
	case err != nil && errors.Is(err, ctx.Err()): // say so, to distinguish a wrong address from a short deadline
		return fmt.Errorf("no answer to the request to connect: is an adapter open there, does UDP port 4791 pass, and does its program accept?: %w", err)
	case err != nil:
		return err
	}
	peer, err := parseGreeting(e.Param.PrivateData)
	if err != nil {
		return err
	}
	c.stream.meet(peer)
	return nil
}

// param returns the parameters with which a Conn connects and accepts.
func (c *Conn) param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{PrivateData: c.stream.own.encode(), RetryCount: 7, RNRRetryCount: 7}
}
