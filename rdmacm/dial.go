package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Dial opens an adapter and connects to a Listener at an address such as
// "10.0.0.1:7471". The adapter closes with the Conn. A program with several connections
// should use a Manager, so that they share an adapter. Errors are those of Manager.Dial
// and verbs.Open.
func Dial(ctx context.Context, addr string, opts ...Option) (*Conn, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	all, err := lookup(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	m, err := o.openFor(all[0].Addr())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	c, err := m.dial(ctx, m.reachable(all), o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", addr, err), m.Close())
	}
	c.lease = newLease(m)
	return c, nil
}

// tries bounds the loopback addresses that Dial tries.
const tries = 16

// openFor opens an adapter from which a peer can be reached.
func (o *options) openFor(peer netip.Addr) (*Manager, error) {
	if o.cfg != nil {
		return Open(*o.cfg)
	}
	if !peer.IsLoopback() || !peer.Is4() {
		from, err := hostRoute(peer)
		if err != nil {
			return nil, err
		}
		if !from.IsValid() {
			return nil, fmt.Errorf("no local address to reach %v from: %w", peer, ib.EADDRNOTAVAIL)
		}
		return Open(verbs.Config{Addr: from.String()})
	}
	for i := 1; ; i++ {
		b := [4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}
		m, err := Open(verbs.Config{Addr: netip.AddrFrom4(b).String()})
		if i == tries || !errors.Is(err, ib.EADDRINUSE) {
			return m, err
		}
	}
}

// Dial connects to a Listener at an address such as "10.0.0.1:7471", from the adapter
// of the Manager that ResolveAddr finds. If a name has several addresses, it uses the
// first that an adapter can reach. If ctx ends before the connection is established,
// Dial gives up. Errors: one that unwraps to ctx.Err and names the step that was under
// way; one that unwraps to ECONNREFUSED if there is no listener or it rejects
// (RejectError), or to ETIMEDOUT if there is no answer; those of ResolveAddr, and of
// creating the objects of a connection.
func (m *Manager) Dial(ctx context.Context, addr string, opts ...Option) (*Conn, error) {
	o, err := newOptions(opts)
	if m == nil {
		err = errNoManager
	}
	if err == nil {
		var all []netip.AddrPort
		if all, err = lookup(ctx, addr); err == nil {
			var c *Conn
			if c, err = m.dial(ctx, m.reachable(all), o); err == nil {
				return c, nil
			}
		}
	}
	return nil, fmt.Errorf("dial %s: %w", addr, err)
}

func (m *Manager) dial(ctx context.Context, to netip.AddrPort, o *options) (*Conn, error) {
	ch := m.NewEventChannel()
	id, err := m.CreateID(ch, TCP)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, id, to, o)
	if err != nil {
		return nil, errors.Join(err, id.Destroy(), ch.Close())
	}
	return c, nil
}

// connect resolves and connects an ID, and returns its Conn. On failure the caller
// destroys the ID.
func connect(ctx context.Context, id *ID, to netip.AddrPort, o *options) (*Conn, error) {
	if err := id.ResolveAddr(netip.AddrPort{}, to, 0); err != nil {
		return nil, err
	}
	if _, err := await(ctx, id.ch, EventAddrResolved); err != nil {
		return nil, meanwhile(ctx, err, "resolving the address")
	}
	if err := id.ResolveRoute(0); err != nil {
		return nil, err
	}
	if _, err := await(ctx, id.ch, EventRouteResolved); err != nil {
		return nil, meanwhile(ctx, err, "resolving the route")
	}
	c, err := newConn(id, o)
	if err != nil {
		return nil, err
	}
	c.ch = id.ch
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// meanwhile returns the error of a wait. If ctx has ended, it adds the step that was
// under way, to distinguish a wrong address from a short deadline.
func meanwhile(ctx context.Context, err error, doing string) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// connect sends the request and waits for the answer.
func (c *Conn) connect(ctx context.Context) error {
	if err := c.id.Connect(c.param()); err != nil {
		return err
	}
	e, err := await(ctx, c.ch, EventEstablished)
	if err != nil {
		return meanwhile(ctx, err, "no answer to the request to connect: is an adapter open there, does UDP port 4791 pass, and does its program accept?")
	}
	peer, err := parseGreeting(e.Param.PrivateData)
	if err != nil {
		return err
	}
	c.stream.meet(peer)
	return nil
}

// param returns the parameters with which a Conn connects and accepts.
func (c *Conn) param() *ConnParam {
	return &ConnParam{PrivateData: c.stream.own.encode(), RetryCount: mostRetries, RNRRetryCount: mostRetries}
}
