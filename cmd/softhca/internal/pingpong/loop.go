package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// progress is the progress of a side.
type progress struct {
	sent, received int
	posted         int         // outstanding receives
	nextSlot       int         // slot of the next receive to post
	turns          []turn      // for each QP
	late           *time.Timer // ends a wait that is too long
	sgl            []ib.SGE    // scratch for posting
	wrs            []ib.RecvWR // scratch for posting
}

// turn has the conditions for a QP's next send.
type turn struct {
	send, recv bool
	slot       int // has the last received message
}

// The kinds of work requests, in the upper half of a wr_id; the lower half is
// the slot.
const (
	sendID = 1 << 32
	recvID = 2 << 32
)

// postFirst posts all receives.
func (s *session) postFirst() error {
	s.turns = make([]turn, len(s.qps))
	return s.postRecvs(s.o.RxDepth)
}

// postRecvs posts n receives, each for the next slot.
func (s *session) postRecvs(n int) error {
	s.wrs, s.sgl = s.wrs[:0], s.sgl[:0]
	size := s.o.slotBytes()
	for range n {
		s.sgl = append(s.sgl, s.mr.SGE(uint64(s.o.Size+s.nextSlot*size), uint32(size)))
		s.wrs = append(s.wrs, ib.RecvWR{WRID: recvID | uint64(s.nextSlot)})
		s.nextSlot = (s.nextSlot + 1) % s.slots
	}
	for i := range s.wrs {
		s.wrs[i].SGList = s.sgl[i : i+1]
	}
	s.posted += n
	if s.srq != nil {
		return s.srq.PostRecv(s.wrs...)
	}
	return s.qps[0].PostRecv(s.wrs...)
}

// run sends and receives until both counts are reached. With an error it also returns
// the partial result.
func (s *session) run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.late = time.AfterFunc(math.MaxInt64, func() { cancel(errIdle) })
	defer s.late.Stop()
	for i := range s.turns {
		s.turns[i] = turn{recv: true}
	}
	start := time.Now()
	if s.client {
		for i := range s.qps {
			if err := s.send(i); err != nil {
				return Result{}, err
			}
		}
	}
	var wcs [32]verbs.WC
	for s.received < s.o.Iters || s.sent < s.o.Iters {
		n, err := s.wait(ctx, wcs[:])
		if err != nil {
			return Result{Size: s.o.Size, Iters: min(s.sent, s.received), Elapsed: time.Since(start)}, err
		}
		for i := range wcs[:n] {
			if err := s.complete(&wcs[i]); err != nil {
				return Result{}, err
			}
		}
	}
	r := Result{Size: s.o.Size, Iters: s.o.Iters, Elapsed: time.Since(start)}
	return r, s.settle()
}

// settle waits until the acknowledgement of the last message is sent. Otherwise the
// peer would repeat the message to a closed adapter.
func (s *session) settle() error {
	for _, q := range s.qps {
		if _, err := q.Query(); err != nil {
			return err
		}
	}
	return nil
}

// send posts a message: the client's own, or the last one that the server received.
func (s *session) send(i int) error {
	off := uint64(0)
	if !s.client {
		off = uint64(s.o.Size + s.turns[i].slot*s.o.slotBytes() + s.o.offset())
	}
	s.turns[i].send, s.turns[i].recv = true, true
	sge := [1]ib.SGE{s.mr.SGE(off, uint32(s.o.Size))}
	wr := verbs.SendWR{WRID: sendID, SGList: sge[:], Opcode: ib.WRSend, Flags: ib.SendSignaled}
	switch s.o.Kind {
	case UD:
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah, s.peers[i].qpn, qkey
	case RD:
		wr.EEC, wr.RemoteQPN, wr.RemoteQKey = s.eec, s.peers[i].qpn, qkey
	}
	return s.qps[i].PostSend(wr)
}

