package simple

import (
	"context"
	"errors"
	"fmt"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// messageLen is the size of both messages, in bytes.
const messageLen = 16

// The wr_ids.
const (
	recvID = iota + 1
	sendID
)

var errIdle = errors.New("the peer is silent")

// endpoint is one side of a connection, used by one goroutine.
type endpoint struct {
	*adapter.Conn
	done map[uint64]bool // wr_ids that have completed
}

// newEndpoint returns a client's endpoint, or for a request a server's.
func (s *Side) newEndpoint(a *adapter.Adapter, request *rdmacm.ID) (*endpoint, error) {
	c, err := a.Conn(request)
	if err != nil {
		return nil, err
	}
	e := &endpoint{c, map[uint64]bool{}}
	c.Idle, c.Completed, c.Happened = s.Idle, e.completed, happened
	return e, nil
}

// build creates the objects and posts the receive.
func (e *endpoint) build() error {
	e.Queue = e.NewQueue(2)
	pd := e.NewPD()
	qp := e.NewIDQP(e.ID, pd, &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.Queue.CQ, RecvCQ: e.Queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: messageLen},
	})
	recv := e.NewMR(pd, messageLen, ib.AccessLocalWrite)
	if err := e.Err(); err != nil {
		return err
	}
	return qp.PostRecv(verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{recv.SGE(0, messageLen)}})
}

// connect connects to the server, and accept accepts the client; both wait until the
// connection is established.
func (e *endpoint) connect(ctx context.Context) error {
	if err := e.ID.Connect(nil); err != nil {
		return err
	}
	return e.Pass(ctx, rdmacm.EventEstablished)
}

func (e *endpoint) accept(ctx context.Context) error {
	if err := e.ID.Accept(nil); err != nil {
		return err
	}
	return e.Pass(ctx, rdmacm.EventEstablished)
}

// client sends a message and waits for the answer.
func (e *endpoint) client(ctx context.Context) error {
	if err := e.send(); err != nil {
		return in("rdma_post_send", err)
	}
	return in("rdma_get_recv_comp", e.await(ctx, recvID))
}

// server waits for the message, and answers.
func (e *endpoint) server(ctx context.Context) error {
	if err := e.await(ctx, recvID); err != nil {
		return in("rdma_get_recv_comp", err)
	}
	if err := e.send(); err != nil {
		return in("rdma_post_send", err)
	}
	return in("rdma_get_send_comp", e.await(ctx, sendID))
}

// send sends a message of zeros.
func (e *endpoint) send() error {
	var zeros [messageLen]byte
	return e.ID.QP().PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: zeros[:]})
}

// await waits until a work request has completed.
func (e *endpoint) await(ctx context.Context, id uint64) error {
	return e.Await(ctx, errIdle, func() bool { return e.done[id] })
}

// completed handles a completion.
func (e *endpoint) completed(wc *verbs.WC) error {
	switch wc.Status {
	case ib.WCSuccess:
		e.done[wc.WRID] = true
		return nil
	case ib.WCWRFlushErr:
		return nil // an event follows with the reason
	default:
		return fmt.Errorf("%v", wc.Status)
	}
}

// happened handles an event: every event now ends the connection.
func happened(event *rdmacm.Event) error { return adapter.NewFailure(event) }
