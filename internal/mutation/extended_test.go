//go:build mutation

package mutation

import "slices"

// extendedMutants are bugs of extended verbs: moderation and times of completion queues, the size
// of shared receive queues, and long lists of atomics.
var extendedMutants = slices.Concat(
	bugsIn("internal/qp", []mutant{
		{name: "event-after-one-completion-too-many", in: "CQ.count", breaks: "M7", sim: "event", profile: "events",
			old: "$c.pending >= $c.limits.Count",
			new: "$c.pending > $c.limits.Count"},
		{name: "period-begins-with-each-completion", in: "CQ.count", breaks: "M7", sim: "event", profile: "events",
			old: "if !e.Delayed.Has(c) { $*body }",
			new: "e.Delayed.Set(c, now.Add(c.limits.Period))"},
		{name: "event-lost-after-the-period", in: "Delayed.Advance", breaks: "M7", sim: "event", profile: "events",
			old: "$c.announce(d)"},
		{name: "count-goes-on-after-the-event", in: "CQ.announce", breaks: "M7", sim: "event", profile: "events",
			old: "$c.pending = 0"},
		{name: "moderated-event-one-completion-early", in: "CQ.count", sim: "event", profile: "events",
			old: "$c.pending >= $c.limits.Count",
			new: "$c.pending+1 >= $c.limits.Count"},
		{name: "solicited-events-come-at-once", in: "CQ.push", sim: "event", profile: "events",
			old: "$c.limits.active()",
			new: "$c.limits.active() && !solicited"},
		{name: "moderation-ends-without-its-event", in: "Env.Moderate", breaks: "M7", sim: "event", profile: "events",
			old: "case !m.active(): $c.announce(&e.Delayed)",
			new: "case !m.active():"},
		{name: "new-period-for-later-events-only", in: "Env.Moderate", breaks: "M7", sim: "event", profile: "events",
			old: "$e.Delayed.Remove(c)"},
		{name: "event-delayed-by-no-period", in: "Moderation.active", breaks: "M7", test: "TestM7_HalfModeration",
			old: "$m.Period > 0",
			new: "true"},
		{name: "moderation-without-bounds", in: "Env.Moderate", breaks: "M7", test: "TestM7_ModerationBounds",
			old: "m.Period > MaxModerationPeriod",
			new: "false"},
		{name: "waiting-completions-not-counted", in: "Env.Waiting", test: "TestM7_WaitingWhenArmed", sim: "event", profile: "events",
			old: "$c.count(now, e, n)",
			new: "$c.count(now, e, 0)"},
		{name: "armed-limit-above-the-new-size", in: "SRQ.Resize", breaks: "M7",
			old: "n < $s.limit",
			new: "false"},
		{name: "long-list-of-an-atomic-refused", in: "operation.holdsAnswer", test: "internal/hca TestWildAtomicList",
			old: "n > uint64($o.demand.size)",
			new: "false"},
		{name: "atomic-returns-its-list", in: "sendQueue.note", test: "internal/hca TestWildAtomicList",
			old: "$w.length = atomicSize"},
	}),
	bugsIn("internal/hca", []mutant{
		{name: "timer-of-a-destroyed-queue", in: "CQs.Destroy", test: "internal/qp TestM7_DelayedEventEnds",
			old: "c.Moderated() || $h.cfg.Nasty != nil",
			new: "false"},
	}),
	bugsIn("internal/ring", []mutant{
		{name: "time-lost-when-the-queue-moves", in: "CQ.move", breaks: "M7", test: "TestM7_TimedCQ", sim: "poll", profile: "errors",
			old: "*t = *$c.time(from)"},
		{name: "smaller-than-what-is-in-use", in: "Ring.Resize", breaks: "M7",
			old: "n < used",
			new: "false"},
		{name: "entries-moved-from-the-first-slot-on", in: "Ring.Resize", breaks: "M7", sim: "completion message memory order status", profile: "errors",
			old: "copy(r.bytes(i), old.bytes(i))",
			new: "copy(r.bytes(i), old.bytes(i-r.cons))"},
		{name: "memory-of-moved-entries-leaks", in: "Ring.Resize", test: "TestModel",
			old: "if moved { $*body }",
			new: "if moved && size < 0 { $*body }"},
	}),
)
