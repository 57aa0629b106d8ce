package driver

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/qp"
)

// TestGuests walks through what happens between the goroutine and threads that
// sleep at the port.
func TestGuests(t *testing.T) {
	var p pollers
	now := clock.Instant(0)
	look := func(why string, want time.Duration) {
		t.Helper()
		if now = now.Add(time.Microsecond); p.look(now) != want {
			t.Errorf("%s: the goroutine does not stay aside for %v", why, want)
		}
	}
	is := func(why string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", why, got, want)
		}
	}
	is("nobody wants to sleep at the port: offered", p.offer(), false)
	is("the goroutine has the port: entered", p.enter(), false)
	look("somebody wants the port, and nothing woke him yet", 0)
	is("a program was woken that wanted it: offered", p.offer(), true)
	is("armed on the way to sleep: roused", p.armed(), false)
	is("lent to somebody who is on his way: somebody polls", p.attended(), false)
	is("entered", p.enter(), true)
	is("somebody sleeps at the port: somebody polls", p.attended(), false)
	is("a second one: entered", p.enter(), false)
	is("nobody waits at the port", p.aside(), false)
	look("one has come", sleeperAside)
	is("it leaves: roused", p.leave(), false)
	is("and comes again: entered", p.enter(), true)
	look("one has come again", sleeperAside)
	look("it stays", forever)
	is("the poster hands over: roused", p.recall(), false)
	is("it leaves: roused", p.leave(), true)
	is("comes again: entered", p.enter(), true)
	is("and leaves: roused", p.leave(), false)
	look("one has come and left", leastAside)
	is("all is done by nobody", p.aside(), true)
	look("it has not come back", 2*leastAside)
	is("lent: somebody polls", p.attended(), false)
	look("it has not come back yet", 4*leastAside)
	p.polled()
	look("nobody has come, and one poll is no polling", 0)
	is("the goroutine has the port: entered", p.enter(), false)
	is("another thread arms a queue: roused", p.armed(), false)
	look("called back", 0)
	is("it is offered", p.offer(), true)
	is("entered", p.enter(), true)
}

// TestSleepEndsInTime sleeps with a limit, at the port and elsewhere.
func TestSleepEndsInTime(t *testing.T) {
	const limit = 20 * time.Millisecond
	s := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	never := func() bool { return false }
	s.drv.pollers.state.Store(asideFlag | lentToSleeperFlag)
	ended := make(chan time.Duration, 1)
	go func() {
		from := time.Now()
		s.drv.SleepOn(&Sleeper{Awake: never, FDs: none, Limit: limit, Elsewhere: func(time.Duration) bool { t.Error("it sleeps elsewhere"); return true }})
		ended <- time.Since(from)
	}()
	select {
	case took := <-ended:
		if took < limit {
			t.Errorf("a sleep of %v ends after %v", limit, took)
		}
	case <-time.After(waitLimit):
		t.Fatalf("a sleep of %v does not end", limit)
	}
	s.drv.pollers.state.Store(asideFlag | lentToSleeperFlag | sleeperFlag)
	left := time.Duration(0)
	s.drv.SleepOn(&Sleeper{Awake: never, FDs: none, Limit: limit, Elsewhere: func(d time.Duration) bool { left = d; return true }})
	if left <= 0 || left > limit {
		t.Errorf("elsewhere it sleeps for %v of %v", left, limit)
	}
}

// waker ends the sleep of all that have asked since the last time.
type waker struct {
	mu   sync.Mutex // guards what follows
	ends []func()
}

func (w *waker) add(end func()) {
	w.mu.Lock()
	w.ends = append(w.ends, end)
	w.mu.Unlock()
}

func (w *waker) wake() {
	w.mu.Lock()
	ends := w.ends
	w.ends = nil
	w.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// TestSleepers has threads sleep on both sides, while others end their sleep
// in all the ways there are: something that arrives, something that another
// thread does, and the end of their context. No thread sleeps forever.
func TestSleepers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	var all sync.WaitGroup
	for i, s := range []*side{a, b} {
		peer := []*side{b, a}[i]
		w := &waker{}
		hook := func() { // on the thread that has the shard
			w.wake()
			s.drv.Woke()
		}
		s.port.onRecv.Store(&hook)
		for n := range 3 {
			rng := rand.New(rand.NewPCG(seed, uint64(2*n+i)))
			all.Go(func() { s.sleepOften(t, peer, w, uintptr(n), rng) }) // one has no key
		}
	}
	all.Wait()
}

// sleepOften sleeps, woken in one way or another. With a key it is a thread of a program in C.
func (s *side) sleepOften(t *testing.T, peer *side, w *waker, key uintptr, rng *rand.Rand) {
	for i := 0; i < 300 && !t.Failed(); i++ {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		var done atomic.Bool
		woken := make(chan struct{}, 1)
		end := func() {
			done.Store(true)
			woken <- struct{}{}
		}
		way := rng.IntN(3)
		switch way {
		case 0:
			go func() {
				_ = s.drv.Do(func(clock.Instant) {
					end()
					s.drv.Woke()
				})
			}()
		case 1:
			w.add(end)
			go func() { // wakes the peer's port, whose answer arrives here
				_, _ = s.qp.PostSend(ib.SendWR{Opcode: ib.WRRDMAWrite})
				s.drv.Post(s.qp, qp.Posted{})
				peer.port.Wake()
			}()
		default:
			go cancel()
		}
		for !done.Load() && ctx.Err() == nil {
			s.sleepUntil(ctx, done.Load, woken, key, rng)
		}
		if ctx.Err() == context.DeadlineExceeded {
			t.Errorf("sleep %d, to be woken in way %d, did not end", i, way)
		}
		cancel()
		s.cq.Poll(make([]ib.WC, 16)) // or it overflows
	}
}

// sleepUntil sleeps until done, at the end of ctx, or for a while.
func (s *side) sleepUntil(ctx context.Context, done func() bool, woken <-chan struct{}, key uintptr, rng *rand.Rand) {
	elsewhere := func(left time.Duration) bool {
		var over <-chan time.Time
		if left >= 0 {
			over = time.After(left)
		}
		select {
		case <-woken:
			return true
		case <-ctx.Done():
			return true
		case <-over:
			return false
		}
	}
	if key == 0 {
		s.drv.Sleep(ctx, done, func() { elsewhere(-1) })
		return
	}
	defer context.AfterFunc(ctx, s.drv.first.Wake)()
	s.drv.SleepOn(&Sleeper{
		Awake: func() bool { return done() || ctx.Err() != nil }, FDs: none, Limit: -1, Key: key, Elsewhere: elsewhere,
		Yield: runtime.Gosched, Usage: func() Usage { return Usage{Processor: time.Duration(rng.IntN(2)) * briefTime} },
	})
}
