package qp

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
)

// Sentinel errors of the posting calls; each unwraps to its errno.
var (
	errQueueFull = fmt.Errorf("work queue full: poll its completions first: %w", ib.ENOMEM)
	errNoAH      = fmt.Errorf("UD needs an address handle of its adapter: %w", ib.EINVAL)
	errNotInline = fmt.Errorf("InlineData without the flag SendInline would not be sent: %w", ib.EINVAL)
	errInlineSGE = fmt.Errorf("an inline request carries its payload in InlineData, not in scatter/gather elements: %w", ib.EINVAL)
)

// PostSend adds send work requests to the send queue in order. It returns how many
// it posted: all of them, or those before the one that err describes. The caller
// then rings the doorbell of the shard. Errors unwrap to EINVAL, EOPNOTSUPP or
// ENOMEM (queue full). Does not block on the shard and does not allocate unless it
// fails.
func (q *QP) PostSend(wrs ...ib.SendWR) (n int, err error) {
	s := q.Sends()
	defer s.Done()
	for n < len(wrs) && err == nil {
		if err = s.Post(&wrs[n]); err == nil {
			n++
		}
	}
	return n, err
}

// Sends is the producing side of a send queue. One caller holds it from
// QP.Sends to Done.
type Sends struct {
	q      *QP
	prod   uint32
	posted Posted
}

// Posted summarises the requests of one posting call.
type Posted struct {
	Requests          int
	Bytes             uint64 // payload of all requests; for a READ, the bytes requested
	Behind            bool   // the queue was not empty: requests are in flight, or about to be
	HonorsSuppression bool   // the poster observes ring.FlagSuppressed
}

// Sends returns the posting side of the send queue. It waits until no other
// caller holds it.
func (q *QP) Sends() Sends {
	q.sq.mu.Lock()
	prod := q.sq.Prod()
	return Sends{q: q, prod: prod, posted: Posted{Behind: !q.sq.Idle(prod)}}
}

// Next returns the index of the next request. The requester has finished it when the index of the consumer, in the
// header of the queue, is past it.
func (s *Sends) Next() uint32 { return s.prod }

// Posted returns what was posted since QP.Sends.
func (s *Sends) Posted() Posted { return s.posted }

// Done publishes the posted requests to the requester.
func (s *Sends) Done() {
	sq := &s.q.sq
	sq.Publish(s.prod)
	sq.mu.Unlock()
}

// Post adds a work request, as QP.PostSend does. It copies wr.
func (s *Sends) Post(wr *ib.SendWR) error {
	sq := &s.q.sq
	length, err := s.check(wr)
	if err != nil {
		return err
	}
	if sq.Full(s.prod) {
		return errQueueFull
	}
	sq.write(s.prod, wr, length)
	s.prod++
	s.posted.Requests++
	s.posted.Bytes += uint64(length)
	return nil
}

// Refuse returns the error of Post if the queue were full. It posts nothing.
func (s *Sends) Refuse(wr *ib.SendWR) error {
	if _, err := s.check(wr); err != nil {
		return err
	}
	return errQueueFull
}

// check returns the bytes of payload of a work request that the queue pair takes in its state.
func (s *Sends) check(wr *ib.SendWR) (uint32, error) {
	if st := s.q.State(); behaviourOf(st).postSend == postRefuse {
		return 0, fmt.Errorf("post send in state %v: it takes RTS: %w", st, ib.EINVAL)
	}
	return s.q.checkSend(wr)
}

