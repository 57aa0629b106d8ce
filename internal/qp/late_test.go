package qp_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
)

// latestEntry is the longest time from an operation to its entry, with an event in between.
const latestEntry = time.Millisecond + 200*time.Microsecond

// lateQueue is a completion queue of a nasty adapter, to which several queue pairs complete. Their
// work requests complete, flushed, when flush moves a queue pair to ERR.
type lateQueue struct {
	t    *testing.T
	side *rig.Side
	now  clock.Instant
	cq   *qp.CQ
	qps  []*qp.QP
	ends map[ib.QPN]clock.Instant // when flush was called
	next map[ib.QPN]uint64        // work request that must be polled next
	last ib.QPN                   // queue pair of the newest polled entry

	prompt                     time.Duration // entries up to this old are not late: the program polls that seldom
	latest                     time.Duration // the greatest age of an entry
	events, early, late, mixed int
}

// posted is how many work requests each queue pair has, unless a test wants another number.
const posted = 16

// newLateQueue returns a queue of at least entries for n queue pairs. It has a queue pair more, with
// which nothing completes, if n is 0.
func newLateQueue(t *testing.T, c nasty.Config, entries uint32, n int) *lateQueue {
	t.Helper()
	l := &lateQueue{t: t, ends: make(map[ib.QPN]clock.Instant), next: make(map[ib.QPN]uint64)}
	l.side = rig.Config{HCA: hca.Config{Nasty: c.New(0)}, Type: ib.RC, Cap: rig.Cap, Bytes: 4096}.NewSide(t, 1)
	var err error
	l.cq, err = l.side.HCA.CreateCQ(entries, func() { l.events++ })
	rig.Must(t, err)
	for range n {
		q, err := l.side.HCA.CreateQP(l.side.PD, hca.QPConfig{
			Type: ib.RC, SendCQ: l.cq, RecvCQ: l.cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: posted, MaxRecvSGE: 1},
		})
		rig.Must(t, err)
		rig.Must(t, q.Modify(0, &ib.QPAttr{State: ib.INIT, Port: 1}, rig.InitMask))
		for id := range uint64(posted) {
			_, err := q.PostRecv(ib.RecvWR{WRID: id, SGList: []ib.SGE{l.side.SGE(0, 64)}})
			rig.Must(t, err)
		}
		l.qps = append(l.qps, q)
	}
	return l
}

