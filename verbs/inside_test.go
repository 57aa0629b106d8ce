package verbs

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/hca"
)

// TestInside runs code on the adapter's thread, until it is closed.
func TestInside(t *testing.T) {
	a, b := newPair(t, ib.RC)
	boom := errors.New("boom")
	err := a.ctx.Inside(func(now clock.Instant, h *hca.HCA) error {
		if h != a.ctx.hca || a.qp.Engine() != a.qp.qp || a.pd.Context() != a.ctx {
			t.Error("inside is another adapter")
		}
		return boom
	})
	want(t, err, boom, "Inside")
	must(t, a.qp.Destroy())
	var none *PD
	if a.qp.Engine() != nil || none.Context() != nil {
		t.Error("a QP that is destroyed has an engine")
	}
	must(t, a.ctx.Close())
	want(t, a.ctx.Inside(nil), ErrInvalidHCA, "Inside of a closed adapter")
	must(t, b.ctx.Close())
}

// TestWatch tells once that an adapter is gone, and why.
func TestWatch(t *testing.T) {
	a, b := newPair(t, ib.RC)
	told := 0
	a.ctx.Watch(func(now clock.Instant, cause error) {
		if told++; now == 0 || cause != nil {
			t.Errorf("closed at %v: %v", now, cause)
		}
	})
	stop := a.ctx.Watch(func(clock.Instant, error) { t.Error("a watch that has ended was told") })
	stop()
	must(t, a.ctx.Close())
	a.ctx.Watch(func(now clock.Instant, cause error) {
		if told++; now != 0 || cause != nil {
			t.Errorf("a watch that comes late: %v, %v", now, cause)
		}
	})
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}

	told = 0
	b.ctx.Watch(func(now clock.Instant, cause error) {
		if told++; now != 0 || !errors.Is(cause, driver.ErrDead) {
			t.Errorf("failed at %v: %v", now, cause)
		}
	})
	err := b.ctx.Inside(func(clock.Instant, *hca.HCA) error { panic("an invariant is broken") })
	want(t, err, driver.ErrDead, "Inside that panics")
	must(t, b.ctx.Close())
	if told != 1 {
		t.Errorf("told %d times, want 1", told)
	}
}

// TestNewCompChannelOf makes a channel for one CQ: another one does not fit, and
// no event is lost though nobody takes any.
func TestNewCompChannelOf(t *testing.T) {
	a, b := newPair(t, ib.RC)
	ch := NewCompChannelOf(1)
	cq, err := a.ctx.CreateCQ(4, ch)
	must(t, err)
	_, err = a.ctx.CreateCQ(4, ch)
	want(t, err, ErrInsufficientResources, "a second CQ")
	for range 10 {
		cq.notify()
	}
	if next(t, ch) != cq {
		t.Error("the event is of another CQ")
	}
	must(t, cq.Destroy())
	other, err := a.ctx.CreateCQ(4, ch)
	must(t, err)
	other.notify()
	other.notify()
	for next(t, ch) != other {
	}
	must(t, other.Destroy())
	must(t, a.ctx.Close())
	must(t, b.ctx.Close())
}
