package driver

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/trace"
)

// aloneUntil makes the goroutine stay at the port until an instant, as distrust does.
func (s *side) aloneUntil(end clock.Instant) { s.drv.pollers.alone.Store(int64(end)) }

// TestSleepsWhileAlone shows that the goroutine sleeps between arrivals while a program watches
// its memory: if it yielded, that program would keep the processor.
func TestSleepsWhileAlone(t *testing.T) {
	s := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	now := clock.Instant(time.Second)
	for _, looks := range []int{0, mostLooks} {
		s.do(t, func(clock.Instant) { // with the lock that guards busyPoll
			s.drv.busyPoll = busyPoll{active: now, looks: looks}
			s.aloneUntil(now)
			if w := s.drv.pause(now, false); w.sleeps() {
				t.Errorf("looks %d: just after an arrival it sleeps, although no program watches its memory", looks)
			}
			s.aloneUntil(now + 1)
			if w := s.drv.pause(now, false); !w.sleeps() || !w.read {
				t.Errorf("looks %d: %+v, although a program watches its memory: want to sleep until an arrival", looks, w)
			}
			if s.drv.pause(now, true).sleeps() {
				t.Errorf("looks %d: it sleeps although there is more to send", looks)
			}
		})
	}
}

// TestTakenLockWhileAlone shows that the goroutine leaves the port to the thread that has the
// lock, a bounded number of times, and only while it is alone at the port.
func TestTakenLockWhileAlone(t *testing.T) {
	s := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	d := s.drv
	s.aloneUntil(d.Now().Add(time.Hour))
	for range 2 {
		d.mu.Lock()
		for i := range mostMissed {
			next, alive := d.turn()
			if !alive || !next.sleeps() || next.timeout != awayTime || next.read || next.write {
				t.Fatalf("turn %d, alive %t: %+v, want to ignore arrivals for %v", i, alive, next, awayTime)
			}
		}
		if d.pollers.miss(d.Now()) {
			t.Errorf("after %d turns that found the lock taken, it still does not wait for the lock", mostMissed)
		}
		d.mu.Unlock()
		if _, alive := d.turn(); !alive { // with the lock: it may miss as often again
			t.Fatal("the driver ended")
		}
	}
	s.aloneUntil(0)
	if d.pollers.miss(d.Now()) {
		t.Error("it leaves the port to the thread that has the lock, although no program watches its memory")
	}
}

// TestPollReadsOnWhileAlone shows that a poll reads what has arrived after the first datagram, a
// bounded number of times, if the program may go on to watch its memory; otherwise it leaves the
// rest to the next poll.
func TestPollReadsOnWhileAlone(t *testing.T) {
	for _, c := range []struct {
		why         string
		alone       bool
		sent, taken int
	}{
		{"a program that polls", false, 2, 1},
		{"a program that watches its memory", true, 2, 2},
		{"a peer that sends without end", true, restReads + 3, restReads + 1},
	} {
		n := pipe.NewNetwork(pipe.Options{})
		a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
		a.connect(t, b, 0, 7)
		b.connect(t, a, 0, 7)
		b.drv.in = b.drv.in[:1] // one datagram a read
		taken := 0
		count := func(r *trace.Record) {
			if r.Kind == trace.PacketIn {
				taken++
			}
		}
		b.trace.Store(&count)
		if c.alone {
			b.aloneUntil(b.drv.Now().Add(time.Hour))
		}
		for range c.sent {
			a.post(t, b, 8)
		}
		if b.drv.Progress(); taken != c.taken {
			t.Errorf("%s: a poll takes %d of %d packets, want %d", c.why, taken, c.sent, c.taken)
		}
	}
}
