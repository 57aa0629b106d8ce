package live

import (
	"hash/maphash"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/writes"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

// request is a posted request. Its memory belongs to the adapter until the program has polled a completion
// that covers it. The lock of the checker guards told, changed and elements; the rest does not change once it is posted.
type request struct {
	posted     *stack
	wrID       uint64
	elements   []element
	mark       writes.Mark // when it was posted
	sum        uint64      // of its payload, if summed
	index      uint32      // in the send queue
	length     uint32
	opcode     ib.WROpcode // of a send request
	receive    bool
	signaled   bool
	writesList bool // the adapter writes to the elements
	summed     bool
	told       bool // what is wrong with it was told
	changed    bool // the payload, before the adapter repeated a packet
}

// element is an element of a request's list, and the region that it names; nil if that is wrong.
type element struct {
	ib.SGE
	in *registration
}

// memory returns the memory of the element; nil if it is not known, or may be gone. The lock of the checker is held.
func (e *element) memory() (b []byte) {
	if e.in != nil && e.in.ended == nil {
		b, _ = e.in.at(&e.SGE)
	}
	return b
}

// payload returns the memory of the elements that have a length; nil if one has none. The lock of the checker is held.
func (r *request) payload() (p payload) {
	for i := range r.elements {
		e := &r.elements[i]
		if e.Length == 0 {
			continue
		}
		b := e.memory()
		if b == nil {
			return payload{}
		}
		p.parts = append(p.parts, b)
		p.foreign = p.foreign || e.in.Memory != Program
	}
	return p
}

// since returns how many writes had ended before the first region of the payload was registered: they were to memory
// that has been freed since, or that is written no more.
func (r *request) since() (n uint64) {
	for i := range r.elements {
		if e := &r.elements[i]; e.in != nil && (n == 0 || e.in.since < n) {
			n = e.in.since
		}
	}
	return n
}

// kind is what a send request does with its elements.
type kind struct {
	name    string
	carries bool // payload
	local   bool // it sends nothing, and has no elements
	atomic  bool // it needs a remote address that is a multiple of 8
}

// kinds are the send requests by opcode.
var kinds = [...]kind{
	ib.WRRDMAWrite:        {name: "RDMA WRITE", carries: true},
	ib.WRRDMAWriteWithImm: {name: "RDMA WRITE", carries: true},
	ib.WRSend:             {name: "SEND", carries: true},
	ib.WRSendWithImm:      {name: "SEND", carries: true},
	ib.WRRDMARead:         {name: "RDMA READ"},
	ib.WRAtomicCmpAndSwp:  {name: "atomic", atomic: true},
	ib.WRAtomicFetchAdd:   {name: "atomic", atomic: true},
	ib.WRLocalInv:         {name: "LOCAL_INV", local: true},
	ib.WRBindMW:           {name: "BIND_MW", local: true},
	ib.WRSendWithInv:      {name: "SEND", carries: true},
	ib.WRFlush:            {name: "FLUSH"},
	ib.WRAtomicWrite:      {name: "ATOMIC WRITE", carries: true, atomic: true},
}

// kindOf returns what requests of an opcode do.
func kindOf(o ib.WROpcode) kind {
	if int(o) < len(kinds) && kinds[o].name != "" {
		return kinds[o]
	}
	return kind{name: "request", local: true}
}

// operation returns the name of the request's operation.
func (r *request) operation() string {
	if r.receive {
		return "receive"
	}
	return kindOf(r.opcode).name
}

// requests are those of a queue that no polled completion covers, oldest first. The lock of the checker
// guards them.
type requests struct {
	list     []*request
	limit    uint32 // entries of the queue; the list holds at most as many
	signaled int    // of the list
	lost     bool   // what is outstanding is not known: nothing more is said about the queue
	cq       *CQ    // of the completions; nil for an SRQ
	refusal  refusal
}

// lose forgets the requests.
func (rs *requests) lose() {
	rs.reset()
	rs.lost = true
}

// reset empties the queue.
func (rs *requests) reset() {
	rs.due(-rs.signaled)
	rs.list, rs.signaled, rs.lost, rs.refusal = nil, 0, false, refusal{}
}

// due counts completions that the completion queue is to get.
func (rs *requests) due(n int) {
	if rs.cq != nil {
		rs.cq.due += n
	}
}

// add adds a request.
func (rs *requests) add(r *request) {
	rs.list = append(rs.list, r)
	if r.signaled {
		rs.signaled++
		rs.due(1)
	}
}

// remove removes the requests from index from to before end.
func (rs *requests) remove(from, end int) {
	for _, r := range rs.list[from:end] {
		if r.signaled {
			rs.signaled--
			rs.due(-1)
		}
	}
	if from == 0 {
		clear(rs.list[:end])
		rs.list = rs.list[end:]
		return
	}
	rs.list = append(rs.list[:from], rs.list[end:]...)
}

// withdraw removes a request that the adapter has refused.
func (rs *requests) withdraw(r *request) {
	if n := len(rs.list); n > 0 && rs.list[n-1] == r {
		rs.remove(n-1, n)
	}
}

// QP is a queue pair.
type QP struct {
	Object
	Turn   lock.Mutex[lock.Checked] // makes the calls that post take turns
	qp     *qp.QP
	sigAll bool
	pd     *Object
	srq    *SRQ
	recvCQ *CQ // nil for none

	// The lock of the checker guards what follows.
	sends       *requests // nil for none
	receives    *requests
	access      ib.Access
	errorPolled *stack // an error; nil: none since the last change of state
	stopped     bool   // the program has moved it to ERR
	pathSet     *stack // an alternate path that is not armed; nil for none
}

// SRQ is a shared receive queue.
type SRQ struct {
	Object
	Turn     lock.Mutex[lock.Checked] // as in QP
	pd       *Object
	receives *requests // nil for XRC, whose receives complete elsewhere
}

// QPUses are the objects that a queue pair uses; each may be nil.
type QPUses struct {
	PD             *Object
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ
	Domain         *Object // of RD or XRC
}

// Objects returns all of them.
func (u *QPUses) Objects() []*Object {
	return []*Object{u.PD, u.SendCQ.Base(), u.RecvCQ.Base(), u.SRQ.Base(), u.Domain}
}

// Base returns the object of the queue pair; nil for nil.
func (q *QP) Base() *Object {
	if q == nil {
		return nil
	}
	return &q.Object
}

// Base returns the object of the queue; nil for nil.
func (s *SRQ) Base() *Object {
	if s == nil {
		return nil
	}
	return &s.Object
}

// MadeSRQ returns a new shared receive queue for n receives, of an XRC domain if that is not nil.
func (c *Checker) MadeSRQ(s *qp.SRQ, n uint32, pd *Object, xrc ...*Object) *SRQ {
	if c == nil {
		return nil
	}
	q := &SRQ{pd: pd}
	if len(xrc) == 0 {
		q.receives = &requests{limit: n}
	}
	c.make(&q.Object, "shared receive queue", named("shared receive queue", s.Number()), append(xrc, pd)...)
	return q
}

// Resized makes the number of receives unknown: those of before may be more than fit.
func (s *SRQ) Resized() {
	if s == nil || s.receives == nil {
		return
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.receives.lose()
}

// payload is the memory of a request.
type payload struct {
	parts   [][]byte
	foreign bool // it may be gone
}

// sum returns a sum of the memory. It reports false if there is none, or it is gone.
func (p *payload) sum(seed maphash.Seed) (n uint64, ok bool) {
	add := func() {
		for _, b := range p.parts {
			n = n*31 + maphash.Bytes(seed, b)
		}
	}
	if p.foreign {
		ok = memory.Touch(add) == memory.FaultNone
	} else {
		add()
		ok = true
	}
	return n, ok && len(p.parts) > 0
}
