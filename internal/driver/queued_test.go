package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

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
