package stream

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// The immediate data of a message of a stream: the number of receives that the sender
// has posted again, and whether the sender has ended its data.
const (
	immCredits = 1<<16 - 1
	immFIN     = 1 << 16
)

// The upper half of a work request ID is the kind of the request, the lower half the
// buffer.
const (
	wrRecv    = iota << 32
	wrData    // a message with bytes
	wrControl // a message without bytes
	wrKind    = 3 << 32
)

// maxControl bounds the messages without bytes that are in flight.
const maxControl = 4

// errGone is returned once the adapter is closed or has failed.
var errGone = fmt.Errorf("the adapter is gone: %w", ib.ENODEV)

// errReset is returned once the connection is over and the peer has not ended its data.
var errReset = fmt.Errorf("the connection is over: %w", ib.ECONNRESET)

// stream is a byte stream over the SENDs of a queue pair.
//
// Every message consumes a receive that the peer has posted. A side counts these
// receives as credits. The peer returns them in the immediate data of its messages:
// with data if it has any, otherwise in a message without bytes once it owes half of
// them. The last credit is reserved for such a message: it lets the peer send, and the
// peer's message returns the credit. So neither side waits for credits that the other
// cannot return.
//
// A stream needs no goroutine: any reader or writer polls the completions for all of
// them, and sleeps on the completion channel.
type stream struct {
	id   *rdmacm.ID
	qp   *verbs.QP
	cq   *verbs.CQ
	comp *verbs.CompChannel
	mr   *verbs.MR
	own  greeting

	made   []func() error       // destroy the objects of the stream apart from the queue pair, the last one first
	events *rdmacm.EventChannel // of the ID alone; nil until the connection is established

	closed atomic.Bool // waiting calls return; set without the lock, which others may hold long

	mu      lock.Mutex[lock.Stream] // guards what follows
	wake    chan struct{}           // closed and replaced when completions or events were taken
	waiters int
	peer    greeting

	full []piece // received and not read
	owed uint32  // receives posted again that were not reported to the peer
	eof  bool    // the peer has ended its data

	credits uint32
	free    []uint32 // buffers for sending
	control int      // messages without bytes in flight
	done    bool     // this side has ended its data
	over    bool     // an event has ended the connection
	err     error    // reason why no more can be sent
	drained bool     // no more can be received either
}

// piece is a buffer with bytes that were received.
type piece struct {
	buffer   uint32
	from, to uint32
}

// newStream creates the queue pair of an ID, and posts its receives. On failure the ID
// has none.
func newStream(id *rdmacm.ID, o *options) (*stream, error) {
	s := &stream{
		id: id, own: greeting{uint32(o.buffers), uint32(o.size)}, wake: make(chan struct{}), comp: verbs.NewCompChannel(1),
	}
	if err := s.create(id.Device()); err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	for i := range s.own.buffers {
		s.free = append(s.free, s.own.buffers+i)
		if err := s.receive(i); err != nil {
			return nil, errors.Join(err, id.DestroyQP(), s.destroy())
		}
	}
	return s, nil
}

