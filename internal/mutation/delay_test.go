//go:build mutation

package mutation

import "slices"

// delayMutants are bugs after which everything ends as it should, but later.
var delayMutants = slices.Concat(
	bugsIn("internal/qp", []mutant{
		{name: "answer-waits-for-the-next-doorbell", in: "responder.receiveRequest", sim: "delay", profile: "clean",
			old: "if r.owes() { $wake }"},
		{name: "requests-wait-for-a-doorbell-after-an-answer", in: "QP.Receive",
			sim: "delay", profile: "slow",
			old: "q.sendOn()"},
		{name: "requests-wait-for-a-doorbell-after-the-rnr-wait", in: "requester.rnrTimeout",
			sim: "delay", profile: "slow",
			old: "r.end.Wake()"},
		{name: "packets-sent-again-at-the-next-doorbell", in: "requester.follow", sim: "delay", profile: "loss",
			old: "r.end.Wake()"},
		{name: "reorder-buffer-takes-nothing-from-the-new-path", in: "responder.dropHeld",
			test: "TestV15_NewPathIsUnknown",
			old:  "r.port, r.row = 0, 0",
			new:  "r.row = 0"},
		{name: "answers-of-the-new-path-not-kept", in: "completer.clear", test: "TestV15_NewPathIsUnknown",
			old: "c.port = 0"},
	}),
	bugsIn("internal/flow", []mutant{
		{name: "probes-wait-longer-though-the-peer-has-answered", in: "RoundTrip.End", test: "TestL1_RoundTrip",
			old: "t.doubled = 0"},
		{name: "room-of-a-queue-pair-that-ends-offered-to-nobody", in: "Share.Release", test: "TestProberThatLeaves",
			old: "p.wake()"},
		{name: "prober-that-was-reset-keeps-others-waiting", in: "Share.uncharge", test: "TestProberThatLeaves",
			old: "s.cost == 0 && p.prober == s",
			new: "cost != 0 && s.cost == 0 && p.prober == s"},
		{name: "peer-that-is-late-once-is-late-for-ever", in: "RoundTrip.Sample", test: "TestL1_LatePeer",
			old: "t.calm, t.late = 0, t.late-min(t.late, 1)",
			new: "t.calm = 0"},
		{name: "retry-timer-armed-at-twice-its-time", in: "Retry.Start", sim: "delay", profile: "loss",
			old: "now.Add(t.timeout)",
			new: "now.Add(2 * t.timeout)"},
		{name: "no-probe-after-new-requests", in: "Recovery.Sent", breaks: "L1",
			old: "if *$f.timers.Probe == clock.Never { $start }"},
		{name: "rnr-wait-twice-as-long", in: "Retry.Refused", sim: "delay", profile: "slow",
			old: "now.Add(d)",
			new: "now.Add(2 * d)"},
		{name: "repair-waits-for-the-next-doorbell", in: "Recovery.begin", sim: "delay", profile: "migration",
			old: "$f.share.sender.Wake()"},
	}),
	bugsIn("internal/driver", []mutant{
		{name: "timer-left-behind-wakes-nobody", in: "needsWake", test: "TestWhoLetsGoMindsDeadlines",
			old: "d.deadline() < d.asleep",
			new: "false"},
		{name: "searches-that-paid-once-pay-for-ever", in: "busyPoll.arrived", test: "TestLooksAreBounded",
			old: "min(l.looks+1, mostLooks)",
			new: "l.looks + 1"},
	}),
)
