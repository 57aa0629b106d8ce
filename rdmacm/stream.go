package rdmacm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// The immediate data of a message of a stream: how many receives of the peer's
// messages are free again, and whether the sender has done.
const (
	immCredits = 1<<16 - 1
	immFIN     = 1 << 16
)

// Work requests are told apart by the upper half of their number; the lower
// one is the buffer.
const (
	wrRecv    = iota << 32
	wrData    // a message with bytes
	wrControl // one without
	wrKind    = 3 << 32
)

// maxControl bounds the messages without bytes that are under way.
const maxControl = 4

// errReset is returned once the connection is over and the peer did not say
// that it has done.
var errReset = fmt.Errorf("the connection is over: %w", ib.ECONNRESET)

// stream is a byte stream over the SENDs of a queue pair.
//
// Every message takes a receive that the peer has posted. A side counts those
// as credits and gets them back in the immediate data of what comes: with data
// if there is any, else in a message of its own once half of them are owed. The
// last credit is not for data or the end of it, but for such a message: it lets
// the peer send, and what the peer sends gives it back. So neither side waits
// for credits that the other cannot give.
//
// It needs no goroutine: any reader or writer takes the completions for all of them, and sleeps
// on the completion channel.
type stream struct {
	qp   *verbs.QP
	cq   *verbs.CQ
	comp *verbs.CompChannel
	mr   *verbs.MR
	own  greeting

	qpDone, removed <-chan struct{} // closed once the queue pair, or the adapter, is gone

	mu      sync.Mutex    // guards what follows
	wake    chan struct{} // closed and replaced when completions were taken
	waiters int
	peer    greeting

	full []piece // received and not read
	owed uint32  // receives that are free again and the peer does not know of
	eof  bool    // the peer has done

	credits uint32
	free    []uint32 // buffers for sending
	control int      // messages without bytes under way
	done    bool     // we have said that we have done
	closed  bool
	err     error // why no more can be sent
}

// piece is a buffer with bytes that were received.
type piece struct {
	buffer   uint32
	from, to uint32
}

// newStream makes the queue pair of an ID, and posts its receives. What belongs
// to it ends with the queue pair.
func newStream(id *ID, o *options) (*stream, error) {
	s := &stream{
		own: greeting{uint32(o.buffers), uint32(o.size)}, wake: make(chan struct{}), comp: verbs.NewCompChannel(1),
		removed: id.dev.removed,
	}
	if err := s.create(id); err != nil {
		return nil, err
	}
	for i := range s.own.buffers {
		s.free = append(s.free, s.own.buffers+i)
		if err := s.receive(i); err != nil {
			return nil, errors.Join(err, id.DestroyQP())
		}
	}
	return s, nil
}