// checkSend applies the rules of posting and returns the bytes of payload.
func (q *QP) checkSend(wr *ib.SendWR) (uint32, error) {
	req := requestOf(wr.Opcode)
	if req == nil {
		return 0, fmt.Errorf("post send: %v is not provided: %w", wr.Opcode, ib.EOPNOTSUPP)
	}
	if !req.types.has(q.ep.typ) {
		return 0, fmt.Errorf("post send: %v QPs have no %v: %w", q.ep.typ, wr.Opcode, ib.EINVAL)
	}
	if len(wr.SGList) > int(q.sq.maxSGE) {
		return 0, fmt.Errorf("post send: %d gather elements, the QP takes %d: %w", len(wr.SGList), q.sq.maxSGE, ib.EINVAL)
	}
	length := memory.TotalLength(wr.SGList)
	if wr.Flags&ib.SendInline == 0 {
		if len(wr.InlineData) != 0 {
			return 0, errNotInline
		}
	} else {
		var err error
		if length, err = q.checkInline(wr, req); err != nil {
			return 0, err
		}
	}
	if length > MaxMessage {
		return 0, fmt.Errorf("post send: %d bytes, a message has at most %d: %w", length, uint64(MaxMessage), ib.EINVAL)
	}
	switch op := req.operation(); {
	case op.local != nil:
		return 0, checkLocal(wr)
	case op.answered() && q.ep.attr.MaxRDAtomic == 0 && q.ep.connected() && behaviourOf(q.State()).postSend != postFlush:
		return 0, fmt.Errorf("post send: %v with max_rd_atomic 0 could never be sent: %w", wr.Opcode, ib.EINVAL)
	case !op.demand.holds(length) && op.carries:
		return 0, fmt.Errorf("post send: %v takes %d bytes, the request has %d: %w", wr.Opcode, op.demand.size, length, ib.EINVAL)
	case !op.demand.holds(length):
		return 0, fmt.Errorf("post send: %v returns %d bytes, the list holds %d: %w", wr.Opcode, op.demand.size, length, ib.EINVAL)
	case wr.Opcode == ib.WRFlush:
		return 0, checkFlush(&wr.Flush, length)
	}
	if wr.AH == 0 && onDatagrams.has(q.ep.typ) {
		return 0, errNoAH
	}
	return uint32(length), nil
}

// checkFlush checks a FLUSH with n bytes in its list.
func checkFlush(f *ib.Flush, n uint64) error {
	switch _, ok := ib.FlushRights(f.Type); {
	case !ok || f.Level > ib.FlushRegion:
		return fmt.Errorf("post send: FLUSH of type %d and level %d: %w", f.Type, f.Level, ib.EINVAL)
	case f.Length > MaxMessage:
		return fmt.Errorf("post send: FLUSH of %d bytes, it flushes at most %d: %w", f.Length, uint64(MaxMessage), ib.EINVAL)
	case n != 0:
		return fmt.Errorf("post send: FLUSH has no data, the list holds %d bytes: %w", n, ib.EINVAL)
	}
	return nil
}

// flushLevelShift is where the level of a FLUSH begins in ring.SendWQE.Imm.
const flushLevelShift = 4

func (q *QP) checkInline(wr *ib.SendWR, req *request) (uint64, error) {
	switch {
	case !req.operation().carries:
		return 0, fmt.Errorf("post send: %v carries no inline data: %w", wr.Opcode, ib.EINVAL)
	case len(wr.SGList) != 0:
		return 0, errInlineSGE
	case len(wr.InlineData) > int(q.sq.maxInline):
		return 0, fmt.Errorf("post send: %d inline bytes, the QP takes %d: %w", len(wr.InlineData), q.sq.maxInline, ib.EINVAL)
	}
	return uint64(len(wr.InlineData)), nil
}

