package rping

import (
	"context"
	"errors"
	"fmt"

	"github.com/softhca/softhca/cmd/softhca/internal/station"
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
	o    *Options
	role string // "client" or "server"
	st   *station.Station
	id   *rdmacm.ID
	ch   *rdmacm.EventChannel // of this ID only

	pd    *verbs.PD
	queue *station.Queue
	qp    *verbs.QP
	recv  *verbs.MR // the message that comes
	send  *verbs.MR // the message that goes
	rdma  *verbs.MR // server: the text; client: where it comes back
	start *verbs.MR // client: the text

	state  state
	remote message // what the peer named last
}

// build makes the objects and posts the receive.
func (e *endpoint) build() error {
	for _, step := range [...]func() error{e.createQueues, e.createQP, e.registerMemory, e.postRecv} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) createQueues() (err error) {
	dev := e.id.Device()
	if e.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	e.step("created pd %p", e.pd)
	if e.queue, err = station.NewQueue(dev, cqDepth); err != nil {
		return err
	}
	e.step("created channel %p", e.queue)
	e.step("created cq %p", e.queue.CQ)
	return nil
}

func (e *endpoint) createQP() (err error) {
	attr := &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.queue.CQ, RecvCQ: e.queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	if e.o.OwnQP {
		e.qp, err = e.newQP(attr)
	} else if err = e.id.CreateQP(e.pd, attr); err == nil {
		e.qp = e.id.QP()
	}
	if err == nil {
		e.step("created qp %p", e.qp)
	}
	return err
}

// registerMemory gives each buffer the rights that rping gives it.
func (e *endpoint) registerMemory() (err error) {
	e.step("rping_setup_buffers called on cb %p", e)
	if e.recv, err = e.pd.RegMR(make([]byte, messageLen), ib.AccessLocalWrite); err != nil {
		return err
	}
	if e.send, err = e.pd.RegMR(make([]byte, messageLen), 0); err != nil {
		return err
	}
	rights := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite
	if e.rdma, err = e.pd.RegMR(make([]byte, e.o.Size), rights); err != nil {
		return err
	}
	if e.role == client {
		if e.start, err = e.pd.RegMR(make([]byte, e.o.Size), rights); err != nil {
			return err
		}
	}
	e.step("allocated & registered buffers...")
	return nil
}

// postRecv posts the receive of the peer's next message.
func (e *endpoint) postRecv() error {
	return e.qp.PostRecv(verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{e.recv.SGE(0, messageLen)}})
}

// say sends a message.
func (e *endpoint) say(m message) error {
	m.put((*[messageLen]byte)(e.send.Bytes()))
	return e.qp.PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, SGList: []verbs.SGE{e.send.SGE(0, messageLen)}})
}

// param is what both sides ask for and, with a QP of their own, offer.
func (e *endpoint) param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7, QPN: e.qp.QPN()}
}

// hangUp disconnects and waits, not for long, until the peer agrees. It does so
// also when the program is to end.
func (e *endpoint) hangUp(ctx context.Context) error {
	ctx, cancel := e.st.Farewell(ctx)
	defer cancel()
	if e.o.OwnQP {
		if err := e.qp.Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState); err != nil {
			return err
		}
	}
	if err := e.id.Disconnect(); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	for e.state != disconnected {
		if err := e.advance(ctx); err != nil {
			break // a peer that is gone is no failure of ours
		}
	}
	return nil
}

// close destroys what build made, and the ID.
func (e *endpoint) close() error {
	e.step("rping_free_buffers called on cb %p", e)
	var errs []error
	if e.qp != nil {
		errs = append(errs, e.destroyQP())
	}
	for _, mr := range []*verbs.MR{e.recv, e.send, e.rdma, e.start} {
		if mr != nil {
			errs = append(errs, mr.Dereg())
		}
	}
	if e.queue != nil {
		errs = append(errs, e.queue.Destroy())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Dealloc())
	}
	e.step("destroy cm_id %p", e.id)
	return errors.Join(append(errs, e.id.Destroy(), e.ch.Close())...)
}

func (e *endpoint) destroyQP() error {
	if e.o.OwnQP {
		return e.qp.Destroy()
	}
	return e.id.DestroyQP()
}