// flush completes the work requests of a queue pair.
func (l *lateQueue) flush(q *qp.QP) {
	l.t.Helper()
	rig.Must(l.t, q.Modify(l.now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
	l.ends[q.Num()] = l.now
}

// advance lets time pass.
func (l *lateQueue) advance(d time.Duration) {
	l.now = l.now.Add(d)
	l.side.HCA.Shard().Advance(l.now)
}

// poll polls all entries, checks the order of each queue pair, and returns their number.
func (l *lateQueue) poll() int {
	l.t.Helper()
	wcs := make([]ib.WC, 256)
	n := l.cq.Poll(wcs)
	for i := range wcs[:n] {
		wc := &wcs[i]
		if wc.WRID != l.next[wc.QPN] {
			l.t.Errorf("queue pair %v: polled wr_id %d, want %d", wc.QPN, wc.WRID, l.next[wc.QPN])
		}
		l.next[wc.QPN] = wc.WRID + 1
		if l.last != wc.QPN && l.next[l.last] != posted && l.next[l.last] != 0 {
			l.mixed++ // between two entries of another queue pair
		}
		l.last = wc.QPN
		d := l.now.Sub(l.ends[wc.QPN])
		l.latest = max(l.latest, d)
		if d > l.prompt {
			l.late++
		}
		if d > latestEntry+l.prompt {
			l.t.Errorf("an entry is %v late, at most %v is allowed", d, latestEntry)
		}
	}
	return n
}

// TestK2_LateCompletions lets queue pairs fail at different times, and polls as the manual page
// says: for each event, arm, and poll until the queue is empty. All entries come, in the order of
// their work queue, with the events of an armed queue; some are late, some come between those of
// another queue pair, and some events come before their entry.
func TestK2_LateCompletions(t *testing.T) {
	var late, mixed, early int
	for seed := range uint64(40) {
		t.Logf("seed %d", seed+1)
		l := newLateQueue(t, nasty.Config{Seed: seed + 1}, 255, 4)
		l.prompt = 100 * time.Microsecond
		r := rand.New(rand.NewPCG(seed, 1))
		l.cq.Arm(false)
		polled, armedAt := 0, 0
		for l.now < clock.Instant(10*time.Millisecond) {
			l.advance(time.Duration(r.IntN(100)) * time.Microsecond)
			if len(l.qps) > 0 && r.IntN(4) == 0 {
				l.flush(l.qps[0])
				l.qps = l.qps[1:]
			}
			if l.events == armedAt {
				if n := l.cq.Pending(); n > 0 {
					t.Fatalf("%d entries came into an armed queue without an event", n)
				}
				continue
			}
			if l.events != armedAt+1 {
				t.Fatalf("%d events for one arming", l.events-armedAt)
			}
			armedAt = l.events
			n := l.poll()
			if n == 0 {
				l.early++
			}
			polled += n
			l.cq.Arm(false)
			polled += l.poll()
		}
		if polled != 4*posted {
			t.Errorf("%d completions, want %d", polled, 4*posted)
		}
		late, mixed, early = late+l.late, mixed+l.mixed, early+l.early
	}
	if late < 400 || mixed < 100 || early < 5 {
		t.Errorf("of %d completions %d were late, and %d between those of another queue pair; %d events came before their entry; want at least 400, 100 and 5",
			40*4*posted, late, mixed, early)
	}
}

// TestK2_LeftOut leaves the behaviours out one by one, and then together.
func TestK2_LeftOut(t *testing.T) {
	for _, c := range []struct {
		name              string
		without           []nasty.Part
		late, mixed, sown bool
	}{
		{"order", []nasty.Part{nasty.Order}, true, false, true},
		{"events", []nasty.Part{nasty.Events}, true, true, false},
		{"late", []nasty.Part{nasty.Late}, true, true, true}, // by up to 50 µs, for the others
		{"all", []nasty.Part{nasty.Late, nasty.Order, nasty.Events}, false, false, false},
	} {
		var late, mixed, early int
		for seed := range uint64(20) {
			cfg := nasty.Config{Seed: seed + 1}
			for _, p := range c.without {
				cfg.Without[p] = true
			}
			l := newLateQueue(t, cfg, 255, 2)
			l.prompt = 5 * time.Microsecond
			l.cq.Arm(false)
			l.flush(l.qps[0])
			l.flush(l.qps[1])
			for range 300 {
				before := l.events
				l.advance(l.prompt)
				if l.events > before && l.cq.Pending() == 0 {
					early++
				}
				l.poll()
				l.cq.Arm(false)
			}
			late, mixed = late+l.late, mixed+l.mixed
			if slices.Contains(c.without, nasty.Late) && l.latest > 50*time.Microsecond+200*time.Microsecond+l.prompt {
				t.Errorf("without %s, seed %d: an entry is %v late", c.name, seed+1, l.latest)
			}
			if n := l.next[l.qps[0].Num()] + l.next[l.qps[1].Num()]; n != 2*posted {
				t.Errorf("without %s, seed %d: %d completions, want %d", c.name, seed+1, n, 2*posted)
			}
		}
		if (late > 0) != c.late || (mixed > 0) != c.mixed || (early > 0) != c.sown {
			t.Errorf("without %s: %d late, %d mixed, %d early events; want some: %v, %v, %v", c.name, late, mixed, early, c.late, c.mixed, c.sown)
		}
	}
}

// TestK2_FullQueue completes more work requests than the queue has entries: late entries wait for
// room, so that a program that polls in time loses nothing, and the queue overflows if it does not.
func TestK2_FullQueue(t *testing.T) {
	for seed := range uint64(20) {
		cfg := nasty.Config{Seed: seed + 1}
		cfg.Without[nasty.Sizes] = true
		l := newLateQueue(t, cfg, 7, 1)
		l.prompt = time.Second // entries wait for room
		l.flush(l.qps[0])
		for range 1000 {
			l.advance(20 * time.Microsecond)
			l.poll()
		}
		if n := l.next[l.qps[0].Num()]; n != posted || l.cq.Failed() {
			t.Errorf("seed %d: %d completions, want %d; failed is %v", seed+1, n, posted, l.cq.Failed())
		}

		l = newLateQueue(t, cfg, 7, 1)
		l.flush(l.qps[0])
		for range 1000 {
			l.advance(100 * time.Microsecond)
		}
		if !l.cq.Failed() || l.cq.Pending() != 7 {
			t.Errorf("seed %d: failed is %v with %d entries, and nobody polled", seed+1, l.cq.Failed(), l.cq.Pending())
		}
		if at := l.side.HCA.Shard().Deadline(); at != clock.Never {
			t.Errorf("seed %d: a timer is left at %d", seed+1, at)
		}
	}
}

// TestK2_TooManyLate shows that a queue holds at most 64 entries back, and that at most 4096 wait
// for room.
func TestK2_TooManyLate(t *testing.T) {
	for seed := range uint64(20) {
		cfg := nasty.Config{Seed: seed + 1}
		cfg.Without[nasty.Events], cfg.Without[nasty.Sizes] = true, true
		l := newLateQueue(t, cfg, 1023, 16)
		for i, q := range l.qps {
			l.flush(q)
			if done := (i + 1) * posted; l.cq.Pending() < done-64 {
				t.Errorf("seed %d: %d of %d entries are late", seed+1, done-l.cq.Pending(), done)
			}
		}

		l = newLateQueue(t, cfg, 7, 4200/posted)
		for _, q := range l.qps[:4000/posted] {
			l.flush(q)
		}
		if l.cq.Failed() {
			t.Errorf("seed %d: overflow of %d entries, of which 4000 find no room", seed+1, l.cq.Pending())
		}
		for _, q := range l.qps[4000/posted:] {
			l.flush(q)
		}
		if !l.cq.Failed() {
			t.Errorf("seed %d: 4200 entries wait for room", seed+1)
		}
	}
}

// TestK2_LateEntriesEnd shows that late entries of a queue pair that is reset or destroyed never
// come (Q5), and that a destroyed queue leaves no timer.
func TestK2_LateEntriesEnd(t *testing.T) {
	for seed := range uint64(20) {
		l := newLateQueue(t, nasty.Config{Seed: seed + 1}, 255, 2)
		l.flush(l.qps[0])
		l.flush(l.qps[1])
		rig.Must(t, l.qps[0].Modify(l.now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
		l.side.HCA.DestroyQP(l.side.PD, l.qps[1])
		if seed%2 == 0 {
			l.advance(latestEntry)
			if n := l.cq.Pending(); n != 0 {
				t.Errorf("seed %d: %d entries of queue pairs that were reset or destroyed", seed+1, n)
			}
		}
		l.side.HCA.DestroyQP(l.side.PD, l.qps[0])
		rig.Must(t, l.side.HCA.CQs().Destroy(l.cq))
		if at := l.side.HCA.Shard().Deadline(); at != clock.Never {
			t.Errorf("seed %d: a timer is left at %d", seed+1, at)
		}
	}
}
