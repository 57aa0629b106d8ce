package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
)

// Local work requests send nothing and take no PSN: BIND_MW and LOCAL_INV. The requester
// executes one, once, when it comes to it, and completes it after all earlier ones. Its
// PSNs are an empty range: first is that of the next request, last the one before it.

// Errors of posting local work requests.
var (
	errNoBind    = fmt.Errorf("post send: BIND_MW needs Bind, which says what it binds: %w", ib.EINVAL)
	errLocalData = fmt.Errorf("post send: BIND_MW and LOCAL_INV have no scatter/gather elements: %w", ib.EINVAL)
)

// checkLocal applies the rules of posting that only local work requests have.
func checkLocal(wr *ib.SendWR) error {
	switch {
	case len(wr.SGList) != 0:
		return errLocalData
	case wr.Opcode == ib.WRBindMW && wr.Bind == nil:
		return errNoBind
	}
	return nil
}

// putBind writes the fields of a BIND_MW into an entry.
func putBind(e *ring.SendWQE, b *ib.MWBind) {
	e.RemoteAddr, e.CompareAdd, e.Swap = b.Addr, b.Length, uint64(b.Access)<<32|uint64(b.LKey)
	e.RKey, e.Imm = b.RKey, uint32(b.NewRKey)
}

// bindOf reads the fields of a BIND_MW from an entry.
func bindOf(e *ring.SendWQE) ib.MWBind {
	swap := e.Swap
	return ib.MWBind{
		RKey: e.RKey, NewRKey: ib.RKey(e.Imm), LKey: ib.LKey(swap), Addr: e.RemoteAddr, Length: e.CompareAdd,
		Access: ib.Access(swap >> 32),
	}
}

// executeLocal executes the local work request w, whose queue entry is e, unless it is to fail on demand.
func executeLocal(q *QP, w *begunWR, e *ring.SendWQE) {
	if w.status != ib.WCSuccess {
		return
	}
	if w.fault = w.request().operation().local(q, e); w.fault != memory.FaultNone {
		w.status = ib.WCMWBindErr
	}
}

// executeBindMW executes a BIND_MW.
func executeBindMW(q *QP, e *ring.SendWQE) memory.Fault {
	b := bindOf(e)
	return q.ep.env.Mem.Bind(q.via, &b)
}

// executeLocalInv executes a LOCAL_INV.
func executeLocalInv(q *QP, e *ring.SendWQE) memory.Fault {
	return q.ep.env.Mem.Invalidate(q.via, ib.RKey(e.Imm))
}

// mayExecute applies the fence to a local work request; reads is the number of READs and atomics that are not
// complete. LOCAL_INV waits until it is the oldest: the answers to earlier requests may use the
// key (IBA 10.6.5.1).
func (w *begunWR) mayExecute(oldest bool, reads uint32) bool {
	if w.opcode == ib.WRLocalInv {
		return oldest
	}
	return w.flags&ib.SendFence == 0 || reads == 0
}

// reapLocal completes the local work requests that have become the oldest.
func (c *completer) reapLocal(now clock.Instant) {
	r := c.req
	for !r.drained() && r.ep.State() != ib.ERR && r.queue.oldest().executed() {
		r.complete(now, ib.WCSuccess)
	}
}

// executed reports whether w, which has begun, is local and was executed.
func (w *begunWR) executed() bool { return w.kind == begunLocal && w.status == ib.WCSuccess }

// follows reports whether an acknowledgement of psn completes the local work request w, which
// then directly follows the acknowledged one.
func (w *begunWR) follows(psn ib.PSN) bool { return w.executed() && psn == w.last }

// before reports whether the packet at psn belongs to a request after w. A local work request
// is before the packets that follow it, but sending passes it by itself: it may have failed.
func (w *begunWR) before(psn ib.PSN) bool {
	if w.kind == begunLocal {
		return psn.Diff(w.first) > 0
	}
	return psn.Diff(w.last) > 0
}
