package driver

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/trace"
)

// watchedUntil makes a program seem to watch its memory until an instant.
func (s *side) watchedUntil(end clock.Instant) { s.drv.pollers.watched.Store(int64(end)) }

// TestSleepsWhileWatched shows that the goroutine sleeps between arrivals while a program watches
// its memory: if it yielded, that program would keep the processor.
func TestSleepsWhileWatched(t *testing.T) {
	s := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	now := clock.Instant(time.Second)
	for _, looks := range []int{0, mostLooks} {
		s.do(t, func(clock.Instant) { // with the lock that guards busyPoll
			s.drv.busyPoll = busyPoll{active: now, looks: looks}
			s.watchedUntil(now)
			if w := s.drv.pause(now, false); w.sleeps() {
				t.Errorf("looks %d: just after an arrival it sleeps, although no program watches its memory", looks)
			}
			s.watchedUntil(now + 1)
			if w := s.drv.pause(now, false); !w.sleeps() || !w.read {
				t.Errorf("looks %d: %+v, although a program watches its memory: want to sleep until an arrival", looks, w)
			}
			if s.drv.pause(now, true).sleeps() {
				t.Errorf("looks %d: it sleeps although there is more to send", looks)
			}
		})
	}
}

// TestTakenLockWhileWatched shows that the goroutine leaves the port to the thread that has the
// lock, a bounded number of times, and only while a program watches its memory.
func TestTakenLockWhileWatched(t *testing.T) {
	s := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	d := s.drv
	s.watchedUntil(d.Now().Add(time.Hour))
	for range 2 {
		d.mu.Lock()
		for i := range mostMissed {
			if d.pollers.missed != i { // it could wait for the lock, which this goroutine has
				t.Fatalf("turn %d begins with %d turns that found the lock taken", i, d.pollers.missed)
			}
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
	s.watchedUntil(0)
	if d.pollers.miss(d.Now()) {
		t.Error("it leaves the port to the thread that has the lock, although no program watches its memory")
	}
}

// TestPollReadsOnWhileWatched shows that a poll reads what has arrived after the first datagram, a
// bounded number of times, if the program may go on to watch its memory; otherwise it leaves the
// rest to the next poll.
func TestPollReadsOnWhileWatched(t *testing.T) {
	for _, c := range []struct {
		why         string
		watches     bool
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
		if c.watches {
			b.watchedUntil(b.drv.Now().Add(time.Hour))
		}
		for range c.sent {
			a.post(t, b, 8)
		}
		if b.drv.Progress(); taken != c.taken {
			t.Errorf("%s: a poll takes %d of %d packets, want %d", c.why, taken, c.sent, c.taken)
		}
	}
}

// TestWatchedMemory shows when a program is considered to watch its memory: after the goroutine
// has found packets that no thread has read, for a bounded time, and again only after an arrival
// while no thread polls or posts.
func TestWatchedMemory(t *testing.T) {
	var p pollers
	now := clock.Instant(time.Second)
	p.latest.Store(int64(now.Add(-time.Second)))
	if p.found(now); p.isWatched(now) {
		t.Error("after an arrival at a port that the goroutine has always had: watched")
	}
	p.distrust(now)
	p.avoid = mostAlone
	p.alone = now.Add(mostAlone)
	if !p.isWatched(now.Add(watchedTime-1)) || p.isWatched(now.Add(watchedTime)) {
		t.Errorf("after packets that no thread has read, it is not watched for just %v", watchedTime)
	}
	now = now.Add(2 * watchedTime)
	p.latest.Store(int64(now.Add(1 - absentTime)))
	if p.found(now); p.isWatched(now) {
		t.Errorf("a program that polled %v before an arrival: watched", absentTime-1)
	}
	p.latest.Store(int64(now.Add(-absentTime)))
	if p.found(now); !p.isWatched(now.Add(watchedTime-1)) || p.isWatched(now.Add(watchedTime)) {
		t.Errorf("a program that polled %v before an arrival: not watched for just %v", absentTime, watchedTime)
	}
}

// TestGoroutineSeesWatchedMemory shows that a round of the goroutine that finds a packet while no
// thread polls counts as watched memory.
func TestGoroutineSeesWatchedMemory(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	b.drv.pollers.alone = b.drv.Now().Add(time.Hour)
	b.drv.pollers.latest.Store(int64(b.drv.Now().Add(-time.Hour)))
	if _, alive := b.drv.turn(); !alive || b.drv.pollers.watched.Load() != 0 {
		t.Fatalf("alive %t, watched until %v after a round without an arrival", alive, b.drv.pollers.watched.Load())
	}
	a.post(t, b, 8)
	if _, alive := b.drv.turn(); !alive || b.drv.pollers.watched.Load() == 0 {
		t.Errorf("alive %t, not watched after a round with an arrival while no thread polls", alive)
	}
}
