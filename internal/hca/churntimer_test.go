package hca_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// timed is what the model knows of a queue pair with a timer: whose peer never
// answers, unless the test does.
type timed struct {
	q       *qp.QP
	peer    netip.Addr
	timeout time.Duration
	retries int           // left
	due     clock.Instant // of the next repetition or the end; Never without one
	psn     ib.PSN        // of the request
}

// timerWorld is an adapter with many timers.
type timerWorld struct {
	*world
	pd    *hca.PD
	cq    *qp.CQ
	all   churn.Pool[*timed]
	made  int // requests
	fired int
	sent  map[ib.QPN]int // packets of the last step
	ended map[ib.QPN]int // completions of the last step
}

const timerQPs = 400

func newTimerWorld(t *testing.T) *timerWorld {
	w := &timerWorld{world: newWorld(t, hca.Limits{}), sent: map[ib.QPN]int{}, ended: map[ib.QPN]int{}}
	var err error
	w.pd, err = w.hca.AllocPD()
	w.must(err)
	w.cq, err = w.hca.CreateCQ(2*timerQPs, nil)
	w.must(err)
	return w
}

// create makes a queue pair of its own peer, for each peer has a window.
func (w *timerWorld) create() {
	q, err := w.hca.CreateQP(w.pd, hca.QPConfig{
		Type: ib.RC, SendCQ: w.cq, RecvCQ: w.cq, SigAll: true, Cap: ib.QPCap{MaxSendWR: 1, MaxSendSGE: 1},
	})
	w.must(err)
	n := q.Num()
	m := &timed{q: q, peer: netip.AddrFrom4([4]byte{11, 0, byte(n >> 8), byte(n)})}
	w.all.Add(m)
	w.connect(m)
}

// connect takes a queue pair from RESET to RTS with a timer drawn anew.
func (w *timerWorld) connect(m *timed) {
	code := uint8(1 + w.rng.IntN(12))
	m.timeout, m.due, m.psn = ib.AckTimeout(code), clock.Never, ib.NewPSN(w.rng.Uint32())
	a := ib.QPAttr{
		Port: 1, PathMTU: ib.MTU256, DestQPN: 7, SQPSN: m.psn, Timeout: code, RetryCnt: uint8(w.rng.IntN(4)), RNRRetry: 7,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(m.peer), HopLimit: 64, Port: 1},
	}
	m.retries = int(a.RetryCnt)
	for _, s := range []struct {
		to   ib.QPState
		mask ib.AttrMask
	}{
		{ib.RESET, 0},
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer},
		{ib.RTS, ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic},
	} {
		a.State = s.to
		w.must(m.q.Modify(w.now, &a, s.mask|ib.AttrState))
	}
}

// post posts a request, which starts the timer when it leaves.
func (w *timerWorld) post(m *timed) {
	_, err := m.q.PostSend(ib.SendWR{Opcode: ib.WRSend})
	w.must(err)
	w.hca.Single().RingDoorbell(m.q)
	w.turn()
	w.happened(m, 1, 0)
	m.due = w.now.Add(m.timeout)
	w.made++
}

// answer acknowledges a request: its timer stops, and the queue pair can be
// used again.
func (w *timerWorld) answer(m *timed) {
	b := []byte{0x11, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x1f, 0, 0, 1, 0, 0, 0, 0}
	n, psn := m.q.Num(), m.psn.Value()
	b[5], b[6], b[7] = byte(n>>16), byte(n>>8), byte(n)
	b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
	d := fabric.Datagram{Bytes: b, Src: m.peer, Dst: churnAddr, SrcPort: 49152, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 64}
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)).WithID(0))
	w.hca.Single().Receive(w.now, &d)
	w.turn()
	w.happened(m, 0, 1)
	m.due, m.psn = clock.Never, m.psn.Next()
	w.connect(m)
}

// turn lets the adapter send, and notes what it sent and what it completed.
func (w *timerWorld) turn() {
	clear(w.sent)
	clear(w.ended)
	var p roce.Packet
	for more := true; more; {
		more = w.hca.Single().Transmit(w.now, w.batch)
		for i := range w.batch.Pending() {
			run := &w.batch.Pending()[i]
			if f := p.Parse(run.Bytes); f != roce.FaultNone {
				w.t.Fatalf("what leaves is no packet: %v", f)
			}
			a := run.Path.Dst.As4()
			w.sent[ib.QPN(churnSlot)<<16|ib.QPN(a[2])<<8|ib.QPN(a[3])]++
		}
		w.batch.Reset()
	}
	var wcs [64]ib.WC
	for n := w.cq.Poll(wcs[:]); n > 0; n = w.cq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			w.ended[wc.QPN]++
		}
	}
}