// create creates the objects of a stream. They are in a protection domain of their own: that
// of the Manager must be empty when the Manager is closed, and the program may close the Conn
// later.
func (s *stream) create(ctx *verbs.Context) error {
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	s.made = append(s.made, pd.Dealloc)
	n := s.own.buffers
	if s.cq, err = ctx.CreateCQ(int(2*n+maxControl), s.comp); err != nil {
		return err
	}
	s.made = append(s.made, s.cq.Destroy)
	if s.mr, err = pd.RegMR(make([]byte, 2*uint64(n)*uint64(s.own.size)), ib.AccessLocalWrite); err != nil {
		return err
	}
	s.made = append(s.made, s.mr.Dereg)
	err = s.id.CreateQP(pd, &verbs.QPInitAttr{
		SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: n + maxControl, MaxRecvWR: n, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	s.qp = s.id.QP()
	return err
}

// destroy destroys the objects of a stream whose queue pair is destroyed. Those of an adapter
// that is gone are gone too.
func (s *stream) destroy() error {
	for last := len(s.made) - 1; last >= 0; last-- {
		if err := s.made[last](); err != nil {
			if _, gone := s.id.Device().QueryDevice(); gone != nil {
				return nil
			}
			return err
		}
		s.made = s.made[:last]
	}
	return nil
}

// meet stores the peer's greeting.
func (s *stream) meet(peer greeting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer, s.credits = peer, peer.buffers
}

// receive posts a buffer.
func (s *stream) receive(buffer uint32) error {
	return s.qp.PostRecv(verbs.RecvWR{WRID: wrRecv | uint64(buffer), SGList: []verbs.SGE{s.sge(buffer, s.own.size)}})
}

func (s *stream) sge(buffer, n uint32) verbs.SGE {
	return s.mr.SGE(uint64(buffer)*uint64(s.own.size), n)
}

// bytes returns the memory of a buffer.
func (s *stream) bytes(buffer uint32) []byte {
	off := uint64(buffer) * uint64(s.own.size)
	return s.mr.Bytes()[off : off+uint64(s.own.size)]
}

// fail stores the reason why nothing can be sent or received any more. s.mu is held, as in the
// following methods.
func (s *stream) fail(err error) {
	if !s.drained {
		s.drained = true
		s.wakeAll()
	}
	s.lose(err)
}

// lose stores the reason why the connection is over. Completions of messages that came before may
// still be on their way: nothing orders them after the flushed sends or before the events of
// the connection. The flush of a receive comes after them.
func (s *stream) lose(err error) {
	if s.err == nil {
		s.err = err
		s.wakeAll()
	}
}

// wakeAll makes the waiting calls look again.
func (s *stream) wakeAll() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// poll takes the pending completions, returns credits that are due, and reports whether
// there were completions.
func (s *stream) poll() bool {
	var wcs [16]verbs.WC
	taken := 0
	for {
		n, err := s.cq.Poll(wcs[:])
		if err != nil {
			s.fail(fmt.Errorf("%w: %w", errGone, err))
		}
		for i := range wcs[:n] {
			s.complete(&wcs[i])
		}
		taken += n
		if n < len(wcs) {
			break
		}
	}
	s.repay()
	if taken > 0 && s.waiters > 0 {
		s.wakeAll()
	}
	return taken > 0
}

func (s *stream) complete(wc *verbs.WC) {
	switch {
	case wc.Status == ib.WCRetryExcErr:
		s.lose(fmt.Errorf("the peer does not answer: %w", ib.ETIMEDOUT))
	case wc.Status != ib.WCSuccess && wc.WRID&wrKind == wrRecv:
		s.fail(errReset)
	case wc.Status != ib.WCSuccess:
		s.lose(errReset)
	case wc.WRID&wrKind == wrRecv:
		s.arrived(uint32(wc.WRID), wc)
	case wc.WRID&wrKind == wrData:
		s.free = append(s.free, uint32(wc.WRID))
	default:
		s.control--
	}
}

// arrived handles a message of the peer.
func (s *stream) arrived(buffer uint32, wc *verbs.WC) {
	s.credits += wc.ImmData & immCredits
	s.eof = s.eof || wc.ImmData&immFIN != 0
	if s.credits > s.peer.buffers || wc.Flags&ib.WCWithImm == 0 {
		s.fail(fmt.Errorf("the peer violates the stream protocol: %w", ib.ECONNRESET))
		return
	}
	if wc.ByteLen > 0 {
		s.full = append(s.full, piece{buffer: buffer, to: wc.ByteLen})
		return
	}
	s.recycle(buffer)
}

// recycle posts a buffer again after it was read.
func (s *stream) recycle(buffer uint32) {
	if err := s.receive(buffer); err != nil {
		s.fail(err)
		return
	}
	s.owed++
}

// readErr returns the reason why nothing can be received any more, nil if something may still come.
func (s *stream) readErr() error {
	if s.drained || s.over && s.qp.State() != ib.ERR { // without a flush
		return s.err
	}
	return nil
}

// repay returns the peer's credits once half of them are owed.
func (s *stream) repay() {
	if s.owed >= s.own.buffers/2 && s.credits > 0 && s.control < maxControl && s.err == nil {
		s.tell(0)
	}
}

// tell sends a message without bytes, with the given flags.
func (s *stream) tell(flags uint32) {
	s.control++
	s.post(wrControl, nil, flags)
}

// post sends a message, and returns the owed credits with it.
func (s *stream) post(id uint64, sges []verbs.SGE, flags uint32) {
	err := s.qp.PostSend(verbs.SendWR{
		WRID: id, Opcode: ib.WRSendWithImm, SGList: sges, ImmData: flags | s.owed,
	})
	if err != nil {
		s.news()
		s.fail(err)
		return
	}
	s.credits--
	s.owed = 0
}

// ready reports whether a message with bytes, or the end, may be sent.
func (s *stream) ready() bool { return s.credits > 1 && len(s.free) > 0 && s.err == nil }

// send sends as many bytes of b as fit into a message and returns their number.
func (s *stream) send(b []byte) int {
	last := len(s.free) - 1
	buffer := s.free[last]
	s.free = s.free[:last]
	n := copy(s.bytes(buffer)[:min(s.own.size, s.peer.size)], b)
	s.post(wrData|uint64(buffer), []verbs.SGE{s.sge(buffer, uint32(n))}, 0)
	return n
}

// finish ends this side's data, and reports whether it could.
func (s *stream) finish() bool {
	if s.done {
		return true
	}
	if s.credits < 2 || s.control == maxControl || s.err != nil {
		return false
	}
	s.done = true
	s.tell(immFIN)
	return true
}

// idle reports whether no message to the peer is in flight.
func (s *stream) idle() bool { return s.control == 0 && len(s.free) == int(s.own.buffers) }

// read moves received bytes to b and returns their number.
func (s *stream) read(b []byte) int {
	total := 0
	for len(s.full) > 0 && total < len(b) {
		p := &s.full[0]
		n := copy(b[total:], s.bytes(p.buffer)[p.from:p.to])
		total += n
		p.from += uint32(n)
		if p.from == p.to {
			s.recycle(p.buffer)
			s.full = s.full[1:]
		}
	}
	if len(s.full) == 0 {
		s.full = nil
	}
	s.repay()
	return total
}

// wait sleeps until there may be completions, and returns false if expired closed
// first. s.mu is held before and after, but not during the sleep.
func (s *stream) wait(expired <-chan struct{}) bool {
	if err := s.cq.ReqNotify(false); err != nil {
		s.fail(fmt.Errorf("%w: %w", errGone, err))
		return true
	}
	return s.poll() || s.sleep(expired)
}

// sleep is wait for completions since ReqNotify, and for events.
func (s *stream) sleep(expired <-chan struct{}) bool {
	wake, ok, told, event := s.wake, true, false, false
	s.waiters++
	s.mu.Unlock()
	select {
	case <-s.comp.C(): // also when the adapter goes
		event = true
	case <-wake:
	case <-s.events.Ready():
		told = true
	case <-expired:
		ok = false
	}
	s.mu.Lock()
	s.waiters--
	if event && s.waiters > 0 {
		s.wakeAll() // each waits for an event, and this may have been the only one
	}
	if told {
		s.news()
	}
	return ok
}

// news takes the events of the ID. Any event that an established connection raises is its
// end. No event tells that the program or the Manager has destroyed the ID, or the program the
// queue pair, but the event channel is ready then.
func (s *stream) news() {
	for e, ok := s.events.TryGet(); ok; e, ok = s.events.TryGet() {
		e.Ack()
		s.over = true
		if e.Err != nil || s.qp.State() != ib.ERR { // no receive is flushed
			s.fail(cmp.Or(e.Err, errReset))
		}
		s.lose(errReset)
	}
	if _, err := s.qp.Query(); s.id.QP() != s.qp || errors.Is(err, ib.EINVAL) {
		s.over = true
		s.fail(fmt.Errorf("the connection was destroyed: %w", rdmacm.ErrClosed))
	}
	s.wakeAll()
}
