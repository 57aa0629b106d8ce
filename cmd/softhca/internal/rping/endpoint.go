package rping

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Sizes of the queues. The protocol has one message under way in each
// direction at a time.
const (
	sendDepth = 16
	recvDepth = 2
	cqDepth   = 2 * sendDepth
)

// The wr_ids.
const (
	recvID = iota + 1
	sendID
	readID
	writeID
)

// endpoint is one side of a connection, used by one goroutine.
type endpoint struct {
	*printer
	*adapter.Conn
	o    *Options
	role string // "client" or "server"

	qp    *verbs.QP
	recv  *verbs.MR // the next message of the peer
	rdma  *verbs.MR // server: the text; client: the returned text
	start *verbs.MR // client: the text

	state  state
	remote message // the last message of the peer
}

// newEndpoint returns a client's endpoint, or with the ID of a request a server's.
func newEndpoint(p *printer, o *Options, a *adapter.Adapter, request *rdmacm.ID) (*endpoint, error) {
	c, err := a.Conn(request)
	if err != nil {
		return nil, err
	}
	e := &endpoint{printer: p, Conn: c, o: o, role: client, state: idle}
	if request != nil {
		e.role, e.state = server, connectRequest
	}
	c.Idle, c.Completed, c.Happened = o.Idle, e.completed, e.happened
	return e, nil
}

// build creates the objects and the buffers, with the access rights of rping, and
// posts the receive.
func (e *endpoint) build() error {
	pd := e.NewPD()
	e.Queue = e.NewQueue(cqDepth)
	e.qp = e.newQP(pd)
	rights := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite
	e.recv = e.NewMR(pd, messageLen, ib.AccessLocalWrite)
	e.rdma = e.NewMR(pd, e.o.Size, rights)
	if e.role == client {
		e.start = e.NewMR(pd, e.o.Size, rights)
	}
	if err := e.Err(); err != nil {
		return err
	}
	e.step("created pd %p", pd)
	e.step("created channel %p", e.Queue)
	e.step("created cq %p", e.Queue.CQ)
	e.step("created qp %p", e.qp)
	e.step("rping_setup_buffers called on cb %p", e)
	e.step("allocated & registered buffers...")
	if err := e.initQP(); err != nil {
		return err
	}
	return e.postRecv()
}

// postRecv posts the receive of the peer's next message.
func (e *endpoint) postRecv() error {
	return e.qp.PostRecv(verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{e.recv.SGE(0, messageLen)}})
}

// say sends a message inline, because the peer may answer before it acknowledges: the
// next message may be written while this one is retransmitted.
func (e *endpoint) say(m message) error {
	var b [messageLen]byte
	m.put(&b)
	return e.qp.PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: b[:]})
}

// param returns the connection parameters of both sides, with the QPN for Options.OwnQP.
func (e *endpoint) param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7, QPN: e.qp.QPN()}
}

// hangUp disconnects and waits a limited time for the peer's answer.
func (e *endpoint) hangUp(ctx context.Context) error {
	if e.o.OwnQP {
		if err := e.qp.Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState); err != nil {
			return err
		}
	}
	if err := e.HangUp(ctx); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// close destroys the objects of build, and the ID.
func (e *endpoint) close() error {
	e.step("rping_free_buffers called on cb %p", e)
	e.step("destroy cm_id %p", e.ID)
	return e.Close()
}

// newQP creates a queue pair; with Options.OwnQP rdmacm does not know it.
func (e *endpoint) newQP(pd *verbs.PD) *verbs.QP {
	attr := &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.Queue.CQ, RecvCQ: e.Queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: messageLen},
	}
	if e.o.OwnQP {
		return e.NewQP(pd, attr)
	}
	return e.NewIDQP(e.ID, pd, attr)
}

// initQP moves a queue pair that rdmacm does not know to INIT.
func (e *endpoint) initQP() error {
	if !e.o.OwnQP {
		return nil
	}
	first := verbs.QPAttr{State: ib.INIT, Port: e.ID.Port()}
	return e.qp.Modify(&first, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags)
}

// moveQP moves the queue pair to RTS with the negotiated attributes.
func (e *endpoint) moveQP() error {
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		attr, mask, err := e.ID.QPAttr(to)
		if err != nil {
			return err
		}
		if err := e.qp.Modify(&attr, mask); err != nil {
			return err
		}
	}
	return nil
}

// finish completes a client's connection after the server's answer: it moves the queue
// pair and sends the RTU.
func (e *endpoint) finish(ctx context.Context) error {
	if err := e.Pass(ctx, rdmacm.EventConnectResponse); err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", rdmacm.EventConnectResponse, e.ID)
	e.step("CONNECT_RESPONSE")
	if err := e.moveQP(); err != nil {
		return err
	}
	return e.ID.Establish()
}