// complete handles a completion and continues with its QP.
func (s *session) complete(wc *verbs.WC) error {
	if wc.Status != ib.WCSuccess {
		return fmt.Errorf("qp %v, wr_id %#x: %v after %d messages sent and %d received", wc.QPN, wc.WRID, wc.Status, s.sent, s.received)
	}
	i, ok := s.index[wc.QPN]
	if !ok {
		return fmt.Errorf("completion of qp %v, which is none of ours", wc.QPN)
	}
	t := &s.turns[i]
	if wc.WRID == sendID {
		s.sent++
		t.send = false
	} else {
		t.slot = int(uint32(wc.WRID))
		if err := s.receive(t, wc); err != nil {
			return err
		}
	}
	if t.send || t.recv || s.sent >= s.o.Iters {
		return nil
	}
	return s.send(i)
}

// receive checks a received message, and posts receives when few are left.
func (s *session) receive(t *turn, wc *verbs.WC) error {
	s.received++
	t.recv = false
	if int(wc.ByteLen) != s.o.slotBytes() {
		return fmt.Errorf("message %d has %d bytes, want %d", s.received, wc.ByteLen, s.o.slotBytes())
	}
	if s.client {
		buf := s.mr.Bytes()
		begin := s.o.Size + t.slot*s.o.slotBytes() + s.o.offset()
		if !bytes.Equal(buf[begin:begin+s.o.Size], buf[:s.o.Size]) {
			return fmt.Errorf("message %d does not hold what the client sent", s.received)
		}
	}
	if s.posted--; s.posted > len(s.qps) {
		return nil
	}
	return s.postRecvs(s.o.RxDepth - s.posted)
}

// nakTime is how long a NAK of a peer that reports a failure may take to become a completion.
const nakTime = 100 * time.Millisecond

// errIdle means that the peer or the network is silent.
var errIdle = errors.New("nothing happened for too long")

// idle returns the error of a wait that was too long.
func (s *session) idle() error {
	return fmt.Errorf("%d of %d messages sent, %d received: %w (%v): is the peer the same program with the same options?",
		s.sent, s.o.Iters, s.received, errIdle, s.o.Idle)
}

// ended returns remaining completions, or else the cause of ctx's end. A failure of the
// peer may also have failed a request here, whose completion says more.
func (s *session) ended(ctx context.Context, out []verbs.WC) (int, error) {
	for range 2 {
		if n, err := s.cq.Poll(out); n > 0 || err != nil {
			return n, err
		}
		if err := s.settle(); err != nil {
			return 0, err
		}
		if errors.Is(context.Cause(ctx), errPeer) { // the adapter may be examining the peer's NAK
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), nakTime)
			_ = s.cq.Wait(wait)
			cancel()
		}
	}
	switch why := context.Cause(ctx); {
	case errors.Is(why, errIdle):
		return 0, s.idle()
	case !errors.Is(why, context.Canceled):
		return 0, fmt.Errorf("%d of %d messages sent, %d received: %w", s.sent, s.o.Iters, s.received, why)
	}
	return 0, ctx.Err()
}

// wait returns the next completions.
func (s *session) wait(ctx context.Context, out []verbs.WC) (int, error) {
	if s.channel == nil {
		return s.poll(ctx, out)
	}
	if s.o.Idle > 0 {
		s.late.Reset(s.o.Idle)
	}
	for {
		if n, err := s.cq.Poll(out); n > 0 || err != nil {
			return n, err
		}
		if err := s.cq.ReqNotify(false); err != nil {
			return 0, err
		}
		if n, err := s.cq.Poll(out); n > 0 || err != nil {
			return n, err
		}
		if _, err := s.channel.Get(ctx); err != nil {
			return s.ended(ctx, out)
		}
	}
}

// poll busy-polls, and checks the clock at intervals.
func (s *session) poll(ctx context.Context, out []verbs.WC) (int, error) {
	begin := time.Time{}
	for spins := 0; ; spins++ {
		if n, err := s.cq.Poll(out); n > 0 || err != nil {
			return n, err
		}
		if spins&1023 != 0 {
			continue
		}
		now := time.Now()
		if begin.IsZero() {
			begin = now
		}
		if ctx.Err() != nil {
			return s.ended(ctx, out)
		}
		if s.o.Idle > 0 && now.Sub(begin) > s.o.Idle {
			return 0, s.idle()
		}
	}
}
