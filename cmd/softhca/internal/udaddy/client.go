package udaddy

import (
	"context"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/rdmacm"
)

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
	if err := c.Decide(ctx, "the server"); err != nil || c.Messages() == 0 {
		return err
	}
	return c.transfer(ctx)
}

// transfer sends the datagrams and then receives the server's.
func (c *client) transfer(ctx context.Context) error {
	c.Line("initiating data transfers")
	if err := c.Send(); err != nil {
		return err
	}
	c.Line("receiving data transfers")
	if err := c.AwaitRecvs(ctx); err != nil {
		return err
	}
	c.Line("data transfers complete")
	return nil
}

// act does what an event asks for.
func (c *client) act(e *rdmacm.Event) error {
	n := e.ID.Context.(*nodes.Node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		if c.o.TOS != nil {
			if err := n.ID.SetTOS(*c.o.TOS); err != nil {
				return err
			}
		}
		return n.ResolveRoute()
	case rdmacm.EventRouteResolved:
		if err := n.Prepare(); err != nil {
			return err
		}
		return n.ID.Connect(nil)
	case rdmacm.EventEstablished:
		return n.Reach(e.UD.AH, e.UD.QPN, e.UD.QKey)
	default:
		return c.Fail(n, e)
	}
}
