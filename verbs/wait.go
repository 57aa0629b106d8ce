package verbs

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// waiter lets goroutines sleep until a CQ that has no completion channel of the
// program has entries.
type waiter struct {
	turn   chan struct{} // holds one while a goroutine arms and sleeps
	events *CompChannel  // of this CQ alone
}

func newWaiter() *waiter {
	return &waiter{turn: make(chan struct{}, 1), events: NewCompChannel(1)}
}

// Wait sleeps until the CQ has a completion, which Poll then takes:
//
//	for {
//		n, err := cq.Poll(wcs)
//		if err != nil { ... }
//		if n == 0 {
//			if err := cq.Wait(ctx); err != nil { ... }
//			continue
//		}
//		...
//	}
//
// If several goroutines poll the CQ, another may take the completion first; while
// completions are left, every waiting goroutine returns. If ctx ends first, Wait
// returns its cause. If there can be no more completions, Wait returns the error of
// Poll, or EIO once the CQ has overflowed and its completions were polled. EINVAL
// for a CQ with a completion channel: CompChannel.Get waits for its events. Wait
// starts no goroutine: its caller's thread waits for packets.
func (q *CQ) Wait(ctx context.Context) error {
	if q == nil {
		return wrap("wait for CQ", ErrInvalidCQ)
	}
	w := q.waiter
	if w == nil {
		return fmt.Errorf("wait for CQ: its events go to a completion channel: wait with CompChannel.Get: %w", ib.EINVAL)
	}
	// One goroutine at a time sleeps for the event. When it returns, the next one continues,
	// and checks for remaining completions itself.
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return wrap("wait for CQ", context.Cause(ctx))
	}
	defer func() { <-w.turn }()
	for {
		if q.obj.CQ.Pending() > 0 {
			return nil
		}
		if err := q.obj.Usable(ErrInvalidCQ); err != nil {
			return wrap("wait for CQ", err)
		}
		if q.Overrun() {
			return fmt.Errorf("wait for CQ: it overflowed, and completions were lost: create it with more entries: %w", ib.EIO)
		}
		q.arm(false)
		if q.obj.CQ.Pending() > 0 {
			return nil
		}
		// An event that an earlier call left makes Get return at once, and the loop
		// continue.
		if _, err := w.events.Get(ctx); err != nil {
			return wrap("wait for CQ", err)
		}
	}
}

// destroyed wakes sleepers, which then learn that the CQ is gone.
func (w *waiter) destroyed(q *CQ) {
	w.events.put(q)
	q.dev.Port.Wake()
}