// PostRecv adds receive work requests in order and returns how many were
// taken, as PostSend does. In ERR the caller rings the doorbell of the shard, which
// flushes them.
func (q *QP) PostRecv(wrs ...ib.RecvWR) (n int, err error) {
	own, err := receivesOf(q)
	if err != nil {
		return 0, err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	for n = range wrs {
		if err := takesReceives(q.State()); err != nil {
			return n, err
		}
		if err := own.post(&wrs[n]); err != nil {
			return n, err
		}
	}
	return len(wrs), nil
}

// RefuseRecv returns the error of QP.PostRecv if the queue were full. It posts nothing.
func RefuseRecv(q *QP, wr *ib.RecvWR) error {
	own, err := receivesOf(q)
	if err == nil {
		err = takesReceives(q.State())
	}
	if err != nil {
		return err
	}
	return own.refuse(wr)
}

// receivesOf returns the receive queue that belongs to a queue pair.
func receivesOf(q *QP) (*recvQueue, error) {
	if q.srq != nil {
		return nil, fmt.Errorf("post receive: the QP takes its receives from an SRQ: %w", ib.EINVAL)
	}
	if !q.rq.exists() {
		return nil, fmt.Errorf("post receive: %v QPs have no receive queue: %w", q.ep.typ, ib.EINVAL)
	}
	return &q.rq, nil
}

// takesReceives returns the error of posting a receive in a state, nil if the state allows it.
func takesReceives(st ib.QPState) error {
	if behaviourOf(st).postRecv == postRefuse {
		return fmt.Errorf("post receive in state %v: it takes INIT: %w", st, ib.EINVAL)
	}
	return nil
}

var errRecvTooLong = errors.New("post receive: scatter elements hold more than 2^31 bytes")

// post adds a work request. The caller holds the lock.
func (r *recvQueue) post(wr *ib.RecvWR) error {
	n, err := r.check(wr)
	if err != nil {
		return err
	}
	if r.Full(r.Prod()) {
		return errQueueFull
	}
	i, sges := r.Prod(), uint32(len(wr.SGList))
	*r.At(i) = ring.RecvWQE{WRID: wr.WRID, Length: uint32(n), NumSGE: sges}
	copy(r.SGEs(i, sges), wr.SGList)
	r.Publish(i + 1)
	return nil
}

// refuse returns the error of post if the queue were full.
func (r *recvQueue) refuse(wr *ib.RecvWR) error {
	if _, err := r.check(wr); err != nil {
		return err
	}
	return errQueueFull
}

// check applies the rules of posting and returns the bytes of the scatter elements.
func (r *recvQueue) check(wr *ib.RecvWR) (uint64, error) {
	n := memory.TotalLength(wr.SGList)
	switch {
	case len(wr.SGList) > int(r.maxSGE):
		return 0, fmt.Errorf("post receive: %d scatter elements, the queue takes %d: %w", len(wr.SGList), r.maxSGE, ib.EINVAL)
	case n > MaxMessage:
		return 0, fmt.Errorf("%w: %w", errRecvTooLong, ib.EINVAL)
	}
	return n, nil
}

// sendQueue is the queue of send work requests. Its entries may be in memory
// that the program writes directly; the requester's notes about them are in
// memory that the program cannot reach.
type sendQueue struct {
	ring.Ring[ring.SendWQE]
	mu        lock.Mutex[lock.SendQueue] // guards the producing side
	begun     []begunWR                  // by slot
	maxSGE    uint32
	maxInline uint32
	cq        *CQ
	sigAll    bool // every work request is signalled
	typ       ib.QPType
	datagrams bool // each entry has its own destination: a ring.SendTo
	foreign   bool // others can write the memory
}

// begunWR holds the requester's notes on a started work request. After that the
// requester reads no field of the entry that it would have to check again.
type begunWR struct {
	first, last ib.PSN        // its PSNs
	length      uint32        // bytes of payload; of a READ, bytes asked for
	at          clock.Instant // when it was started
	ssn         uint32        // number of the last of its messages, or of those before it
	opcode      ib.WROpcode
	flags       ib.SendFlags
	numSGE      uint8
	kind        begunKind
	fault       memory.Fault // why it failed, if that was the memory, or a fault on demand
	status      ib.WCStatus  // with which it fails once all earlier ones are complete, and is not sent; SUCCESS: none
}

// begunKind is the kind of answer that completes a work request.
type begunKind uint8

const (
	begunAcked    begunKind = iota // an acknowledgement, of others too; for UC and UD, that it is sent
	begunAnswered                  // responses of its own: a READ or an atomic
	begunLocal                     // nothing: it was executed here, and waits for those before it
)

// request returns the row of the work request's opcode.
func (w *begunWR) request() *request { return &requests[w.opcode] }

// carried returns the bytes of payload of the request's packets.
func (w *begunWR) carried() uint32 {
	if w.request().operation().carries {
		return w.length
	}
	return 0
}

// returned returns the bytes that the answer to the work request brings.
func (w *begunWR) returned() uint32 { return w.request().operation().returned(w.length) }

// sendRoom returns the number of bytes after each entry of a send queue.
func sendRoom(t ib.QPType, c *ib.QPCap) uint32 {
	room := max(ring.SGERoom(c.MaxSendSGE), (c.MaxInlineData+7)&^7)
	if onSendTo.has(t) {
		room += ring.SendToSize
	}
	return room
}

func (s *sendQueue) init(a ring.Allocator, t ib.QPType, c ib.QPCap) error {
	s.maxSGE, s.maxInline, s.foreign = c.MaxSendSGE, c.MaxInlineData, a.Alloc != nil
	s.typ, s.datagrams = t, onSendTo.has(t)
	if err := s.Init(a, c.MaxSendWR, sendRoom(t, &c)); err != nil {
		return err
	}
	s.begun = make([]begunWR, s.Cap())
	return nil
}

// write fills entry i with a work request of length bytes.
func (s *sendQueue) write(i uint32, wr *ib.SendWR, length uint32) {
	e := s.At(i)
	e.WRID, e.RemoteAddr, e.CompareAdd, e.Swap = wr.WRID, wr.RemoteAddr, wr.CompareAdd, wr.Swap
	e.Length, e.RKey, e.Imm = length, wr.RKey, wr.ImmData
	e.Opcode, e.Flags, e.NumSGE = wr.Opcode, wr.Flags, uint8(len(wr.SGList))
	switch wr.Opcode {
	case ib.WRSendWithInv, ib.WRLocalInv:
		e.Imm = uint32(wr.InvRKey)
	case ib.WRBindMW:
		putBind(e, wr.Bind)
	case ib.WRFlush:
		e.Imm, e.CompareAdd = uint32(wr.Flush.Type)|uint32(wr.Flush.Level)<<flushLevelShift, uint64(wr.Flush.Length)
	default:
	}
	if s.datagrams {
		*s.To(i) = sendTo(s.typ, wr)
	}
	copy(s.SGEs(i, uint32(len(wr.SGList))), wr.SGList)
	if wr.Flags&ib.SendInline != 0 {
		copy(s.Inline(i, length), wr.InlineData)
	}
}

// note returns the requester's notes on entry i, without its PSNs. If others
// can write the queue's memory, it checks the entry first.
func (s *sendQueue) note(i uint32) *begunWR {
	e, w := s.At(i), s.at(i)
	*w = begunWR{length: e.Length, opcode: e.Opcode, flags: e.Flags, numSGE: e.NumSGE}
	if s.foreign && !s.sane(w, i) {
		*w = begunWR{opcode: ib.WRSend, status: ib.WCLocQPOpErr}
	} else {
		op := w.request().operation()
		if w.kind = op.begun(); op.answer.returns == returnsValue {
			w.length = atomicSize // the rest of a longer list stays as it is
		}
	}
	return w
}

// sane reports whether the opcode, flags, lengths and number of elements of
// entry i, as noted in w, obey the rules of posting.
func (s *sendQueue) sane(w *begunWR, i uint32) bool {
	req := requestOf(w.opcode)
	if req == nil || !req.types.has(s.typ) || uint32(w.numSGE) > s.maxSGE || w.length > MaxMessage {
		return false
	}
	switch op := req.operation(); {
	case op.local != nil:
		return w.length == 0 && w.numSGE == 0 && w.flags&ib.SendInline == 0
	case !op.holdsAnswer(uint64(w.length)), w.opcode == ib.WRFlush && w.length != 0:
		return false
	case w.flags&ib.SendInline != 0:
		return w.length <= s.maxInline && w.numSGE == 0 && op.carries
	default:
		return memory.TotalLength(s.SGEs(i, uint32(w.numSGE))) == uint64(w.length)
	}
}

// at returns what was noted of the work request at index i.
func (s *sendQueue) at(i uint32) *begunWR { return &s.begun[s.Slot(i)] }

// oldest returns what was noted of the oldest work request, which has started.
func (s *sendQueue) oldest() *begunWR { return s.at(s.Cons()) }

// sges returns the elements of the begun work request at index i.
func (s *sendQueue) sges(i uint32) []ib.SGE { return s.SGEs(i, uint32(s.at(i).numSGE)) }

// signalled reports whether the work request at index i completes with a CQ
// entry on success.
func (s *sendQueue) signalled(i uint32) bool {
	return s.sigAll || s.At(i).Flags&ib.SendSignaled != 0
}
