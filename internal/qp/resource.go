package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/roce"
)

// resource is a READ or atomic that the responder has accepted: what is left
// to answer, and what it takes to answer again (E9, E11).
type resource struct {
	kind    roce.Kind
	pending bool   // next to end have still to be sent
	replay  bool   // they have been sent before
	first   ib.PSN // of the original request
	last    ib.PSN
	next    ib.PSN // next response to send
	end     ib.PSN // last response asked for
	msn     ib.MSN
	rkey    ib.RKey
	va      uint64
	length  uint32
	stop    uint32 // bytes of it that the responses to end carry
	mtu     int    // that its PSNs count in; the QP's may have changed since
	value   uint64 // original value of an atomic
}

// resources keeps the last responder-resources READs and atomics, oldest
// first, plus those beyond that are not answered yet.
type resources struct {
	ring []resource // a FIFO in a slice that is compacted in place
	out  int        // entries before this one have nothing to send
}

// ready makes room for one more entry and reports whether there is: depth is
// how many are kept; a peer that has more outstanding than that is tolerated
// up to limit.
func (s *resources) ready(depth, limit uint32) bool {
	if depth == 0 {
		return false
	}
	drop := len(s.ring) - int(depth) + 1
	if drop > s.out {
		drop = s.out
	}
	if drop > 0 {
		s.ring = s.ring[:copy(s.ring, s.ring[drop:])]
		s.out -= drop
	}
	return len(s.ring) < int(max(depth, limit))
}

// reserve makes room for depth entries at once, so that the data path does not
// allocate.
func (s *resources) reserve(depth uint32) {
	if cap(s.ring) < int(depth) {
		s.ring = append(make([]resource, 0, depth), s.ring...)
	}
}

// add appends an entry that is to be answered.
func (s *resources) add(e resource) { s.ring = append(s.ring, e) }

// pending reports whether an entry has something to send.
func (s *resources) pending() bool { return s.out < len(s.ring) }

// front returns the entry to answer next.
func (s *resources) front() *resource {
	for s.out < len(s.ring) && !s.ring[s.out].pending {
		s.out++
	}
	if s.out == len(s.ring) {
		return nil
	}
	return &s.ring[s.out]
}

// find returns the newest entry whose PSNs include p: one that is kept from
// long ago may have the same.
func (s *resources) find(p ib.PSN) (*resource, int) {
	for i := len(s.ring) - 1; i >= 0; i-- {
		e := &s.ring[i]
		if p.InWindow(e.first, e.last.Distance(e.first)+1) {
			return e, i
		}
	}
	return nil, 0
}

// again makes an entry send its responses from p to end once more. They carry
// the present count of messages, as an acknowledgement would.
func (s *resources) again(i int, p, end ib.PSN, msn ib.MSN) {
	e := &s.ring[i]
	e.replay = e.replay || !e.pending || p.Diff(e.next) < 0
	e.pending, e.next, e.end, e.msn = true, p, end, msn
	s.out = min(s.out, i)
}

// clear forgets everything.
func (s *resources) clear() {
	s.ring, s.out = s.ring[:0], 0
}

// duplicate answers a request behind the expected PSN (E9): SEND and WRITE
// are acknowledged again, a READ is read again, an atomic answered from its
// saved result. What cannot be found or does not match is dropped; a
// duplicate is never refused.
func (q *QP) duplicate(p *Packet) {
	r := &q.resp
	q.env.Counters.DuplicateRequest++
	switch p.Info.Kind {
	case roce.KindSend, roce.KindWrite:
		r.reply.ack(q.lastExecuted(p.BTH.PSN))
	case roce.KindReadRequest:
		q.duplicateRead(p)
	case roce.KindCompareSwap, roce.KindFetchAdd:
		e, i := r.res.find(p.BTH.PSN)
		if e == nil || e.kind != p.Info.Kind {
			q.drop(counters.DropDuplicate, p)
			return
		}
		r.res.again(i, e.first, e.last, r.msn)
	default:
		q.drop(counters.DropDuplicate, p)
	}
}

// lastExecuted returns the PSN to acknowledge for a duplicate at p: the last
// one executed, but not past a READ or atomic whose answer the peer may not
// have. Those kept from before p, however long ago, do not matter.
func (q *QP) lastExecuted(p ib.PSN) ib.PSN {
	epsn := q.resp.epsn
	for i := range q.resp.res.ring {
		e := &q.resp.res.ring[i]
		if e.first.InWindow(p.Next(), epsn.Distance(p)-1) {
			return e.first.Prev()
		}
	}
	return epsn.Prev()
}

// duplicateRead answers a READ again from where the peer asks, if it lies
// inside the original in PSN, address and length and has the same rkey.
func (q *QP) duplicateRead(p *Packet) {
	e, i := q.resp.res.find(p.BTH.PSN)
	if e == nil || e.kind != roce.KindReadRequest || e.rkey != p.RETH.RKey {
		q.drop(counters.DropDuplicate, p)
		return
	}
	done := uint64(p.BTH.PSN.Distance(e.first)) * uint64(e.mtu)
	if p.RETH.VA != e.va+done || uint64(p.RETH.Length) > uint64(e.length)-min(done, uint64(e.length)) {
		q.drop(counters.DropDuplicate, p)
		return
	}
	end, stop := p.BTH.PSN.Add(packetCount(p.RETH.Length, e.mtu)-1), uint32(done)+p.RETH.Length
	if e.pending && e.end.Diff(end) > 0 {
		end, stop = e.end, e.stop
	}
	if e.pending && p.BTH.PSN.Diff(e.next) >= 0 {
		e.end, e.stop = end, stop
		return // it has not been reached yet and will be sent in its turn
	}
	e.stop = stop
	q.resp.res.again(i, p.BTH.PSN, end, q.resp.msn)
}
