package live

import (
	"slices"

	"github.com/softhca/softhca/ib"
)

// Begin is called before completions are taken, and End after.
func (q *CQ) Begin() {
	if q != nil {
		q.Turn.Lock()
		q.polls.Add(1)
	}
}

// End is called after Begin.
func (q *CQ) End() {
	if q != nil {
		q.polls.Add(1)
		q.Turn.Unlock()
	}
}

// Completed looks at completions that the program takes, oldest first. Those of receives have their opcode
// even if they failed.
func (q *CQ) Completed(all []ib.WC) {
	if q == nil {
		return
	}
	for i := range all {
		q.completed(&all[i])
	}
	if len(all) == 0 && q.cq.Failed() {
		q.c.sink.add(q.overrun()...)
	}
}

// completed looks at a completion.
func (q *CQ) completed(wc *ib.WC) {
	var at *stack
	if wc.Status != ib.WCSuccess {
		at = q.c.sink.here()
	}
	done, last := q.c.take(wc, at)
	for _, r := range done {
		if wc.Status == ib.WCSuccess {
			q.unchanged(r)
		}
	}
	if last != nil && !last.told && wc.Status != ib.WCSuccess && wc.VendorErr != ib.VendorErrFault {
		q.status(last, wc, []call{{"posted here", last.posted}, {"polled here", at}})
	}
}

// take removes the requests that a completion covers from their queue, and returns them. last is the request that
// completed; it is nil if several requests have its wr_id.
func (c *Checker) take(wc *ib.WC, at *stack) (done []*request, last *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.qps[wc.QPN]
	if q == nil {
		return nil, nil
	}
	if wc.Status != ib.WCSuccess && wc.Status != ib.WCWRFlushErr && q.qp.Type() != ib.UD && !q.stopped {
		q.errorPolled = at
	}
	rs, inOrder := q.sends, true
	if wc.Opcode&ib.WCRecv != 0 {
		rs = q.receives
		if q.srq != nil {
			rs, inOrder = q.srq.receives, false
		}
	}
	if rs == nil || rs.lost {
		return nil, nil
	}
	i := rs.find(wc, inOrder)
	if i < 0 {
		rs.lose()
		return nil, nil
	}
	last = rs.list[i]
	others := rs.others(i, wc.Status == ib.WCSuccess, inOrder)
	if inOrder && len(others) > 0 {
		rs.lose()
	} else {
		from := 0
		if !inOrder {
			from = i
		}
		done = append(done, rs.list[from:i+1]...)
		rs.remove(from, i+1)
	}
	for _, o := range others {
		o.elements = nil // the adapter may be done with them
		if last != nil && (o.posted != last.posted || o.opcode != last.opcode || o.length != last.length) {
			last = nil
		}
	}
	return done, last
}

// find returns the index of the request that a completion is for, -1 if there is none. In a queue that completes
// in order, all before it are done.
func (rs *requests) find(wc *ib.WC, inOrder bool) int {
	success := wc.Status == ib.WCSuccess
	for i, r := range rs.list {
		if r.wrID == wc.WRID && (!success || !inOrder || r.signaled) {
			return i
		}
		if success && inOrder && r.signaled {
			break
		}
	}
	return -1
}

// others returns the other requests with the wr_id of the request at index i, if the completion may be for them. In
// a queue that completes in order, only a completion in error is ambiguous.
func (rs *requests) others(i int, success, inOrder bool) (all []*request) {
	r := rs.list[i]
	if inOrder && (success || r.signaled) {
		return nil
	}
	for _, o := range rs.list[i+1:] {
		if o.wrID == r.wrID {
			all = append(all, o)
		}
		if inOrder && o.signaled {
			break
		}
	}
	return all
}

// unchanged looks whether the program has changed the payload of a request that has succeeded.
func (q *CQ) unchanged(r *request) {
	if !r.summed {
		return
	}
	q.c.mu.Lock()
	var carried payload
	if !r.told {
		carried = r.payload()
	}
	changed := r.changed
	q.c.mu.Unlock()
	now, ok := carried.sum(q.c.sink.seed)
	if !ok || now == r.sum && !changed || slices.ContainsFunc(carried.parts, r.mark.Wrote) {
		return
	}
	q.c.sink.add(found("send-buffer-changed", []call{{"posted here", r.posted}, {"polled here", q.c.sink.here()}},
		"the payload of %s of %d bytes changed between the post and the poll of its completion", article(r.operation()), r.length))
}

// status notes errors that the program's own requests have caused.
func (q *CQ) status(r *request, wc *ib.WC, calls []call) {
	name, text := "", ""
	switch st := wc.Status; {
	case r.receive && st == ib.WCLocLenErr:
		name, text = "receive-too-small", "a message came that does not fit into %s of %d bytes: %v"
	case r.receive && st != ib.WCLocProtErr:
		return // what the peer sent was wrong
	case st == ib.WCRemAccessErr:
		name, text = "remote-access-error", "the peer refused the access of %s of %d bytes: %v"
	case st == ib.WCRemInvReqErr:
		name, text = "remote-request-invalid", "the peer refused %s of %d bytes: %v"
	case st == ib.WCLocLenErr, st == ib.WCLocQPOpErr, st == ib.WCLocProtErr, st == ib.WCMWBindErr, st == ib.WCLocAccessErr:
		name, text = "local-operation-error", "the adapter could not execute %s of %d bytes: %v"
	default:
		return
	}
	q.c.sink.add(found(name, calls, text, article(r.operation()), r.length, wc.Status))
}

// unfinished returns the oldest send request that uses a region and that the adapter still works on; nil for
// none. The lock is held.
func (q *QP) unfinished(in *registration) *request {
	if st := q.qp.State(); q.sends == nil || st != ib.RTS && st != ib.SQD {
		return nil
	}
	ring, _ := q.qp.Queues()
	for _, r := range q.sends.list {
		for i := range r.elements {
			if e := &r.elements[i]; e.in == in && e.Length > 0 && int32(r.index-ring.Cons.Load()) >= 0 {
				return r
			}
		}
	}
	return nil
}

// Ends is called before the program destroys the queue pair.
func (q *QP) Ends() (u Unpolled) {
	if q == nil || q.sends == nil {
		return u
	}
	send, recv := q.sends.cq, (*CQ)(nil)
	if q.receives != nil {
		recv = q.receives.cq
	}
	for i, c := range []*CQ{send, recv} {
		if c != nil && (i == 0 || c != send) {
			u.count(c, q.qp.Num())
		}
	}
	return u
}

// Destroyed notes the outcome.
func (q *QP) Destroyed(err error, taken Taken, u Unpolled) {
	if q == nil {
		return
	}
	q.Object.Destroyed(err, taken)
	if err != nil {
		return
	}
	at := q.c.sink.here()
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	q.c.sink.add(append(q.pathUnused(), u.lost(&q.Object, at)...)...)
	if q.c.qps[q.qp.Num()] != q {
		return
	}
	delete(q.c.qps, q.qp.Num())
	q.forget()
}

// forget forgets the requests. Receives that the queue pair has taken from a shared receive queue do not
// complete, so the checker forgets all receives of that queue. The lock is held.
func (q *QP) forget() {
	for _, rs := range []*requests{q.sends, q.receives} {
		if rs != nil {
			rs.reset()
		}
	}
	if q.srq != nil && q.srq.receives != nil {
		q.srq.receives.lose()
	}
}

// Destroyed notes the outcome.
func (s *SRQ) Destroyed(err error, taken Taken) {
	if s != nil {
		s.Object.Destroyed(err, taken)
	}
}
