package qp_test

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
)

// moderatedCQ is a completion queue of an adapter in virtual time, and its events so far.
type moderatedCQ struct {
	*rig.Solo
	cq    *qp.CQ
	fired int
}

func newModeratedCQ(t *testing.T) *moderatedCQ {
	t.Helper()
	m := &moderatedCQ{Solo: rig.NewSolo(t, rig.SoloConfig{})}
	var err error
	m.cq, err = m.HCA.CreateCQ(8, func() { m.fired++ })
	rig.Must(t, err)
	return m
}

// want fails the test unless n events were raised, and the next is due at an instant.
func (m *moderatedCQ) want(t *testing.T, why string, n int, due clock.Instant) {
	t.Helper()
	if at := m.HCA.Shard().Deadline(); m.fired != n || at != due {
		t.Errorf("%s: %d events, the next due at %d; want %d, and %d", why, m.fired, at, n, due)
	}
}

// TestM7_ModerationBounds shows that the largest count and period are accepted, and nothing beyond.
func TestM7_ModerationBounds(t *testing.T) {
	m := newModeratedCQ(t)
	for _, c := range []struct {
		why string
		to  qp.Moderation
		ok  bool
	}{
		{"the largest", qp.Moderation{Count: qp.MaxModerationCount, Period: qp.MaxModerationPeriod}, true},
		{"one more completion", qp.Moderation{Count: qp.MaxModerationCount + 1, Period: 1}, false},
		{"a longer period", qp.Moderation{Count: 1, Period: qp.MaxModerationPeriod + 1}, false},
		{"a negative period", qp.Moderation{Count: 1, Period: -1}, false},
	} {
		if err := m.HCA.CQs().Moderate(0, m.cq, c.to); (err == nil) != c.ok || err != nil && !errors.Is(err, ib.EINVAL) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

// TestM7_WaitingWhenArmed shows that completions which were in the queue when it was armed count
// like later ones, and raise the event at once where events are not delayed.
func TestM7_WaitingWhenArmed(t *testing.T) {
	m := newModeratedCQ(t)
	cqs, period := m.HCA.CQs(), 10*time.Microsecond
	cqs.Waiting(0, m.cq, 1)
	m.want(t, "not armed", 0, clock.Never)
	m.cq.Arm(false)
	cqs.Waiting(0, m.cq, 0)
	m.want(t, "armed, and no completion waits", 0, clock.Never)
	cqs.Waiting(0, m.cq, 1)
	m.want(t, "armed, without moderation", 1, clock.Never)

	rig.Must(t, cqs.Moderate(0, m.cq, qp.Moderation{Count: 3, Period: period}))
	m.cq.Arm(true)
	cqs.Waiting(0, m.cq, 3)
	m.want(t, "armed for solicited completions only", 1, clock.Never)
	m.cq.Arm(false)
	cqs.Waiting(0, m.cq, 2)
	m.want(t, "two of three", 1, clock.Instant(period))
	m.HCA.Shard().Advance(clock.Instant(period))
	m.want(t, "after the period", 2, clock.Never)
	m.cq.Arm(false)
	cqs.Waiting(0, m.cq, 3)
	m.want(t, "three of three", 3, clock.Never)
}

// TestM7_HalfModeration sets only a count, or only a period: events are not delayed.
func TestM7_HalfModeration(t *testing.T) {
	m := newModeratedCQ(t)
	for i, to := range []qp.Moderation{{Count: 3}, {Count: 1, Period: time.Millisecond}, {Period: time.Millisecond}} {
		rig.Must(t, m.HCA.CQs().Moderate(0, m.cq, to))
		m.cq.Arm(false)
		m.HCA.CQs().Waiting(0, m.cq, 1)
		m.want(t, "one completion", i+1, clock.Never)
	}
}

// TestM7_DelayedEventEnds shows that a reader that disarms the queue prevents its delayed event,
// and that a destroyed queue leaves no timer.
func TestM7_DelayedEventEnds(t *testing.T) {
	m := newModeratedCQ(t)
	cqs, period := m.HCA.CQs(), 10*time.Microsecond
	rig.Must(t, cqs.Moderate(0, m.cq, qp.Moderation{Count: 3, Period: period}))
	m.cq.Arm(false)
	cqs.Waiting(0, m.cq, 2)
	if !m.cq.Fire(false) {
		t.Fatal("the queue is not armed")
	}
	m.HCA.Shard().Advance(clock.Instant(period))
	m.want(t, "disarmed by a reader", 0, clock.Never)
	m.cq.Arm(false)
	cqs.Waiting(0, m.cq, 1)
	m.want(t, "the count begins again after the period", 0, clock.Instant(period))
	rig.Must(t, m.HCA.CQs().Destroy(m.cq))
	m.want(t, "destroyed", 0, clock.Never)
}
