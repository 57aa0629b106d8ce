package sim

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// With the feature moderation, programs arm completion queues and change how their events are
// delayed. The model knows the instant of each event: the event must come neither earlier nor later,
// and only once each time the queue is armed.

// alarm is the model of the events of a completion queue.
type alarm struct {
	n       *node
	armed   arming
	limits  qp.Moderation
	pending uint32        // completions since the last event that the queue was armed for
	due     clock.Instant // end of the period; Never while nothing is pending
	owed    bool          // the event has to come now
}

// arming says for which completions a queue is armed.
type arming uint8

const (
	disarmed arming = iota
	forSolicited
	forAny
)

// newAlarm returns the model of a new queue.
func newAlarm(n *node) alarm { return alarm{n: n, due: clock.Never} }

// matches reports whether the queue is armed for a completion; solicited says that the completion is
// solicited or unsuccessful.
func (a *alarm) matches(solicited bool) bool {
	return a.armed == forAny || a.armed == forSolicited && solicited
}

// count notes n completions for which the queue is armed.
func (a *alarm) count(n uint32) {
	if a.limits.Count <= 1 || a.limits.Period == 0 {
		a.owed = true
		return
	}
	if a.pending += n; a.pending >= a.limits.Count {
		a.owed = true
		return
	}
	if a.due == clock.Never {
		a.due = a.n.w.Now.Add(a.limits.Period)
	}
}

// got notes a new completion in the queue.
func (a *alarm) got(solicited bool) {
	if a.matches(solicited) {
		a.count(1)
	}
}

// arm arms the queue for its next completion. With waiting, completions already in the queue count,
// too.
func (a *alarm) arm(c *queue, solicited, waiting bool) {
	c.cq.Arm(solicited)
	switch {
	case !solicited:
		a.armed = forAny
	case a.armed == disarmed:
		a.armed = forSolicited
	}
	if !waiting {
		return
	}
	n := uint32(len(c.want))
	if n > 0 && a.armed == forAny {
		a.n.w.Mark("M7 waiting when armed")
		a.count(n)
	}
	a.n.HCA.CQs().Waiting(a.n.w.Now, c.cq, n)
}

// moderate changes the limits, also for an event that is delayed already.
func (a *alarm) moderate(c *queue, m qp.Moderation) {
	w := a.n.w
	if a.pending > 0 {
		w.Mark("M7 changed while pending")
	}
	a.limits = m
	if a.due = clock.Never; a.pending > 0 {
		a.count(0)
	}
	w.Must(a.n.HCA.CQs().Moderate(w.Now, c.cq, m))
}

// rings is called by the adapter for each event of the queue.
func (a *alarm) rings() {
	w := a.n.w
	if w.Telling() {
		w.Say(a.n.Index, "completion event: %d pending of %d, due at %v", a.pending, a.limits.Count, time.Duration(a.due))
	}
	if !a.owed && w.Now < a.due {
		w.Fail("event", "adapter %d: a completion event that is not due: %d completions of %d since the last one, the period ends at %v",
			a.n.Index, a.pending, a.limits.Count, time.Duration(a.due))
	}
	switch {
	case a.pending == 0:
		w.Mark("M7 event at once")
	case a.owed:
		w.Mark("M7 event by count")
	default:
		w.Mark("M7 event by period")
	}
	a.armed, a.pending, a.due, a.owed = disarmed, 0, clock.Never, false
}

// settled checks that no due event is missing.
func (a *alarm) settled() {
	if a.owed || a.due <= a.n.w.Now {
		a.n.w.Fail("event", "adapter %d: a completion event is missing: %d completions of %d since the last one, the period ended at %v",
			a.n.Index, a.pending, a.limits.Count, time.Duration(a.due))
	}
}

// actArm arms a queue.
func (w *world) actArm(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	c := n.cqs[r.IntN(len(n.cqs))]
	c.alarm.arm(c, r.IntN(3) == 0, r.IntN(2) == 0)
	n.wake(nil)
}

// actModerate changes the limits of a queue.
func (w *world) actModerate(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	c := n.cqs[r.IntN(len(n.cqs))]
	m := qp.Moderation{Count: r.Uint32N(12), Period: time.Duration(r.IntN(400)) * time.Microsecond}
	if r.IntN(4) == 0 {
		m.Period = 0
	}
	c.alarm.moderate(c, m)
	n.wake(nil)
}

// solicits reports whether the request is solicited.
func (o *op) solicits() bool { return o.wr.Flags&ib.SendSolicited != 0 }
