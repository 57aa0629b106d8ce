package ucmatose

import (
	"context"
	"errors"
	"fmt"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// server is a run of the server.
type server struct {
	*nodes.Test
	o       *Options
	step    step
	refused bool // it refused a request over the number of connections
}

// step is the current step of the server.
type step uint8

const (
	collecting   step = iota // connections
	transferring             // messages
	parting                  // disconnecting
)

func (v *server) run(ctx context.Context) error {
	v.Act = v.act
	if err := v.Listen(v.o.Space); err != nil {
		return err
	}
	for v.In(nodes.Pending) > 0 || len(v.Nodes) < v.Connections {
		if err := v.Collect(ctx); err != nil {
			return err
		}
	}
	v.step = transferring
	err := v.Transfer(ctx, nodes.Step{Title: "initiating data transfers", Do: v.Send},
		nodes.Step{Title: "completing sends", Do: v.AwaitSends},
		nodes.Step{Title: "receiving data transfers", Do: v.AwaitRecvs})
	if err != nil {
		return err
	}
	if v.o.Migrate {
		if err := v.Migrate(); err != nil {
			return err
		}
	}
	return v.part(ctx)
}

// part disconnects, and waits until all clients have answered.
func (v *server) part(ctx context.Context) error {
	v.step = parting
	v.Line("%s: disconnecting", name)
	if err := v.Disconnect(); err != nil {
		return err
	}
	if err := v.AwaitEnds(ctx, "clients to agree to the end"); err != nil {
		return err
	}
	v.Line("disconnected")
	return nil
}

// act handles an event.
func (v *server) act(e *rdmacm.Event) error {
	if e.Type == rdmacm.EventConnectRequest {
		return v.request(e)
	}
	n, ok := e.ID.Context.(*nodes.Node)
	if !ok { // an event of the listener
		return adapter.NewFailure(e)
	}
	switch e.Type {
	case rdmacm.EventEstablished:
		n.Become(nodes.Connected)
	case rdmacm.EventDisconnected:
		n.Become(nodes.Ended)
		if err := n.ID.Disconnect(); err != nil { // answers the DREQ
			return err
		}
		if v.step == transferring || v.step == collecting && v.Messages() > 0 {
			return v.gone(e)
		}
	case rdmacm.EventTimewaitExit:
	default:
		n.Become(nodes.Failed)
		return v.Report(e)
	}
	return nil
}

// gone returns the error for a client that disconnected.
func (v *server) gone(e *rdmacm.Event) error {
	err := adapter.NewFailure(e)
	if !v.refused {
		return err
	}
	return fmt.Errorf("%w; a request for more than %d connections (-c) had been refused", err, v.Connections)
}

// request accepts or refuses a client's request. A request over the number while the
// server collects connections ends the test, as in ucmatose, because its client would
// wait in vain. A later one may come from an unrelated client.
func (v *server) request(e *rdmacm.Event) error {
	if len(v.Nodes) == v.Connections {
		v.refused = true
		err := v.Refuse(e)
		if v.step == collecting {
			err = errors.Join(err, &nodes.Coded{
				Code: -int(ib.ENOMEM),
				Err:  fmt.Errorf("a client wants more than %d connections: give both sides the same -c", v.Connections),
			})
		}
		return err
	}
	_, err := v.Accept(e.ID)
	return err
}