// create makes the objects of a stream.
func (s *stream) create(id *ID) error {
	pd, err := id.PD()
	if err != nil {
		return err
	}
	n := s.own.buffers
	if s.cq, err = id.dev.ctx.CreateCQ(int(2*n+maxControl), s.comp); err != nil {
		return err
	}
	if s.mr, err = pd.RegMR(make([]byte, 2*uint64(n)*uint64(s.own.size)), ib.AccessLocalWrite); err != nil {
		return errors.Join(err, s.cq.Destroy())
	}
	attr := verbs.QPInitAttr{
		SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: n + maxControl, MaxRecvWR: n, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	if err := id.createQP(pd, &attr, s.mr.Dereg, s.cq.Destroy); err != nil {
		return errors.Join(err, s.mr.Dereg(), s.cq.Destroy())
	}
	own := id.owned()
	if own == nil { // by closing the Manager
		return errDestroyed
	}
	s.qp, s.qpDone = own.qp, own.done
	return nil
}

// meet notes what the peer has said of itself.
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

// fail notes why the stream cannot go on. s.mu is held, as in what follows.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// poll takes the completions that are there, gives credits back that are due,
// and reports whether there was anything.
func (s *stream) poll() bool {
	var wcs [16]verbs.WC
	taken := 0
	for {
		n, err := s.cq.Poll(wcs[:])
		if err != nil {
			s.fail(s.lost(err))
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
		close(s.wake)
		s.wake = make(chan struct{})
	}
	return taken > 0
}

func (s *stream) complete(wc *verbs.WC) {
	switch {
	case wc.Status == ib.WCRetryExcErr:
		s.fail(fmt.Errorf("the peer does not answer: %w", ib.ETIMEDOUT))
	case wc.Status != ib.WCSuccess:
		s.fail(errReset)
	case wc.WRID&wrKind == wrRecv:
		s.arrived(uint32(wc.WRID), wc)
	case wc.WRID&wrKind == wrData:
		s.free = append(s.free, uint32(wc.WRID))
	default:
		s.control--
	}
}

// arrived takes a message of the peer.
func (s *stream) arrived(buffer uint32, wc *verbs.WC) {
	s.credits += wc.ImmData & immCredits
	s.eof = s.eof || wc.ImmData&immFIN != 0
	if s.credits > s.peer.buffers || wc.Flags&ib.WCWithImm == 0 {
		s.fail(fmt.Errorf("the peer breaks the protocol of streams: %w", ib.ECONNRESET))
		return
	}
	if wc.ByteLen > 0 {
		s.full = append(s.full, piece{buffer: buffer, to: wc.ByteLen})
		return
	}
	s.recycle(buffer)
}

// recycle posts a buffer again that has been read.
func (s *stream) recycle(buffer uint32) {
	if err := s.receive(buffer); err != nil {
		s.fail(err)
		return
	}
	s.owed++
}

// repay tells the peer of its credits once half of them are owed.
func (s *stream) repay() {
	if s.owed >= s.own.buffers/2 && s.credits > 0 && s.control < maxControl && s.err == nil {
		s.tell(0)
	}
}

// tell sends a message without bytes.
func (s *stream) tell(flags uint32) {
	s.control++
	s.post(wrControl, nil, flags)
}

// post sends a message, and with it the credits that are owed.
func (s *stream) post(id uint64, sges []verbs.SGE, flags uint32) {
	err := s.qp.PostSend(verbs.SendWR{
		WRID: id, Opcode: ib.WRSendWithImm, SGList: sges, ImmData: flags | s.owed,
	})
	if err != nil {
		s.fail(err)
		return
	}
	s.credits--
	s.owed = 0
}

// ready reports whether a message with bytes, or the end, may be sent.
func (s *stream) ready() bool { return s.credits > 1 && len(s.free) > 0 && s.err == nil }

// send sends as much of b as a message has room for and returns how much.
func (s *stream) send(b []byte) int {
	last := len(s.free) - 1
	buffer := s.free[last]
	s.free = s.free[:last]
	n := copy(s.bytes(buffer)[:min(s.own.size, s.peer.size)], b)
	s.post(wrData|uint64(buffer), []verbs.SGE{s.sge(buffer, uint32(n))}, 0)
	return n
}

// finish says that no more will be sent, and reports whether it could.
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

// idle reports whether nothing is under way to the peer any more.
func (s *stream) idle() bool { return s.control == 0 && len(s.free) == int(s.own.buffers) }

// read moves what was received to b and returns how much.
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

// wait sleeps until completions may have come, and reports false if expired
// closed first. s.mu is held before and after, not meanwhile.
func (s *stream) wait(expired <-chan struct{}) bool {
	if err := s.cq.ReqNotify(false); err != nil {
		s.fail(s.lost(err))
		return true
	}
	if s.poll() {
		return true
	}
	wake, ok := s.wake, true
	s.waiters++
	s.mu.Unlock()
	select {
	case <-s.comp.C():
	case <-wake:
	case <-s.qpDone:
	case <-s.removed:
	case <-expired:
		ok = false
	}
	s.mu.Lock()
	s.waiters--
	if err := s.lost(nil); err != nil {
		s.fail(err)
	}
	return ok
}

// lost returns why the queue pair is gone, err if it is there.
func (s *stream) lost(err error) error {
	switch {
	case isClosed(s.qpDone):
		return fmt.Errorf("the connection was destroyed: %w", ErrClosed)
	case isClosed(s.removed):
		return errGone
	}
	return err
}

// close makes all waiting calls return.
func (s *stream) close() {
	s.closed = true
	close(s.wake)
	s.wake = make(chan struct{})
}
