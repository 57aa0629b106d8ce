package udaddy

import (
	"context"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// Options are what the user may choose. The load is to be the same on both
// sides.
type Options struct {
	nodes.Load
	Host  string // client: the server
	Bind  string // own address; "": any, or that of the route
	Space rdmacm.PortSpace
	TOS   *uint8 // client: the type of service, unless it is nil
}

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

// Run is the client of Host, or without one the server. A client finds the
// server's queue pairs, sends to them and waits for as many datagrams. A server
// serves as many connections as it is told to. Both return when ctx ends, or with
// the first error; all is closed then.
func (s Side) Run(ctx context.Context) error {
	p := nodes.Program{
		Name: name, Role: "server", Service: ib.UD, Load: s.Load, TOS: s.TOS,
		Opener: s.Opener, Host: s.Host, Port: port, Bind: s.Bind, Out: s.Out, Err: s.Err,
	}
	if s.Host == "" {
		return p.Run(ctx, func(t *nodes.Test) error { return (&server{Test: t, o: &s.Options}).run(ctx) })
	}
	p.Role = "client"
	return p.Run(ctx, func(t *nodes.Test) error { return (&client{Test: t, o: &s.Options}).run(ctx) })
}

// client is a run of the client.
type client struct {
	*nodes.Test
	o *Options
}

func (c *client) run(ctx context.Context) error {
	c.Act = c.act
	if err := c.CheckMTU(); err != nil {
		return err
	}
	c.Line("%s: connecting", name)
	if err := c.Resolve(c.o.Space); err != nil {
		return err
	}
	if err := c.Decide(ctx, "the server"); err != nil {
		return err
	}
	return c.Transfer(ctx, nodes.Step{Title: "initiating data transfers", Do: c.Send},
		nodes.Step{Title: "receiving data transfers", Do: c.AwaitRecvs})
}

// act does what an event asks for.
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
