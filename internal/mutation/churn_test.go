//go:build mutation

package mutation

import "slices"

// churnMutants are bugs that need many objects, or many goroutines, or one
// thing after another that is seldom after it.
var churnMutants = slices.Concat(
	bugsIn("internal/number", []mutant{
		{name: "qpns-at-rest-never-expire", in: "Pool.Free", test: "internal/hca TestChurnNumbers",
			old: "*word &^= mask",
			new: "_, _ = word, mask"},
	}),
	bugsIn("internal/memory", []mutant{
		{name: "live-key-lost-when-one-is-forgotten", in: "keys.remove", test: "TestChurnKeys",
			old: "(i-home)&mask >= (i-hole)&mask",
			new: "(i-home)&mask > (i-hole)&mask"},
		{name: "indices-at-rest-never-expire", in: "keys.expire", test: "TestChurnKeys",
			old: "$k.remove($oldest)"},
	}),
	bugsIn("internal/deadline", []mutant{
		{name: "deadlines-not-sifted-up-on-removal", in: "Heap.Remove", test: "internal/hca TestChurnTimers",
			old: "$h.sift(i)",
			new: "for c := 2 * i; c <= len($h.all) && !$h.before(i, c); c = 2 * i { if c < len($h.all) && $h.before(c+1, c) { c++ }; $h.swap(i, c); i = c }"},
	}),
	bugsIn("internal/shard", []mutant{
		{name: "doorbell-cleared-after-it-was-answered", in: "doorbells.answer",
			test: "internal/hca TestRingDuringAnswer",
			old:  "$q.Doorbells.Rung.Store(false); f(q)",
			new:  "f(q); $q.Doorbells.Rung.Store(false)"},
	}),
	bugsIn("internal/hca", []mutant{
		{name: "event-after-the-completion-of-the-first-request", in: "planes.reach", test: "internal/driver TestFirstRequestEstablishes",
			old: "!$p.guard.Reach($at)",
			new: "true"},
		{name: "any-number-of-mads-waits-for-the-control-plane", in: "handover.arrived", test: "internal/driver TestDataFlowsInStorm",
			old: "$h.mads == maxArrived",
			new: "false"},
	}),
	bugsIn("internal/driver", []mutant{
		{name: "doorbell-under-the-lock-not-answered", in: "unlock", test: "TestDoorbellWhileTheHolderSends",
			old: "dead != nil || !$d.shard.DoorbellRung() && !$d.control.owes.Load()",
			new: "dead != nil || !$d.control.owes.Load()"},
		{name: "mads-left-behind-a-busy-control-plane", in: "Control", test: "TestDataFlowsWhileControlIsBusy",
			old: "$d.attend(true)"},
		{name: "active-wait-for-a-busy-control-plane", in: "control.deadline", test: "TestControlTimers",
			old: "$c.late.Load()",
			new: "false"},
		{name: "timer-after-a-late-one-forgotten", in: "control.publish", test: "TestTimerAfterALateOne",
			old: "$c.fired && due != clock.Never",
			new: "false"},
		{name: "calls-left-behind-the-goroutine", in: "turn", test: "TestCallsRunBeforeTheWait",
			old: "$d.queued.Load() > 0",
			new: "false"},
		{name: "waits-for-long-while-a-program-polls", in: "round", test: "TestBriefWaitsWhilePolled",
			old: "$d.pollers.polling && $next.sleeps()",
			new: "false"},
		{name: "who-sleeps-posts-before-it-answers", in: "sendPosted", test: "TestAnswerOfWhoSleepsAtThePort",
			old: "$d.answer($now)",
			new: "$d.transmit($now)"},
	}),
	bugsIn("internal/device", []mutant{
		{name: "event-signal-not-given-again", in: "TakeEvent", test: "verbs TestAsyncEventReadyAgain",
			old: "if $more || $e.shut { $e.signal() }"},
	}),
	bugsIn("internal/ring", []mutant{
		{name: "armed-for-any-then-for-solicited-only", in: "CQ.Arm", breaks: "E29",
			old: "$c.hdr.Armed.CompareAndSwap(ArmNone, ArmSolicited)",
			new: "$c.hdr.Armed.Swap(ArmSolicited) < ArmAny+1"},
	}),
	bugsIn("internal/flow", []mutant{
		{name: "loss-wakes-nobody-who-waits-for-the-window", in: "Share.GoBack", breaks: "E4 E12",
			old: "$s.peer.wake()"},
	}),
	bugsIn("internal/qp", []mutant{
		{name: "longer-end-of-a-read-forgotten-by-a-duplicate", in: "duplicateRead", breaks: "E9",
			old: "if $e.pending && $e.stop > stop { $*body }"},
	}),
)
