package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
)

// TestCallsRunBeforeTheWait makes a call wait for the lock while the goroutine's round holds
// it: the goroutine must let the call run before it waits at the port, because the runtime
// may leave the call queued behind it. There is one processor, so that the call can run only
// if the goroutine lets it.
func TestCallsRunBeforeTheWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	for i := 0; ; i++ {
		var all sync.WaitGroup
		var ran atomic.Bool
		call := sync.OnceFunc(func() {
			all.Go(func() {
				if err := a.drv.Do(func(clock.Instant) { ran.Store(true) }); err != nil {
					t.Error(err)
				}
			})
			for a.drv.queued.Load() == 0 {
				runtime.Gosched()
			}
		})
		a.port.onRecv.Store(&call)
		next, alive := a.drv.turn()
		preempted := ran.Load() || a.drv.queued.Load() == 0 // the scheduler has already let the call run
		all.Wait()
		switch {
		case !alive:
			t.Fatal("the driver ended")
		case next.yield:
			return
		case !preempted || i == 10:
			t.Fatal("the goroutine waits at the port although a call waits for the lock")
		}
	}
}

// TestBriefWaitsWhilePolled polls a little, and stops: as long as the goroutine does not know
// that the program has stopped, it waits at the port only briefly, after it has let the program
// run, which may have no other thread. Then it waits for arrivals.
func TestBriefWaitsWhilePolled(t *testing.T) {
	a := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	brief := 0
	for polls, deadline := 0, time.Now().Add(waitLimit); ; polls++ {
		if brief == 0 && polls%100 == 0 { // again, if this thread was preempted for long
			a.drv.Progress()
		}
		next, alive := a.drv.turn()
		polling := a.drv.pollers.polling
		switch {
		case !alive || time.Now().After(deadline):
			t.Fatalf("the goroutine never waits for arrivals; alive %t, %d brief waits", alive, brief)
		case next.aside > 0:
			t.Fatal("the goroutine steps aside for a few polls")
		case next.look || next.timeout == 0:
		case polling && (!next.yield || next.timeout < 0 || next.timeout > leastAside):
			t.Fatalf("the goroutine waits for %v, yields %t, although a program has just polled", next.timeout, next.yield)
		case polling:
			brief++
		case brief > 0:
			if next.timeout >= 0 {
				t.Fatalf("the goroutine waits for %v although no program polls", next.timeout)
			}
			return
		}
		a.drv.pollers.polls = 0 // the polls never become sustained
	}
}
