//go:build mutation

package mutation

import "slices"

// Tests of what explore does.
const (
	exploreLimit = "TestLimit"
	explorePlan  = "TestPlan"
	exploreWords = "TestFaultsInWords"
)

// exploreMutants are bugs of the faults that explore tries, and of its runs.
var exploreMutants = slices.Concat(
	bugsIn("internal/explore", []mutant{
		{name: "explore-middle-not-tried", in: "Selection.which", test: explorePlan,
			old: "[]uint64{1, count, middle(count)}",
			new: "[]uint64{1, count}"},
		{name: "explore-wide-classes-tried-too", in: "distinct", test: explorePlan,
			old: "inside >= c.N",
			new: "inside > c.N"},
		{name: "explore-packet-not-late-enough", in: "lateness", test: explorePlan,
			old: "longest*3/2",
			new: "longest"},
		{name: "explore-receiver-not-killed", in: "plan.packets", test: explorePlan,
			old: "q.Packets[sites.Received]",
			new: "q.Packets[sites.Received][:0]"},
		{name: "explore-no-events-without-sends", in: "plan.events", test: "TestEveryRuleIsValid",
			old: "count[post]",
			new: "count[\"\"]"},
		{name: "explore-timers-faster-under-a-delay", in: "Fault.ofPacket", test: exploreWords,
			old: "f.longer, f.steady = r.Duration(fault.Time), true",
			new: "f.longer = r.Duration(fault.Time)"},
		{name: "explore-no-time-for-a-stopped-process", in: "Fault.ofPacket", test: exploreWords,
			old: "f.longer, f.steady, f.stops = stopped, true, true",
			new: "f.steady, f.stops = true, true"},
		{name: "explore-limit-forgets-retries", in: "Run.timers", test: exploreLimit,
			old: "time.Duration(p.Retries)",
			new: "0"},
		{name: "explore-limit-forgets-messages", in: "Run.timers", test: exploreLimit,
			old: "messages = cmTime"},
		{name: "explore-limit-without-bound", in: "Run.timers", test: exploreLimit,
			old: "min(queuePairs+messages, mostTimers)",
			new: "queuePairs+messages"},
		{name: "explore-overrun-blamed-on-the-program", in: "Fault.Causes", test: "TestVerdicts",
			old: "f.Kind == KindEvent && f.Error == ib.EventCQErr.String()",
			new: "false"},
	}),
	bugsIn("internal/fault/sites", []mutant{
		{name: "sites-sent-counted-as-received", in: "Log.Packet", test: "TestCounts",
			old: "int(u)*l.classes",
			new: "0*l.classes"},
		{name: "sites-last-timeout-not-longest", in: "Log.raise", test: "TestCounts",
			old: "old < to",
			new: "old != to"},
	}),
	bugsIn("internal/fault", []mutant{
		{name: "packet-in-no-class-of-its-message", in: "indexClasses", test: "internal/fault/sites TestCounts",
			old: "ops.messages != 0 && roce.Opcode(o) == roce.UDSendOnly",
			new: "false"},
		{name: "adapter-that-is-gone-sends", in: "Port.Send", test: "TestGone",
			old: "case p.gone != nil: return p.gone"},
		{name: "adapter-that-is-gone-receives", in: "Port.Receive", test: "TestGone",
			old: "p.gone != nil",
			new: "false"},
	}),
	bugsIn("internal/device", []mutant{
		{name: "process-not-killed", in: "injector.actedOnPacket", test: "TestKillAndStop",
			old: "kill()"},
		{name: "speedup-without-bound", in: "Environment.retrySpeedup", test: "TestRetrySpeedupIsANumber",
			old: "n > maxRetrySpeedup",
			new: "false"},
	}),
	bugsIn("internal/clock", []mutant{
		{name: "speedup-below-the-least", in: "SpeedUp", test: "TestSpeedUp",
			old: "max(d/time.Duration(times), minSpedUp)",
			new: "d/time.Duration(times)"},
	}),
	bugsIn("internal/flow", []mutant{
		{name: "speedup-after-progress", in: "Retry.Progress", test: "TestRetryTimerSpeedup",
			old: "t.repeated, t.expired = false, false",
			new: "t.repeated = false"},
		{name: "speedup-before-a-timeout", in: "Retry.Start", test: "TestRetryTimerSpeedup",
			old: "t.expired",
			new: "true"},
	}),
	bugsIn("internal/cm", []mutant{
		{name: "repetitions-of-messages-do-not-speedup", in: "stimulus.retransmit", test: "TestRepetitionsSpeedup",
			old: "clock.SpeedUp(c.retry.interval, c.m.cfg.RetrySpeedup)",
			new: "c.retry.interval"},
		{name: "rejected-request-reaches-the-listener", in: "Manager.accept", test: "rdmacm TestRequestsAreRejected",
			old: "m.refuse(x, why); return",
			new: "m.refuse(x, why)"},
	}),
	bugsIn("rdmacm", []mutant{
		{name: "call-that-is-to-fail-connects", in: "ID.Connect", test: "TestCallsFail",
			old: `disturb(id, "CMConnect")`,
			new: "error(nil)"},
	}),
)
