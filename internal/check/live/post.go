package live

import (
	"fmt"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/writes"
	"github.com/softhca/softhca/internal/qp"
)

const (
	grh        = 40 // bytes of a UD receive before the message
	atomicSize = 8
	neighbours = 64 // requests before that are compared
)

// MadeQP returns a new queue pair. sigAll: all its requests are signaled.
func (c *Checker) MadeQP(e *qp.QP, sigAll bool, uses QPUses) *QP {
	if c == nil {
		return nil
	}
	q := &QP{qp: e, sigAll: sigAll, pd: uses.PD, srq: uses.SRQ, recvCQ: uses.RecvCQ}
	c.make(&q.Object, "queue pair", fmt.Sprintf("queue pair 0x%06x", uint32(e.Num())), uses.Objects()...)
	if e.Type() == ib.XRCTgt {
		return q // it has no queues, and several handles
	}
	size := e.Cap()
	q.sends = &requests{limit: size.MaxSendWR, cq: uses.SendCQ}
	if q.srq == nil && uses.RecvCQ != nil {
		q.receives = &requests{limit: size.MaxRecvWR, cq: uses.RecvCQ}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.qps[e.Num()] = q
	return q
}

// Begin is called before requests are posted, and End after.
func (q *QP) Begin() {
	if q != nil {
		q.Turn.Lock()
	}
}

// End is called after Begin.
func (q *QP) End() {
	if q != nil {
		q.Turn.Unlock()
	}
}

// failed reports whether an error has moved the queue pair to a state in which it sends nothing.
func (q *QP) failed() bool {
	st := q.qp.State()
	return st == ib.ERR || st == ib.SQE
}

// Moves reports whether the program has polled an error of the queue pair, and the adapter has not moved it yet.
func (q *QP) Moves() bool {
	if q == nil {
		return false
	}
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	return q.errorPolled != nil && !q.failed()
}

// Begin is called before receives are posted, and End after.
func (s *SRQ) Begin() {
	if s != nil {
		s.Turn.Lock()
	}
}

// End is called after Begin.
func (s *SRQ) End() {
	if s != nil {
		s.Turn.Unlock()
	}
}

// Posting is a request that is about to be posted.
type Posting struct {
	c     *Checker
	r     *request
	to    *requests
	pd    *Object
	owner *Object // the queue
	found []finding
	full  bool // all entries of the queue are taken: the adapter is to refuse the request
}

// Done notes the outcome: whether the adapter has accepted the request. If the adapter refuses a request, its error
// says why.
func (p *Posting) Done(err error) {
	if p == nil {
		return
	}
	if err == nil {
		p.c.sink.add(p.found...)
		return
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.full {
		p.refused(err)
		return
	}
	p.to.withdraw(p.r)
}

// note adds a finding.
func (p *Posting) note(name string, others []call, format string, args ...any) {
	p.found = append(p.found, found(name, append([]call{{"posted here", p.r.posted}}, others...), format, args...))
}

// Send looks at a send request that gets an index in the queue. ah is its address handle. The adapter cannot
// see the request before Done.
func (q *QP) Send(wr *ib.SendWR, index uint32, ah *Object) *Posting {
	if q == nil || q.sends == nil {
		return nil
	}
	k := kindOf(wr.Opcode)
	r := &request{
		posted: q.c.sink.here(), mark: writes.Now(), wrID: wr.WRID, index: index, opcode: wr.Opcode,
		signaled: q.sigAll || wr.Flags&ib.SendSignaled != 0, writesList: !k.local && !k.carries, length: uint32(len(wr.InlineData)),
	}
	p := &Posting{c: q.c, r: r, to: q.sends, pd: q.pd, owner: &q.Object}
	if f, ended := ah.used(); ended {
		p.found, r.told = append(p.found, f), true
	}
	if !k.local && wr.Flags&ib.SendInline == 0 {
		r.take(wr.SGList)
	}
	q.c.mu.Lock()
	if p.judge(); p.full {
		q.c.mu.Unlock()
		return p
	}
	if wr.RemoteAddr%atomicSize != 0 && k.atomic {
		p.note("atomic-not-aligned", nil, "an atomic has the remote address %#x, which is not a multiple of 8", wr.RemoteAddr)
		r.told = true
	}
	if typ := q.qp.Type(); typ == ib.UD && int64(r.length) > int64(q.c.mtu()) {
		p.note("message-longer-than-mtu", nil, "a message of %d bytes on a UD queue pair, and the MTU of the port is %d", r.length, q.c.mtu())
		r.told = true
	}
	if q.errorPolled != nil && q.failed() {
		p.note("posted-after-error", []call{{"the error was polled here", q.errorPolled}},
			"the program has polled an error of %s, and posts to it without a new state: the request cannot be sent", q.name)
	}
	var carried payload
	// The adapter reads a message of UD or UC once, so a program may also learn from the peer's answer that it was sent.
	if typ := q.qp.Type(); !r.told && k.carries && typ != ib.UD && typ != ib.UC {
		carried = r.payload()
		r.mark = r.mark.NotBefore(r.since())
	}
	q.c.mu.Unlock()
	r.sum, r.summed = carried.sum(q.c.sink.seed)
	return p
}

// Receive looks at a receive.
func (q *QP) Receive(wr *ib.RecvWR) *Posting {
	if q == nil || q.receives == nil {
		return nil
	}
	p := received(wr, q.c.sink.here(), q.receives, q.pd, &q.Object)
	st := q.qp.State()
	if q.qp.Type() == ib.UD && st != ib.ERR && p.r.length < grh {
		p.note("no-room-for-grh", nil, "a receive of %d bytes on a UD queue pair: the first 40 bytes are for the GRH", p.r.length)
	}
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	p.judge()
	return p
}

// Receive looks at a receive.
func (s *SRQ) Receive(wr *ib.RecvWR) *Posting {
	if s == nil || s.receives == nil {
		return nil
	}
	p := received(wr, s.c.sink.here(), s.receives, s.pd, &s.Object)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	p.judge()
	return p
}

// received returns a receive that is about to be posted.
func received(wr *ib.RecvWR, at *stack, to *requests, pd, owner *Object) *Posting {
	r := &request{posted: at, wrID: wr.WRID, receive: true, signaled: true, writesList: true}
	r.take(wr.SGList)
	return &Posting{c: owner.c, r: r, to: to, pd: pd, owner: owner}
}

// take copies a list.
func (r *request) take(list []ib.SGE) {
	if len(list) == 0 {
		return
	}
	r.elements = make([]element, len(list))
	for i := range list {
		r.elements[i].SGE = list[i]
		r.length += list[i].Length
	}
}

// judge looks at the request, and adds it to its queue unless that is full. The lock is held.
func (p *Posting) judge() {
	r, to := p.r, p.to
	if p.full = to.full(); p.full {
		return
	}
	right := true
	for i := range r.elements {
		right = p.element(i) && right
	}
	r.told = r.told || !right
	if to.lost {
		return
	}
	if right && r.writesList {
		p.overlaps()
	}
	to.add(r)
	if q := to.cq; q != nil && r.signaled && q.due > int(q.cq.Cap()) {
		p.note("cq-too-small", []call{{"created here", q.made}},
			"%s has %d entries, and %d requests are posted whose completions go to it", q.name, q.cq.Cap(), q.due)
	}
}

// element notes what is wrong with an element of the list, and reports whether it is right.
func (p *Posting) element(i int) bool {
	e, op := &p.r.elements[i], article(p.r.operation())
	if e.Length == 0 {
		return true
	}
	in := p.c.regions.byKey[e.LKey]
	if in == nil {
		p.note("key-unknown", nil, "element %d of %s has the lkey %#x: no region has this key, nor had any of the last %d that were deregistered",
			i, op, uint32(e.LKey), maxEnded)
		return false
	}
	registered := call{"region registered here", in.region.made}
	if in.ended != nil {
		how, what := "deregistered here", "a region that was deregistered"
		if in.region.now != in {
			how, what = "registered anew here", fmt.Sprintf("a region that was registered anew, and got the lkey %#x", uint32(in.region.now.Key))
		}
		p.note("key-deregistered", []call{{how, in.ended}, registered}, "element %d of %s has the lkey %#x of %s", i, op, uint32(e.LKey), what)
		return false
	}
	_, within := in.at(&e.SGE)
	switch {
	case in.PD != p.pd:
		p.note("region-of-another-domain", []call{registered},
			"element %d of %s has the lkey %#x of a region of another protection domain than the queue's", i, op, uint32(e.LKey))
	case p.r.writesList && in.Access&ib.AccessLocalWrite == 0:
		p.note("no-local-write", []call{registered},
			"the adapter is to write element %d of %s, and the region with lkey %#x lacks LOCAL_WRITE", i, op, uint32(e.LKey))
	case !within && (in.Memory == Program || in.Memory == Foreign):
		p.note("beyond-region", []call{registered}, "element %d of %s has %d bytes at %#x, and the region with lkey %#x has %d bytes at %#x",
			i, op, e.Length, e.Addr, uint32(e.LKey), len(in.Buf), in.Addr)
	default:
		e.in = in
		return true
	}
	return false
}

// overlaps notes an outstanding request whose results the adapter writes to the same memory.
func (p *Posting) overlaps() {
	list := p.to.list
	for _, o := range list[max(0, len(list)-neighbours):] {
		if !o.writesList {
			continue
		}
		for i := range o.elements {
			for j := range p.r.elements {
				x, y := &o.elements[i], &p.r.elements[j]
				if !overlap(x.memory(), y.memory()) {
					continue
				}
				name := "reads-overlap"
				if p.r.receive {
					name = "receives-overlap"
				}
				p.note(name, []call{{"the earlier one here", o.posted}}, "two outstanding %ss write to the same memory: %d bytes at %#x and %d bytes at %#x",
					p.r.operation(), x.Length, x.Addr, y.Length, y.Addr)
				return
			}
		}
	}
}

// overlap reports whether two ranges have a byte in common.
func overlap(x, y []byte) bool {
	a, b := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return len(x) > 0 && len(y) > 0 && a < b+uintptr(len(y)) && b < a+uintptr(len(x))
}
