package rping

import (
	"context"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// newQP makes a queue pair that rdmacm does not know, and moves it to INIT.
func (e *endpoint) newQP(attr *verbs.QPInitAttr) (*verbs.QP, error) {
	q, err := e.pd.CreateQP(attr)
	if err != nil {
		return nil, err
	}
	first := verbs.QPAttr{State: ib.INIT, Port: e.id.Port()}
	return q, q.Modify(&first, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags)
}

// moveQP moves the queue pair to RTS as both sides agreed.
func (e *endpoint) moveQP() error {
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		attr, mask, err := e.id.QPAttr(to)
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
	event, err := e.st.Expect(ctx, e.ch, rdmacm.EventConnectResponse)
	if err != nil {
		return err
	}
	e.step("cma_event type %v cma_id %p (parent)", event.Type, e.id)
	e.step("CONNECT_RESPONSE")
	event.Ack()
	if err := e.moveQP(); err != nil {
		return err
	}
	return e.id.Establish()
}
