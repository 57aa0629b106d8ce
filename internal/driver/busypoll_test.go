package driver

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// steps feeds a linger arrivals at these distances, with a poll every
// microsecond between, and returns the pauses before the last arrival.
func (l *busyPoll) steps(now clock.Instant, gaps ...time.Duration) (clock.Instant, map[pause]int) {
	var seen map[pause]int
	for _, gap := range gaps {
		seen = make(map[pause]int)
		end := now.Add(gap)
		for ; now < end; now = now.Add(time.Microsecond) {
			seen[l.next(now)]++
		}
		l.arrived(now)
	}
	return now, seen
}

// TestLinger shows what a thread does between arrivals: it looks without pause
// where that pays, makes way for others where it does not, and sleeps when
// nothing came for long, or comes seldom.
func TestLinger(t *testing.T) {
	var l busyPoll
	now, seen := l.steps(0, closeArrivals, closeArrivals)
	if seen[pauseSleep] != int(closeArrivals/time.Microsecond) {
		t.Errorf("between arrivals that come seldom: %v", seen)
	}
	now, seen = l.steps(now, 10*time.Microsecond, 10*time.Microsecond, 10*time.Microsecond)
	if seen[pauseNone] != 10 {
		t.Errorf("between arrivals 10 µs apart: %v", seen)
	}
	now, seen = l.steps(now, 30*time.Microsecond, 30*time.Microsecond)
	if seen[pauseNone] != 0 || seen[pauseYield] != 30 {
		t.Errorf("after looks in vain, between arrivals 30 µs apart: %v", seen)
	}
	now, seen = l.steps(now, 100*time.Microsecond)
	if seen[pauseYield] != 50 || seen[pauseSleep] != 50 {
		t.Errorf("in 100 µs: %v", seen)
	}
	l.wrote(time.Second)
	now, seen = l.steps(now.Add(time.Second), 30*time.Microsecond, 30*time.Microsecond)
	if seen[pauseYield] != 30 {
		t.Errorf("between arrivals 30 µs apart, after a long time of sending: %v", seen)
	}
	quick := make([]time.Duration, -leastLooks+1)
	for i := range quick {
		quick[i] = lookTime - time.Microsecond
	}
	if _, seen = l.steps(now, quick...); seen[pauseNone] != int(lookTime/time.Microsecond)-1 {
		t.Errorf("after %d quick arrivals it still does not look: %v", len(quick), seen)
	}
}

// TestLooksAreBounded shows that a search pays for a bounded number of arrivals,
// and a series without any is forgotten after a bounded number.
func TestLooksAreBounded(t *testing.T) {
	var l busyPoll
	now := clock.Instant(time.Second)
	for range 10 * mostLooks {
		now = now.Add(lookTime - 1)
		l.arrived(now)
	}
	if l.looks != mostLooks {
		t.Errorf("after many arrivals in time the score is %d, want %d", l.looks, mostLooks)
	}
	for range 10 {
		l.looking = true
		l.next(l.active.Add(lookTime))
	}
	if l.looks != leastLooks {
		t.Errorf("after many searches in vain the score is %d, want %d", l.looks, leastLooks)
	}
	for range mostLooks - leastLooks {
		now = now.Add(lookTime - 1)
		l.arrived(now)
	}
	if l.looks != mostLooks {
		t.Errorf("after as many arrivals as that takes the score is %d, want %d", l.looks, mostLooks)
	}
}

// TestLingerInACrowd shows that a thread does not make way for programs that
// compute: it sleeps, until the machine may be free again.
func TestLingerInACrowd(t *testing.T) {
	var l busyPoll
	now, _ := l.steps(0, 30*time.Microsecond, 30*time.Microsecond)
	l.yielded(now, now.Add(crowdedAfter-1))
	if got := l.next(now); got != pauseYield {
		t.Errorf("after others took a moment: %d", got)
	}
	now = now.Add(crowdedAfter)
	l.yielded(now.Add(-crowdedAfter), now)
	l.arrived(now)
	if got := l.next(now); got != pauseSleep {
		t.Errorf("on a busy machine: %d", got)
	}
	now, _ = l.steps(now, leastCrowded, 30*time.Microsecond)
	if got := l.next(now); got != pauseYield {
		t.Errorf("later: %d", got)
	}
}

// TestLingerCrowdStays shows that a thread keeps away for longer from programs
// that stay than from one that comes by, and for a bounded time.
func TestLingerCrowdStays(t *testing.T) {
	var l busyPoll
	avoids := func(now clock.Instant) time.Duration {
		return clock.Instant(l.crowded.Load()).Sub(now)
	}
	now := clock.Instant(time.Second)
	for _, want := range []time.Duration{leastCrowded, 2 * leastCrowded, 4 * leastCrowded} {
		busy := now.Add(crowdedAfter)
		l.yielded(now, busy)
		if got := avoids(busy); got != want {
			t.Errorf("it keeps away for %v, want %v", got, want)
		}
		now = busy.Add(want)
	}
	for range 20 {
		l.yielded(now, now.Add(crowdedAfter))
		now = now.Add(crowdedAfter + time.Duration(l.avoid.Load()))
	}
	if got := avoids(now); got != 0 || l.avoid.Load() != int64(mostCrowded) {
		t.Errorf("after long it keeps away for %v", time.Duration(l.avoid.Load()))
	}
	now = now.Add(mostCrowded)
	l.yielded(now, now.Add(crowdedAfter))
	if got := avoids(now.Add(crowdedAfter)); got != leastCrowded {
		t.Errorf("from somebody else it keeps away for %v", got)
	}
}

// TestPauseBeforeADeadline shows that a thread does not sleep before a timer that
// fires sooner than it could be woken: a paced queue pair would fall behind. It
// does so on a busy machine, where making way for others takes longer.
func TestPauseBeforeADeadline(t *testing.T) {
	for _, c := range []struct {
		kbps   uint32
		sleeps bool
	}{{100_000, false}, {1_000, true}} { // 60 bytes and more take 5 µs, and 0.5 ms
		kbps, sleeps := c.kbps, c.sleeps
		// The first packet must leave at once, so no queue pair has sent before.
		n := pipe.NewNetwork(pipe.Options{})
		a, b := newStillSide(t, n, 1), newSide(t, n, 2) // a's goroutine would write what the test sets
		a.connect(t, b, 0, 7)
		b.connect(t, a, 0, 7)
		a.do(t, func(now clock.Instant) {
			must.Do(t, a.qp.SetRateLimit(qp.RateLimit{Rate: kbps, Burst: 1}))
			sends := a.qp.Sends()
			for range 3 {
				must.Do(t, sends.Post(&ib.SendWR{
					Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: a.mr.Addr(), Length: 8, LKey: a.mr.LKey()}},
					RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
				}))
			}
			sends.Done()
			a.qp.Doorbell(now)
			a.drv.transmit(now)
			a.drv.busyPoll = busyPoll{gap: closeArrivals}
			if w := a.drv.pause(now, false); (w.timeout != 0) != sleeps {
				t.Errorf("at %d kb/s it waits %v for the next packet", kbps, w.timeout)
			}
			a.drv.busyPoll.yielded(now, now.Add(crowdedAfter))
			if w := a.drv.pause(now.Add(crowdedAfter), false); w.timeout == 0 {
				t.Errorf("at %d kb/s it makes way for others on a busy machine", kbps)
			}
		})
		a.drain(t, 3, ib.WCSuccess)
	}
}
