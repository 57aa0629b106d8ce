package driver

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
)

// TestPollers walks through what may happen to the port, look by look.
func TestPollers(t *testing.T) {
	const us = time.Microsecond
	type step struct {
		why    string
		after  time.Duration // since the last step
		recall bool
		polls  int
		want   time.Duration // for which the goroutine steps aside
	}
	for name, steps := range map[string][]step{
		"a program that sleeps": {
			{"nobody polls", 0, false, 0, 0},
			{"armed and polled once", 300 * us, true, 1, 0},
			{"polled again, just before it arms", 300 * us, false, 1, 0},
			{"armed", 1 * us, true, 1, 0},
			{"polled again", 300 * us, false, 1, 0},
		},
		"a program that polls": {
			{"begins", 0, false, 50, 0},
			{"not for long yet", sustained - 1, false, 50, 0},
			{"sustained", 1, false, 50, leastAside},
			{"still at it", 200 * us, false, 200, 100 * us},
			{"for long", 4 * time.Second, false, 4e6, mostAside},
			{"once in a step back", mostAside, false, 1, mostAside},
			{"stopped", mostAside, false, 0, 0},
			{"begins again", 1 * us, false, 50, 0},
			{"armed", sustained, true, 50, 0},
			{"begins once more", sustained, false, 50, 0},
			{"sustained", sustained, false, 50, leastAside},
			{"armed while the goroutine is aside", 10 * us, true, 0, 0},
		},
		"a program that polls in long rounds": {
			{"begins", 0, false, 1, 0},
			{"a gap", sustained, false, 0, 0},
			{"a second round", sustained, false, 1, 0},
			{"more", 500 * us, false, 5, 0},
			{"the eighth", 100 * us, false, 1, 250 * us},
		},
		"a program that polls now and then": {
			{"once", 0, false, 9, 0},
			{"again", mostAside, false, 9, 0},
			{"again", mostAside, false, 9, 0},
		},
	} {
		var p pollers
		now := clock.Instant(0)
		for _, s := range steps {
			now = now.Add(s.after)
			if s.recall {
				if aside := p.aside(); p.recall() != aside {
					t.Errorf("%s: %s: the goroutine is aside: %v, and whether it must be woken is said wrongly", name, s.why, aside)
				}
			}
			for range s.polls {
				p.polled()
			}
			if got := p.look(now); got != s.want || p.aside() != (got > 0) || p.attended() != p.aside() {
				t.Errorf("%s: %s: aside for %v (%v), want %v", name, s.why, got, p.aside(), s.want)
			}
		}
	}
}

// TestDistrust has the goroutine find packets that pollers have not read: it
// stays at the port for a while, longer each time, up to a bound.
func TestDistrust(t *testing.T) {
	var p pollers
	now := clock.Instant(0)
	// sustain polls until the goroutine steps aside, and returns how long it took.
	sustain := func() time.Duration {
		from := now
		for {
			for range sustainedPolls {
				p.polled()
				p.latest.Store(int64(now))
			}
			if p.look(now) > 0 {
				return now.Sub(from)
			}
			if now = now.Add(50 * time.Microsecond); now.Sub(from) > time.Second {
				t.Fatal("the goroutine does not step aside any more")
			}
		}
	}
	trusted := sustain()
	if p.away(now.Add(awayTime - 1)) {
		t.Errorf("who polled %v ago is taken for away", awayTime-1)
	}
	last := time.Duration(0)
	for want := leastAlone; want <= mostAlone; want *= 2 {
		now = now.Add(awayTime)
		if !p.away(now) {
			t.Fatalf("who has not polled for %v is not taken for away", awayTime)
		}
		p.distrust(now)
		if p.aside() || p.away(now) {
			t.Fatal("the port is still of those who have left something lying")
		}
		if last = sustain(); last < want || last > want+2*trusted+time.Millisecond {
			t.Errorf("the goroutine steps aside again after %v, want %v and then what it takes to trust", last, want)
		}
	}
	now = now.Add(awayTime)
	p.distrust(now)
	if again := sustain(); again > last+time.Millisecond {
		t.Errorf("the goroutine steps aside after %v, before after %v at the most", again, last)
	}
	now = now.Add(time.Second)
	sustain()
	now = now.Add(awayTime)
	p.distrust(now)
	if first := sustain(); first >= 2*leastAlone {
		t.Errorf("after a second without distrust the goroutine steps aside after %v, as if nothing had been forgotten", first)
	}
}

// TestRecallIsNeverLost lets threads poll, a goroutine step aside until it is
// woken, and another one recall it, at any moment: each recall makes it read
// the port again.
func TestRecallIsNeverLost(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var p pollers
	var recalls, heard atomic.Int64
	stop, wake, ended := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	alone := runtime.GOMAXPROCS(0) == 1
	go func() {
		defer close(ended)
		for now := clock.Instant(0); ; now = now.Add(sustained / 2) {
			n := recalls.Load()
			if p.look(now) == 0 {
				heard.Store(n)
				if alone { // otherwise the pollers run at any moment of this
					runtime.Gosched()
				}
				continue
			}
			select {
			case <-wake:
			case <-stop:
				return
			}
		}
	}()
	for i := range int64(500) {
		for range rng.IntN(50) {
			p.polled()
		}
		recalls.Store(i + 1)
		if p.recall() {
			wake <- struct{}{}
		}
		for range rng.IntN(50) {
			p.polled()
		}
		for start := time.Now(); heard.Load() <= i; runtime.Gosched() {
			p.polled()
			if time.Since(start) > waitLimit {
				t.Fatalf("recall %d was lost: the goroutine is still aside", i)
			}
		}
	}
	for close(stop); ; p.polled() { // until it steps aside a last time
		select {
		case <-ended:
			return
		default:
			runtime.Gosched()
		}
	}
}

// TestWhoPostsIsThere has a program that polls post for longer than awayTime before it
// polls again: the goroutine must not take the port from it. Posting one by one takes
// longer than that, and otherwise both would compete for the port and the shard.
func TestWhoPostsIsThere(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	s, peer := newStillSide(t, n, 1), newStillSide(t, n, 2)
	s.connect(t, peer, 0, 7)
	s.drv.Progress()
	s.drv.pollers.state.Store(asideFlag)
	polled := clock.Instant(s.drv.pollers.latest.Load())
	await(t, "the time after which who does not poll is away", func() bool { return s.drv.pollers.away(s.drv.Now()) })
	posted := s.drv.Now()
	s.postSend(t, peer, 64)
	if there := posted.Add(awayTime - 1); s.drv.pollers.away(there) {
		t.Errorf("polled at %v and posted at %v, a program is taken for away at %v", polled, posted, there)
	}
	if late := s.drv.Now().Add(awayTime); !s.drv.pollers.away(late) {
		t.Errorf("who has neither polled nor posted for %v is not taken for away", awayTime)
	}
}

// TestDistrustOfAPortInUse has a thread come to sleep at the port just when the goroutine, which found
// packets there, takes the port back from threads that poll. The thread keeps the port: two must not
// wait there.
func TestDistrustOfAPortInUse(t *testing.T) {
	var p pollers
	p.state.Store(asideFlag) // for threads that poll
	if !p.away(clock.Instant(time.Second)) || !p.enter() {
		t.Fatal("the thread does not get the port")
	}
	p.distrust(clock.Instant(time.Second))
	if !p.hasSleeper() {
		t.Error("nobody knows any more that a thread sleeps at the port")
	}
	if aside := p.look(clock.Instant(time.Second)); aside <= 0 {
		t.Error("the goroutine waits at the port, too")
	}
	p.leave()
}
