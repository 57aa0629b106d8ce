package ucmatose

import (
	"context"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/rdmacm"
)

// client is a run of the client.
type client struct {
	*nodes.Test
	o       *Options
	replied bool // it is the server's turn to disconnect
}

func (c *client) run(ctx context.Context) error {
	c.Act = c.act
	c.replied = c.Messages() == 0
	c.Line("%s: connecting", name)
	if err := c.Resolve(c.o.Space); err != nil {
		return err
	}
	if err := c.Decide(ctx, "the server"); err != nil {
		return err
	}
	if err := c.transfer(ctx); err != nil {
		return err
	}
	if c.o.Migrate {
		if err := c.Migrate(); err != nil {
			return err
		}
	}
	return c.AwaitEnds(ctx, "the server to disconnect")
}

// transfer receives the server's messages and then replies.
func (c *client) transfer(ctx context.Context) error {
	if c.replied {
		return nil
	}
	c.Line("receiving data transfers")
	if err := c.AwaitRecvs(ctx); err != nil {
		return err
	}
	c.Line("sending replies")
	c.replied = true
	if err := c.Send(); err != nil {
		return err
	}
	// If the last acknowledgement is lost the server may have disconnected
	// before this side knows that all has arrived.
	if err := c.AwaitSends(ctx); err != nil {
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
		if err := c.set(n.ID); err != nil {
			return err
		}
		return n.ResolveRoute()
	case rdmacm.EventRouteResolved:
		if err := n.Prepare(); err != nil {
			return err
		}
		// With no RNR retries, as ucmatose: all receives are there before.
		return n.ID.Connect(&rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5})
	case rdmacm.EventEstablished:
		n.Become(nodes.Connected)
	case rdmacm.EventDisconnected:
		if err := n.ID.Disconnect(); err != nil { // agrees
			return err
		}
		if c.replied {
			n.Become(nodes.Ended)
			return nil
		}
		return c.Fail(n, e)
	case rdmacm.EventTimewaitExit:
	default:
		return c.Fail(n, e)
	}
	return nil
}

// set sets the options of a connection that are set before its route is
// resolved.
func (c *client) set(id *rdmacm.ID) error {
	if c.o.TOS != nil {
		if err := id.SetTOS(*c.o.TOS); err != nil {
			return err
		}
	}
	if c.o.AckTimeout != nil {
		return id.SetAckTimeout(*c.o.AckTimeout)
	}
	return nil
}
