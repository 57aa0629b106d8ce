package udaddy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// Options are the options of a side. There is none for the port or for an ACK
// timeout.
type Options = nodes.Options

const (
	name = "udaddy"
	port = "7174" // udaddy has no option for another
)

// Side is a client or a server.
type Side struct {
	Options
	Opener   adapter.Opener
	Out, Err io.Writer // the program's lines, and everything else
}

// Run runs the client of Host, or without Host the server. A client finds the
// server's queue pairs, sends to them and waits for as many datagrams. A server
// serves the number of connections in the options. Both also return when ctx ends,
// or with the first error, after they have closed everything.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{Name: name, Service: ib.UD, Options: s.Options, Opener: s.Opener, Out: s.Out, Err: s.Err}
	p.Port = port
	return p.RunSide(ctx,
		func(t *nodes.Test) error { return (&client{Test: t}).run(ctx) },
		func(t *nodes.Test) error { return (&server{Test: t}).run(ctx) })
}

// client is a run of the client.
type client struct{ *nodes.Test }

func (c *client) run(ctx context.Context) error {
	c.Act = c.act
	if err := c.CheckMTU(); err != nil {
		return err
	}
	c.Line("%s: connecting", name)
	if err := c.Resolve(c.Space); err != nil {
		return err
	}
	if err := c.Decide(ctx, "the server"); err != nil {
		return err
	}
	return c.Transfer(ctx, nodes.Step{Title: "initiating data transfers", Do: c.Send},
		nodes.Step{Title: "receiving data transfers", Do: c.AwaitRecvs})
}

// act handles an event.
func (c *client) act(e *rdmacm.Event) error {
	n := e.ID.Context.(*nodes.Node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		return n.ResolveRoute()
	case rdmacm.EventRouteResolved:
		return n.Connect(nil)
	case rdmacm.EventEstablished:
		return n.Reach(e.UD.AH, e.UD.QPN, e.UD.QKey)
	default:
		return c.Fail(n, e)
	}
}

// server is a run of the server.
type server struct {
	*nodes.Test
	clients map[netip.AddrPort]*nodes.Node
}

func (v *server) run(ctx context.Context) error {
	v.Act = v.act
	v.clients = map[netip.AddrPort]*nodes.Node{}
	if err := v.CheckMTU(); err != nil {
		return err
	}
	if err := v.Listen(v.Space); err != nil {
		return err
	}
	for len(v.Nodes) < v.Connections {
		if err := v.Collect(ctx); err != nil {
			return err
		}
	}
	return v.Transfer(ctx, nodes.Step{Title: "receiving data transfers", Do: v.receive},
		nodes.Step{Title: "sending replies", Do: v.Send}, nodes.Step{Do: v.AwaitSends})
}

// receive receives the clients' datagrams.
func (v *server) receive(ctx context.Context) error {
	for _, n := range v.Nodes {
		if err := v.findClient(ctx, n); err != nil {
			return err
		}
	}
	return v.AwaitRecvs(ctx)
}

// findClient learns the client's address from the first datagram.
func (v *server) findClient(ctx context.Context, n *nodes.Node) error {
	wc, grh, err := n.AwaitFirst(ctx, v.Idle)
	if err != nil {
		return err
	}
	if wc.Flags&ib.WCWithImm == 0 {
		return fmt.Errorf("a datagram without immediate data came from QP %v: is the client another program?", wc.SrcQP)
	}
	to, err := v.Device.InitAHFromWC(wc, grh)
	if err == nil {
		err = n.Reach(to, ib.QPN(wc.ImmData)&ib.QPNMask, rdmacm.DefaultQKey)
	}
	if err != nil {
		v.Line("%s: failed to create reply AH", name)
	}
	return err
}

// act handles an event.
func (v *server) act(e *rdmacm.Event) error {
	if e.Type != rdmacm.EventConnectRequest {
		return adapter.NewFailure(e)
	}
	if n := v.clients[e.ID.PeerAddr()]; n != nil {
		return v.repeat(e.ID, n)
	}
	if len(v.Nodes) == v.Connections {
		return v.Refuse(e)
	}
	n, err := v.Accept(e.ID)
	if err == nil {
		v.clients[e.ID.PeerAddr()] = n
	}
	return err
}

// repeat answers a repeated request, whose first answer was lost, with the same queue
// pair.
func (v *server) repeat(id *rdmacm.ID, n *nodes.Node) error {
	return errors.Join(id.Accept(&rdmacm.ConnParam{QPN: n.ID.QP().QPN()}), id.Destroy())
}
