package qp

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
)

// Maximum values of a Moderation: those of ConnectX adapters.
const (
	MaxModerationCount  = 1<<16 - 1
	MaxModerationPeriod = (1<<12 - 1) * time.Microsecond
)

// Moderation delays the event of an armed completion queue until the queue has got Count
// matching completions, or until Period after the first of them. Count 0 or 1, or Period 0,
// means no delay. As on ConnectX adapters, the delay also applies to solicited and to
// unsuccessful completions.
type Moderation struct {
	Count  uint32
	Period time.Duration
}

// active reports whether events are delayed.
func (m Moderation) active() bool { return m.Count > 1 && m.Period > 0 }

// moderated is the part of a completion queue that delays its events. The shard's thread uses it.
type moderated struct {
	limits  Moderation
	pending uint32        // matching completions since the last event
	timer   deadline.Link // while pending is not 0: the end of the period
}

// Delayed is a heap of completion queues whose events are delayed, by the end of their periods.
type Delayed struct{ deadline.Heap[CQ] }

// NewDelayed returns an empty heap.
func NewDelayed() Delayed {
	return Delayed{deadline.New(func(c *CQ) *deadline.Link { return &c.timer })}
}

// Advance raises the events that are due.
func (d *Delayed) Advance(now clock.Instant) {
	for c := d.Due(now); c != nil; c = d.Due(now) {
		c.announce(d)
	}
}

// count counts n completions for which the queue is armed, and raises its event if that is
// enough.
func (c *CQ) count(now clock.Instant, e *Env, n uint32) {
	if c.pending += n; c.pending >= c.limits.Count {
		c.announce(&e.Delayed)
		return
	}
	if !e.Delayed.Has(c) {
		e.Delayed.Set(c, now.Add(c.limits.Period))
	}
}

// announce raises the delayed event. A reader may have disarmed the queue meanwhile; then
// there is none.
func (c *CQ) announce(d *Delayed) {
	c.pending = 0
	d.Remove(c)
	c.fire(true)
}

// Moderated reports whether events of the queue are delayed. The control plane may call it.
func (c *CQ) Moderated() bool { return c.limits.active() }

// Waiting counts n completions that were in the queue when it was armed, and that no event has
// announced. If events are not delayed, it raises the event at once.
func (e *Env) Waiting(now clock.Instant, c *CQ, n uint32) {
	switch {
	case n == 0 || !c.Armed(false):
	case c.limits.active():
		c.count(now, e, n)
	default:
		c.fire(false)
	}
}

// Moderate changes how events of a queue are delayed. An event that is delayed follows the new
// limits from now on. EINVAL for limits above the maximum.
func (e *Env) Moderate(now clock.Instant, c *CQ, m Moderation) error {
	if m.Count > MaxModerationCount || m.Period < 0 || m.Period > MaxModerationPeriod {
		return fmt.Errorf("moderate a CQ by %d completions and %v: at most %d and %v: %w",
			m.Count, m.Period, MaxModerationCount, MaxModerationPeriod, ib.EINVAL)
	}
	c.limits = m
	switch {
	case c.pending == 0:
	case !m.active():
		c.announce(&e.Delayed)
	default:
		e.Delayed.Remove(c)
		c.count(now, e, 0)
	}
	return nil
}

// Forget drops the delayed event, and the late entries, of a queue that is to be destroyed.
func (e *Env) Forget(c *CQ) {
	e.Delayed.Remove(c)
	e.Late.Remove(c)
	c.held = nil
}