// happened checks that the last step had exactly these consequences, and none
// for other queue pairs.
func (w *timerWorld) happened(m *timed, sent, ended int) {
	n := m.q.Num()
	if w.sent[n] != sent || w.ended[n] != ended || len(w.sent) > sent || len(w.ended) > ended {
		w.t.Fatalf("at %v queue pair %v should have sent %d and completed %d: sent %v, completed %v", w.now, n, sent, ended, w.sent, w.ended)
	}
}

// first returns when the model's first timer is due.
func (w *timerWorld) first() clock.Instant {
	at := clock.Never
	for _, m := range w.all.All {
		at = min(at, m.due)
	}
	return at
}

// pass lets time pass to an instant as a driver does, from deadline to
// deadline, and compares what fires with what is due.
func (w *timerWorld) pass(to clock.Instant) {
	for {
		due := w.first()
		if next := w.hca.Single().Deadline(); next > due {
			w.t.Fatalf("at %v a timer is due at %v, and the adapter waits until %v", w.now, due, next)
		}
		if due > to {
			break
		}
		w.now = due
		w.fire(due)
	}
	w.now = to
	w.fire(to)
}

// fire lets the timers fire that are due at an instant.
func (w *timerWorld) fire(at clock.Instant) {
	w.hca.Single().Advance(at)
	if next := w.hca.Single().Deadline(); next <= at {
		w.t.Fatalf("after all timers have fired at %v the adapter wants to be woken at %v", at, next)
	}
	w.turn()
	sent, ended := len(w.sent), len(w.ended)
	for _, m := range w.all.All {
		if m.due != at {
			continue
		}
		w.fired++
		n := m.q.Num()
		if m.retries--; m.retries < 0 {
			if w.ended[n] != 1 || m.q.State() != ib.ERR {
				w.t.Fatalf("at %v queue pair %v, %v, should have given up", at, n, m.q.State())
			}
			ended--
			m.due = clock.Never
			w.connect(m)
			continue
		}
		if w.sent[n] != 1 {
			w.t.Fatalf("at %v queue pair %v should have repeated its request", at, n)
		}
		sent--
		m.due = at.Add(m.timeout)
	}
	if sent != 0 || ended != 0 {
		w.t.Fatalf("at %v timers fired that were not due: sent %v, completed %v", at, w.sent, w.ended)
	}
}

// end ends a queue pair whose timer may run.
func (w *timerWorld) end() {
	m := w.all.Take(w.rng)
	w.hca.DestroyQP(w.pd, m.q)
}

// TestChurnTimers starts a quarter million retry timers of queue pairs that are
// answered, taken to RESET or ERR, or destroyed while they run, in disorder.
// Each of the others fires at its time, to the nanosecond, and no sooner; and
// the adapter never asks to be woken later than the first.
func TestChurnTimers(t *testing.T) {
	w := newTimerWorld(t)
	tide := churn.Tide{Most: timerQPs}
	for objects := churn.Objects() / 4; w.made < objects; {
		switch op := w.rng.IntN(100); {
		case op < 4 || w.all.Len() == 0:
			if tide.Rises(w.rng, w.all.Len()) {
				w.create()
			} else {
				w.end()
			}
		case op < 10:
			w.pass(w.now.Add(time.Duration(w.rng.IntN(int(200 * time.Microsecond)))))
		default:
			w.touch(w.all.Pick(w.rng), op)
		}
	}
	t.Logf("%d timers were started, %d fired, in %v", w.made, w.fired, time.Duration(w.now))
	if w.fired < w.made/20 {
		t.Errorf("of %d timers only %d fired", w.made, w.fired)
	}
	for w.all.Len() > 0 {
		w.end()
	}
	if next := w.hca.Single().Deadline(); next != clock.Never {
		t.Errorf("without a queue pair a timer is due at %v", next)
	}
}

// touch does something to one queue pair: one that waits is answered or taken
// away from its timer, any other posts.
func (w *timerWorld) touch(m *timed, op int) {
	switch {
	case m.due == clock.Never:
		w.post(m)
	case op < 40:
		w.answer(m)
	case op < 45:
		w.must(m.q.Modify(w.now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
		w.turn()
		w.happened(m, 0, 1)
		w.connect(m)
	case op < 50:
		w.connect(m) // by way of RESET: nothing completes
	}
}
