package simple

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/station"
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
	st    *station.Station
	idle  time.Duration
	id    *rdmacm.ID
	ch    *rdmacm.EventChannel // of this ID only
	queue *station.Queue
	recv  *verbs.MR

	done map[uint64]bool // wr_ids that have completed
	gone bool            // the connection has ended
}

// build makes the objects and posts the receive.
func (e *endpoint) build() (err error) {
	e.done = map[uint64]bool{}
	if e.queue, err = station.NewQueue(e.id.Device(), 2); err != nil {
		return err
	}
	err = e.id.CreateQP(nil, &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: e.queue.CQ, RecvCQ: e.queue.CQ, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: messageLen},
	})
	if err != nil {
		return err
	}
	pd, err := e.id.PD()
	if err != nil {
		return err
	}
	if e.recv, err = pd.RegMR(make([]byte, messageLen), ib.AccessLocalWrite); err != nil {
		return err
	}
	return e.id.QP().PostRecv(verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{e.recv.SGE(0, messageLen)}})
}

// connect asks the server, and accept answers the client; both wait until the
// connection is there.
func (e *endpoint) connect(ctx context.Context) error {
	if err := e.id.Connect(nil); err != nil {
		return err
	}
	return e.established(ctx)
}

func (e *endpoint) accept(ctx context.Context) error {
	if err := e.id.Accept(nil); err != nil {
		return err
	}
	return e.established(ctx)
}

func (e *endpoint) established(ctx context.Context) error {
	event, err := e.st.Expect(ctx, e.ch, rdmacm.EventEstablished)
	if err != nil {
		return err
	}
	event.Ack()
	return nil
}

// client sends, and waits for the answer, which says that the message came.
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
	return e.id.QP().PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: zeros[:]})
}

// await waits until a work request has completed.
func (e *endpoint) await(ctx context.Context, id uint64) error {
	if e.idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.idle, fmt.Errorf("%w (%v)", errIdle, e.idle))
		defer cancel()
	}
	for !e.done[id] {
		if err := e.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance takes a completion or an event.
func (e *endpoint) advance(ctx context.Context) error {
	var wc [1]verbs.WC
	n, event, err := e.queue.WaitEither(ctx, e.ch, wc[:])
	switch {
	case n > 0 && wc[0].Status == ib.WCSuccess:
		e.done[wc[0].WRID] = true
		return nil
	case n > 0 && wc[0].Status == ib.WCWRFlushErr:
		return nil // an event says why
	case n > 0:
		return fmt.Errorf("%v", wc[0].Status)
	case err != nil:
		return err
	}
	defer event.Ack()
	e.gone = true // nothing that comes now leaves a connection
	return station.NewFailure(event)
}

// hangUp disconnects and waits, not for long, until the peer agrees. It does so
// also when the program is to end.
func (e *endpoint) hangUp(ctx context.Context) error {
	if err := e.id.Disconnect(); err != nil {
		return in("rdma_disconnect", err)
	}
	ctx, cancel := e.st.Farewell(ctx)
	defer cancel()
	for !e.gone {
		if err := e.advance(ctx); ctx.Err() != nil || errors.Is(err, verbs.ErrInvalidHCA) {
			break // a peer that is gone is no failure of ours
		}
	}
	return nil
}

// close destroys what build made, and the ID.
func (e *endpoint) close() error {
	var errs []error
	if e.id.QP() != nil {
		errs = append(errs, e.id.DestroyQP())
	}
	if e.recv != nil {
		errs = append(errs, e.recv.Dereg())
	}
	if e.queue != nil {
		errs = append(errs, e.queue.Destroy())
	}
	return errors.Join(append(errs, e.id.Destroy(), e.ch.Close())...)
}
