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
	// If the last acknowledgement is lost, the server may disconnect before the sends
	// of this side complete.
	err := c.Transfer(ctx, nodes.Step{Title: "receiving data transfers", Do: c.AwaitRecvs},
		nodes.Step{Title: "sending replies", Do: c.reply}, nodes.Step{Do: c.AwaitSends})
	if err != nil {
		return err
	}
	if c.o.Migrate {
		if err := c.Migrate(); err != nil {
			return err
		}
	}
	return c.AwaitEnds(ctx, "the server to disconnect")
}

// reply posts the messages of the client.
func (c *client) reply(ctx context.Context) error {
	c.replied = true
	return c.Send(ctx)
}

// act handles an event.
func (c *client) act(e *rdmacm.Event) error {
	n := e.ID.Context.(*nodes.Node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		return n.ResolveRoute()
	case rdmacm.EventRouteResolved:
		// Without RNR retries, like the Linux program: all receives are posted before.
		return n.Connect(&rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5})
	case rdmacm.EventEstablished:
		n.Become(nodes.Connected)
	case rdmacm.EventDisconnected:
		if err := n.ID.Disconnect(); err != nil { // answers the DREQ
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
