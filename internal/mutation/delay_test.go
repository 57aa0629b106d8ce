//go:build mutation

package mutation

// delayMutants are bugs after which everything ends as it should, but later.
var delayMutants = []mutant{
	{
		name: "retry-timer-armed-at-twice-its-time", in: "internal/qp.requester.startAckTimer",
		old: "now.Add(d)",
		new: "now.Add(2 * d)",
		sim: "delay", profile: "loss",
	},
	{
		name: "probes-wait-longer-though-the-peer-has-answered", in: "internal/flow.RoundTrip.End",
		old:  "t.doubled = 0",
		new:  "",
		test: "internal/flow TestL1_RoundTrip",
	},
	{
		name: "no-probe-after-new-requests", in: "internal/qp.requester.sent",
		old:    "if $r.ep.timers[timerLoss] == clock.Never { $start }",
		new:    "",
		breaks: "L1",
	},
	{
		name: "rnr-wait-twice-as-long", in: "internal/qp.requester.receiveRNR",
		old: "now.Add(ib.RNRTimer(code))",
		new: "now.Add(2 * ib.RNRTimer(code))",
		sim: "delay", profile: "slow",
	},
	{
		name: "answer-waits-for-the-next-doorbell", in: "internal/qp.responder.receiveRequest",
		old: "if r.owes() { $wake }",
		new: "",
		sim: "delay", profile: "clean",
	},
	{
		name: "requests-wait-for-a-doorbell-after-an-answer", in: "internal/qp.QP.Receive",
		old: "q.sendOn()",
		new: "",
		sim: "delay", profile: "slow",
	},
	{
		name: "requests-wait-for-a-doorbell-after-the-rnr-wait", in: "internal/qp.requester.rnrTimeout",
		old: "r.end.Wake()",
		new: "",
		sim: "delay", profile: "slow",
	},
	{
		name: "packets-sent-again-at-the-next-doorbell", in: "internal/qp.requester.goBack",
		old: "r.end.Wake()",
		new: "",
		sim: "delay", profile: "loss",
	},
	{
		name: "repair-waits-for-the-next-doorbell", in: "internal/qp.repair.begin",
		old: "r.end.Wake()",
		new: "",
		sim: "delay", profile: "bulk",
	},
	{
		name: "room-of-a-queue-pair-that-ends-offered-to-nobody", in: "internal/flow.Share.Release",
		old:  "p.wake()",
		new:  "",
		test: "internal/flow TestProberThatLeaves",
	},
	{
		name: "prober-that-was-reset-keeps-others-waiting", in: "internal/flow.Share.uncharge",
		old:  "s.cost == 0 && p.prober == s",
		new:  "cost != 0 && s.cost == 0 && p.prober == s",
		test: "internal/flow TestProberThatLeaves",
	},
	{
		name: "peer-that-is-late-once-is-late-for-ever", in: "internal/flow.RoundTrip.Sample",
		old:  "t.calm, t.late = 0, t.late-min(t.late, 1)",
		new:  "t.calm = 0",
		test: "internal/flow TestL1_LatePeer",
	},
	{
		name: "reorder-buffer-takes-nothing-from-the-new-path", in: "internal/qp.responder.forgetEarly",
		old:  "r.port, r.row = 0, 0",
		new:  "r.row = 0",
		test: "internal/qp TestV15_NewPathIsUnknown",
	},
	{
		name: "answers-of-the-new-path-not-kept", in: "internal/qp.completer.clear",
		old:  "c.port = 0",
		new:  "",
		test: "internal/qp TestV15_NewPathIsUnknown",
	},
	{
		name: "timer-left-behind-wakes-nobody", in: "internal/driver.needsWake",
		old:  "d.shard.Deadline() < d.asleep",
		new:  "false",
		test: "internal/driver TestWhoLetsGoMindsDeadlines",
	},
	{
		name: "searches-that-paid-once-pay-for-ever", in: "internal/driver.linger.arrived",
		old:  "min(l.looks+1, mostLooks)",
		new:  "l.looks + 1",
		test: "internal/driver TestLooksAreBounded",
	},
}
