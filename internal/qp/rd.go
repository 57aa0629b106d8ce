package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/ring"
)

// rdSide is the state of an RD queue pair in addition to its queues. The queue
// pair sends and receives nothing itself: EE contexts do it for the queue pair,
// one work request at a time (Q38). Other queue pairs have a nil rdSide, on which the
// methods that the queue pair calls do nothing.
type rdSide struct {
	qp       *QP
	rdd      *RDD
	receives receives // where EE contexts take receives

	at      *EEC // EE context with the oldest work request; nil: none
	place   rdPlace
	to      ring.SendTo // its destination, read once
	again   bool        // it has started before, up to an RNR NAK
	rnrLeft uint8       // RNR retries left

	next, prev *QP           // in the line at the EE context
	timer      deadline.Link // end of the suspension
}

// rdPlace is where an RD queue pair's oldest work request is.
type rdPlace uint8

const (
	placeQueue     rdPlace = iota // with the queue pair
	placeLine                     // in the line of an EE context
	placeTurn                     // current work request of the EE context
	placeSuspended                // waits after an RNR NAK, then restarts
)

// RDD returns the domain of an RD queue pair, nil for others.
func (q *QP) RDD() *RDD {
	if q.rd == nil {
		return nil
	}
	return q.rd.rdd
}

func newRDSide(q *QP, rdd *RDD) *rdSide {
	rdd.users++
	d := &rdSide{qp: q, rdd: rdd, receives: atOnce{&q.rq}}
	if q.srq != nil {
		d.receives = q.srq
	}
	q.req.turn = func() bool { return false }
	return d
}

// destroy takes the queue pair out of the domain.
func (d *rdSide) destroy() {
	if d != nil {
		d.rdd.users--
	}
}

// rateError returns the error of a rate limit.
func (d *rdSide) rateError() error {
	if d == nil {
		return nil
	}
	return fmt.Errorf("a queue pair of reliable datagrams has no rate limit: give its EE contexts a static rate: %w", ib.EINVAL)
}

// atOnce is a queue pair's own receive queue used by several EE contexts, each
// of which may be in the middle of a message: a receive leaves the queue when it
// is taken, not when it completes.
type atOnce struct{ *recvQueue }

func (a atOnce) take(s *recvSlot) bool {
	room := s.sges[:0]
	if !a.recvQueue.take(s) {
		return false
	}
	s.sges = append(room, s.sges...)
	a.recvQueue.complete()
	return true
}

// complete has nothing to do: the work request left the queue when it was taken.
func (atOnce) complete() {}

// credits reports none: the peer's EE context serves many queue pairs, with a queue each.
func (atOnce) credits() (uint32, bool) { return 0, false }

// begun reports whether the oldest work request has started: SQD lets it finish.
func (d *rdSide) begun() bool {
	return d != nil && (d.again || d.place == placeTurn && d.at.started())
}

// sendPosted has an EE context send the next work request.
func (d *rdSide) sendPosted(now clock.Instant) { d.lineUp(now) }

// lineUp queues the next work request at the EE context that it names, if it
// may start and none is in progress.
func (d *rdSide) lineUp(now clock.Instant) {
	q := d.qp
	if d.at != nil || q.ep.behaviour().requester != sendAll || !q.req.waiting(now) {
		return
	}
	d.to = *q.sq.To(q.sq.Cons())
	var e *EEC
	if n := ib.EECN(d.to.AH); d.to.AH <= uint64(ib.EECNMask) {
		e = q.ep.env.EECs.Find(uint32(n))
	}
	switch {
	case e == nil:
		q.sendError(now, ib.WCInvEECNErr, "no such EE context")
	case e.rdd != d.rdd:
		q.sendError(now, ib.WCLocRDDViolErr, "EE context of another domain")
	case e.ep.behaviour().requester == sendNothing:
		q.sendError(now, ib.WCInvEECStateErr, "EE context in "+e.State().String())
	default:
		d.at, d.place = e, placeLine
		e.line.push(q)
		e.Wake()
	}
}

// pause takes back a work request that has not started (Q11).
func (d *rdSide) pause(now clock.Instant) {
	if !d.begun() {
		d.stopSending(now)
	}
}

// stopSending takes the work request back from the EE context.
func (d *rdSide) stopSending(now clock.Instant) {
	if d == nil {
		return
	}
	switch d.place {
	case placeQueue:
		return
	case placeLine:
		d.at.leaveLine(d.qp)
	case placeTurn:
		d.at.abandon(now, true)
	case placeSuspended:
		d.at.unsuspend(d.qp)
	}
	d.at, d.place, d.again = nil, placeQueue, false
}

// findLost has the EE context process a lost response to the queue pair's work request.
func (d *rdSide) findLost(now clock.Instant) {
	if d != nil && d.place == placeTurn {
		d.at.findLost(now)
	}
}

// leave removes the queue pair from all EE contexts. Receives that they have
// taken complete with status, or vanish if status is SUCCESS.
func (d *rdSide) leave(now clock.Instant, status ib.WCStatus) {
	if d == nil {
		return
	}
	d.stopSending(now)
	for _, e := range d.rdd.eecs {
		e.left(now, d.qp, status)
	}
}

// line is the queue pairs that wait for their turn at an EE context, first come
// first served: for its next work request, each goes to the end of the line.
type line struct{ head, tail *QP }

func (l *line) push(q *QP) {
	q.rd.prev, q.rd.next = l.tail, nil
	if l.tail == nil {
		l.head = q
	} else {
		last := l.tail.rd
		last.next = q
	}
	l.tail = q
}

// pop removes and returns the first; nil if there is none.
func (l *line) pop() *QP {
	q := l.head
	if q != nil {
		l.remove(q)
	}
	return q
}

func (l *line) remove(q *QP) {
	d := q.rd
	if d.prev == nil {
		l.head = d.next
	} else {
		before := d.prev.rd
		before.next = d.next
	}
	if d.next == nil {
		l.tail = d.prev
	} else {
		after := d.next.rd
		after.prev = d.prev
	}
	d.next, d.prev = nil, nil
}
