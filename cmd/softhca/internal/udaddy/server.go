package udaddy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// server is a run of the server.
type server struct {
	*nodes.Test
	o       *Options
	clients map[netip.AddrPort]*nodes.Node
}

func (v *server) run(ctx context.Context) error {
	v.Act = v.act
	v.clients = map[netip.AddrPort]*nodes.Node{}
	if err := v.CheckMTU(); err != nil {
		return err
	}
	if err := v.Listen(v.o.Space); err != nil {
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

// findClient learns from the first datagram where to reply.
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

// act does what an event asks for.
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

// repeat answers a client that asks once more, as the answer was lost: with the
// queue pair that it has already.
func (v *server) repeat(id *rdmacm.ID, n *nodes.Node) error {
	return errors.Join(id.Accept(&rdmacm.ConnParam{QPN: n.ID.QP().QPN()}), id.Destroy())
}
