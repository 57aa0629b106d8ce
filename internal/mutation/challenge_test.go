//go:build mutation

package mutation

// challengeMutants are bugs in the examination of what packets claim about a peer.
var challengeMutants = []mutant{
	{
		name: "nak-believed-at-once", in: "internal/qp.challenge.refuses",
		old:    "!c.on(claimNAK)",
		new:    "true",
		breaks: "E14",
		test:   "internal/qp TestStrangersNAKs",
	},
	{
		name: "peer-asked-once", in: "internal/qp.challenge.timeout",
		old:    "c.probes < c.rounds()",
		new:    "c.probes < 1",
		breaks: "V15",
	},
	{
		name: "probe-that-could-not-leave-counts", in: "internal/qp.challenge.timeout",
		old:  "c.owed",
		new:  "false",
		test: "internal/qp TestProbesThatCannotLeave",
	},
	{
		name: "answer-older-than-the-claim-refutes-it", in: "internal/qp.challenge.weigh",
		old:    "now.Sub(c.since) >= c.step",
		new:    "true",
		breaks: "V15",
	},
	{
		name: "answer-older-than-the-nak-refutes-it", in: "internal/qp.challenge.weigh",
		old:    "now >= c.nakFrom && c.nak.fatal()",
		new:    "c.nak.fatal()",
		breaks: "E14",
	},
	{
		name: "other-claims-put-off-the-verdict-on-a-nak", in: "internal/qp.challenge.timeout",
		old:  "c.claims&claimNAK != 0 && now >= c.nakUntil && c.nakProbes >= c.rounds()",
		new:  "c.claims&claimNAK != 0 && c.probes == challengeProbes && now >= c.next",
		test: "internal/qp TestClaimsDoNotWaitForEachOther",
	},
	{
		name: "acknowledged-request-still-refused", in: "internal/qp.challenge.weigh",
		old:    "c.end.req.una.Diff(c.nak.psn) > 0",
		new:    "false",
		breaks: "E14",
	},
	{
		name: "of-two-naks-the-later-request", in: "internal/qp.challenge.refuses",
		old:    "c.claims&claimNAK == 0 || n.psn.Diff(c.nak.psn) < 0",
		new:    "true",
		breaks: "E14",
	},
	{
		name: "live-peer-refutes-the-last-retry", in: "internal/qp.challenge.weigh",
		old:    "now >= c.nakFrom && c.nak.fatal()",
		new:    "now >= c.nakFrom",
		breaks: "E12",
	},
	{
		name: "answer-beyond-what-was-sent-is-no-sign-of-life", in: "internal/qp.completer.receiveResponse",
		old:    "!$c.answersProbe(now, p)",
		new:    "true",
		breaks: "E14",
	},
	{
		name: "peer-that-examines-a-move-taken-for-silent", in: "internal/qp.challenge.moveOn",
		old:    "$c.unheard = true",
		new:    "$c.unheard = false",
		breaks: "E14",
	},
	{
		name: "requests-leave-during-a-challenge", in: "internal/qp.challenge.holds",
		old:    "c.claims&claimNAK != 0",
		new:    "false",
		breaks: "E14",
	},
	{
		name: "retries-counted-during-a-challenge", in: "internal/qp.ackTimeout",
		old:    "r.end.challenge.holds()",
		new:    "false",
		breaks: "E14",
	},
	{
		name: "migration-believed-at-once", in: "internal/qp.challenge.moved",
		old:    "!c.on(claimMoved)",
		new:    "true",
		breaks: "V15",
	},
	{
		name: "uc-migrates-though-the-old-path-is-in-use", in: "internal/qp.migration.follow",
		old:    "m.claim = 0",
		new:    "",
		breaks: "V15",
	},
	{
		name: "probe-at-the-oldest-psn", in: "internal/qp.challenge.psn",
		old:    "return r.una.Prev()",
		new:    "return r.una",
		breaks: "E14",
	},
	{
		name: "answer-in-doubt-believed", in: "internal/qp.completer.doubts",
		old:    "same && now >= d.until",
		new:    "true",
		breaks: "E24 E26",
	},
	{
		name: "answer-in-doubt-never-believed", in: "internal/qp.completer.doubts",
		old:    "same && now >= d.until",
		new:    "false",
		breaks: "E24",
	},
	{
		name: "copy-of-an-answer-in-doubt-believed", in: "internal/qp.completer.doubts",
		old:  "same && now >= d.until",
		new:  "same",
		test: "internal/qp TestStrangersNAKs",
	},
	{
		name: "kept-request-ends-the-connection", in: "internal/qp.catchUp",
		old:    "r.late = true",
		new:    "",
		breaks: "E14",
	},
	{
		name: "request-in-doubt-leaves-its-message-open", in: "internal/qp.carryOut",
		old: "r.in.msg, r.in.received, r.in.slot.spare = msg, received, msg == messageNone",
		new: "_, _ = msg, received",
		sim: "status message memory state event", profile: "chaos",
	},
	{
		name: "middle-of-a-read-acknowledges-what-is-before", in: "internal/qp.awaiting",
		old:    "v.end != r.queue.Cons() && c.end.challenge.on(claimAny)",
		new:    "false",
		breaks: "E26",
	},
	{
		name: "msn-of-messages-never-begun-fits", in: "internal/qp.fits",
		old:  "(uint32(msn)-least)&mask <= (begun-least)&mask",
		new:  "(uint32(msn)-least)&mask <= (begun-least)&mask + 1",
		test: "internal/qp TestMSNFits",
	},
	{
		name: "msn-demanded-for-ever", in: "internal/qp.msnPolicy.refuses",
		old:  "*y = msnPolicy{}",
		new:  "",
		test: "internal/qp TestMSNIsDemanded",
	},
	{
		name: "guesses-end-the-demand-for-a-msn", in: "internal/qp.msnPolicy.refuses",
		old:  "max(d, -d) <= $bound",
		new:  "true || max(d, -d) <= $bound",
		test: "internal/qp TestMSNIsDemanded",
	},
	{
		name: "answer-of-rxe-to-a-probe-not-heard", in: "internal/qp.answersProbe",
		old:  "c.end.challenge.claims == 0",
		new:  "true",
		test: "internal/qp TestProbesBehindREADs",
	},
	{
		name: "refused-answer-refutes-a-nak", in: "internal/qp.receiveResponse",
		old:  "c.catchUp(now)",
		new:  "c.catchUp(now); c.end.challenge.heard(now)",
		test: "internal/qp TestRefusedAnswersProveNothing",
	},
	{
		name: "answers-with-any-msn", in: "internal/qp.refusesMSN",
		old:  "!c.ep.distrusts(claimNAK)",
		new:  "true",
		test: "internal/qp TestMSNOfStrangers",
	},
	{
		name: "examination-not-told-of-a-queue-pair-that-stopped", in: "internal/qp.challenge.stop",
		old:  "c.result != nil",
		new:  "false",
		test: "internal/qp TestChallengeEnds",
	},
	{
		name: "timer-not-armed-by-modify", in: "internal/qp.QP.Modify",
		old:  "defer q.Arm()",
		new:  "",
		test: "internal/qp TestChallengeEnds",
	},
}
