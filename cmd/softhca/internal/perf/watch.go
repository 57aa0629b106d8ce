package perf

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
)

// Migration is what a client saw of its queue pairs' move to their alternate
// path, or that of the EE context that they share.
type Migration struct {
	QPs   uint64  `json:"queue_pairs"`      // queue pairs that migrated; with RD EE contexts
	After float64 `json:"after_s"`          // when the first did, from the start of the measurement
	Pause float64 `json:"longest_pause_ms"` // longest time without a completion during the measurement
	Again uint64  `json:"retransmits"`      // packets that the client retransmitted
}

// String returns the migration in a line.
func (m *Migration) String() string {
	if m.QPs == 0 {
		return "nothing has migrated"
	}
	return fmt.Sprintf("%s to the alternate path, the first after %.3f s; nothing completed for %.1f ms; %s sent again",
		text.Count(m.QPs, "migration", "migrations"), m.After, m.Pause, text.Count(m.Again, "packet", "packets"))
}

// watch reads the asynchronous events of an adapter and records migrations.
type watch struct {
	end  context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	moved uint64     // queue pairs, or EE contexts, that have migrated
	first time.Time  // time of the first migration
}

// newWatch returns a watch for a side with an alternate path, and nil for others.
func newWatch(own *localSide) *watch {
	if !own.plan.Alt {
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	w := &watch{end: end}
	w.done.Go(func() {
		for {
			ev, err := own.Device.GetAsyncEvent(ctx)
			if err != nil {
				return // the watch has ended, or the adapter is closed
			}
			ev.Ack()
			if ev.Type == ib.EventPathMig || ev.Type == ib.EventEECPathMig {
				w.note(time.Now())
			}
		}
	})
	return w
}

func (w *watch) note(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.moved++; w.moved == 1 {
		w.first = now
	}
}

// count returns the number of queue pairs, or EE contexts, that have migrated.
func (w *watch) count() uint64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

// migration returns the Migration of a result, or nil without an alternate path.
func (w *watch) migration(m *meter, own *Report) *Migration {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Migration{QPs: w.moved, Pause: float64(m.pause) / float64(time.Millisecond), Again: own.Retransmits}
	if w.moved > 0 {
		// The event is older than the last completion, but may be read after it.
		r.After = min(w.first.Sub(m.start), m.stopped.Sub(m.start)).Seconds()
	}
	return r
}

// close ends the watch.
func (w *watch) close() {
	if w != nil {
		w.end()
		w.done.Wait()
	}
}
