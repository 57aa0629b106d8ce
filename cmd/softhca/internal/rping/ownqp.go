package rping

import (
	"context"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// newQP makes a queue pair, with Options.OwnQP one that rdmacm does not know.
func (e *endpoint) newQP(pd *verbs.PD) *verbs.QP {
	attr := &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.Queue.CQ, RecvCQ: e.Queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
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

// moveQP moves the queue pair to RTS as both sides agreed.
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

// finish is what a client does when the server's answer is there: it moves the
// queue pair and tells the server.
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
