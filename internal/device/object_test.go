package device

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// hangs is a time after which a call that has not returned never will.
const hangs = time.Minute

// do runs f as d's thread. If that hangs, it ends the process: closing the device would hang too.
func do(d *Device, f func(clock.Instant) error) error {
	timer := time.AfterFunc(hangs, func() { panic("the device's thread waits for itself") })
	defer timer.Stop()
	return d.Do(f)
}

// queues returns n completion queues of d.
func queues(t *testing.T, d *Device, n int) []*CQ {
	t.Helper()
	all := make([]*CQ, n)
	for i := range all {
		all[i] = new(CQ)
		must.Do(t, d.CreateCQ(all[i], CQConfig{Entries: 1}, nil, func() {}, func() {}))
	}
	return all
}

// raise raises CQ_ERR about each of the queues, without a cause.
func raise(d *Device, about ...*CQ) {
	for _, q := range about {
		d.HCA.Raise(qp.Event{Type: ib.EventCQErr, CQ: q.CQ})
	}
}

// takes takes all events, which must be about the given queues in order.
func takes(t *testing.T, d *Device, what string, about ...*CQ) {
	t.Helper()
	for i, q := range about {
		ev, ok, err := d.TakeEvent()
		if err != nil || !ok || ev.About != &q.Object {
			t.Errorf("%s: event %d: taken %t, about the right queue %t, %v", what, i, ok, ev.About == &q.Object, err)
		}
	}
	if _, ok, _ := d.TakeEvent(); ok {
		t.Errorf("%s: more than %d events", what, len(about))
	}
}

// remove removes q, whose end raises events about the given queues.
func remove(t *testing.T, q *CQ, about ...*CQ) {
	t.Helper()
	err := do(q.dev, func(clock.Instant) error {
		return q.Remove(func() error {
			raise(q.dev, about...)
			return q.dev.HCA.CQs().Destroy(q.CQ)
		})
	})
	must.Do(t, err)
}

// TestRemoveRaisesEvents removes an object whose end raises events. Those about other objects
// arrive; those about the object disappear with its earlier ones.
func TestRemoveRaisesEvents(t *testing.T) {
	d := open(t, Config{})
	q := queues(t, d, 3)
	must.Do(t, d.Do(func(clock.Instant) error { raise(d, q[0], q[1], q[0]); return nil }))
	remove(t, q[0], q[0], q[2], q[0])
	takes(t, d, "after the removal", q[1], q[2])
	for _, left := range q[1:] {
		if err := left.Destroy(); !errors.Is(err, ib.ErrBusy) {
			t.Errorf("destroy a queue with an event that is not acknowledged: %v", err)
		}
		left.Ack()
		must.Do(t, left.Destroy())
	}
}

// TestRemoveFails fails to remove an object with pending events. A program cannot take them
// meanwhile; afterwards they are pending as before, in order, and wake threads that wait for an
// event.
func TestRemoveFails(t *testing.T) {
	d := open(t, Config{})
	q := queues(t, d, 3)
	busy := errors.New("busy")
	err := do(d, func(clock.Instant) error {
		raise(d, q[0], q[1], q[0])
		return q[0].Remove(func() error {
			takes(t, d, "during the removal", q[1])
			raise(d, q[2])
			select {
			case <-d.EventReady():
			default:
				t.Error("no event is ready during the removal: one was raised")
			}
			return busy
		})
	})
	if !errors.Is(err, busy) || q[0].Gone() {
		t.Errorf("removed: %t, with error %v", q[0].Gone(), err)
	}
	select {
	case <-d.EventReady():
	default:
		t.Error("no event is ready after the removal has failed")
	}
	takes(t, d, "after the removal has failed", q[0], q[0], q[2])
}
