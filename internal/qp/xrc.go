package qp

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// XRCD is a domain of extended reliable connections (XRC): the targets of a domain
// reach only its own shared receive queues.
type XRCD struct {
	// Num is the domain's number in the table of objects, and Track its row. Both belong to the
	// adapter.
	Num   uint32
	Track restrack.Handle[restrack.XRCDInfo, restrack.NoCounts]

	srqs    int
	targets []*QP
}

// Number returns Num; 0 on nil.
func (d *XRCD) Number() uint32 {
	if d == nil {
		return 0
	}
	return d.Num
}

// Users returns how many targets and shared receive queues are in the domain.
func (d *XRCD) Users() int { return d.srqs + len(d.targets) }

// xrcTarget is the state of an XRC target, a queue pair of its own without queues,
// completion queues or a protection domain: each request names a shared receive queue,
// which has them. Other queue pairs have a nil xrcTarget, on which the methods that the
// queue pair calls do nothing.
type xrcTarget struct {
	qp     *QP
	domain *XRCD
	srq    *SRQ // of the latest request; nil: none, or it was destroyed
}

// Has reports whether q is a target of the domain.
func (d *XRCD) Has(q *QP) bool { return q.xrc != nil && q.xrc.domain == d }

func newXRCTarget(q *QP, d *XRCD) *xrcTarget {
	t := &xrcTarget{qp: q, domain: d}
	d.targets = append(d.targets, q)
	q.in.from = atOnce{} // each message brings receives
	q.resp.admit = t.admit
	return t
}

// destroy takes the target out of its domain.
func (t *xrcTarget) destroy() {
	if t != nil {
		d := t.domain
		i := slices.Index(d.targets, t.qp)
		d.targets = slices.Delete(d.targets, i, i+1)
	}
}

// admit checks which shared receive queue a request names, at the expected PSN, and
// reports whether the checks of RC follow.
func (t *xrcTarget) admit(_ clock.Instant, p *Packet) bool {
	f, r := t.direct(p), &t.qp.resp
	if f.syndrome != 0 {
		r.judge(p, f)
	}
	return f.syndrome == 0
}

// direct finds the shared receive queue that a request is for: the first packet of a
// message names one of the target's domain, the others must name the same one. A number
// of another domain and an unknown number get the same NAK, so that a peer that tries
// numbers learns nothing.
func (t *xrcTarget) direct(p *Packet) fault {
	in, q := &t.qp.in, t.qp
	if start := p.Info.Flags&roce.FlagStart != 0; start != (in.msg == messageNone) {
		return fault{} // the opcode is out of sequence; checkOpcode answers that
	} else if !start {
		if t.srq == nil || t.srq.num != ib.SRQN(p.XRCETH.SRQN) {
			return invalidRequest(ib.WCRemInvReqErr, "another shared receive queue in the middle of a message")
		}
		return fault{}
	}
	s := q.ep.env.SRQs.Find(p.XRCETH.SRQN)
	if s == nil || s.domain != t.domain {
		return invalidRequest(ib.WCRemInvReqErr, "no such shared receive queue in the XRC domain")
	}
	if in.slot.taken && t.srq != s { // taken for a request of a stranger
		t.srq.putBack(&in.slot)
	}
	t.srq, q.via.PD, in.from, in.cq = s, s.pd, s, s.cq
	return fault{}
}

// left handles a shared receive queue that is destroyed: the rest of a message to it is
// refused. READs that were accepted are still answered: they need only their region.
func (t *xrcTarget) left(s *SRQ) {
	if t.srq == s {
		in := &t.qp.in
		t.srq, in.from, in.cq, in.slot.taken = nil, atOnce{}, nil, false
	}
}

// sendMemory returns where the memory of the send queue comes from: usual, but that of a target,
// whose send queue is always empty, is out of the program's reach.
func (t *xrcTarget) sendMemory(usual ring.Allocator) ring.Allocator {
	if t != nil {
		return ring.Allocator{}
	}
	return usual
}

// XRCSRQ says what an SRQ of XRC has in addition to its receives: its number, its domain, and
// the completion queue of all its receives.
type XRCSRQ struct {
	Num    ib.SRQN
	Domain *XRCD
	CQ     *CQ
}

// EnterXRC puts a new shared receive queue into an XRC domain.
func (s *SRQ) EnterXRC(x XRCSRQ) {
	s.num, s.domain, s.cq = x.Num, x.Domain, x.CQ
	x.Domain.srqs++
	x.CQ.Hold()
}

// LeaveXRC takes a shared receive queue that is being destroyed out of its XRC domain, if it
// is in one. The caller has removed it from the table of numbers.
func (s *SRQ) LeaveXRC() {
	if s.domain == nil {
		return
	}
	for _, q := range s.domain.targets {
		q.xrc.left(s)
	}
	s.domain.srqs--
	s.cq.Release()
}

// Num returns the number of an SRQ of XRC, 0 for others.
func (s *SRQ) Num() ib.SRQN { return s.num }

// XRCD returns the domain of an SRQ of XRC, nil for others.
func (s *SRQ) XRCD() *XRCD { return s.domain }

// CQ returns the CQ of an SRQ of XRC, nil for others.
func (s *SRQ) CQ() *CQ { return s.cq }
