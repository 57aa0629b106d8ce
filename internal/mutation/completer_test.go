//go:build mutation

package mutation

// completerMutants are bugs in what answers do to the send queue.
var completerMutants = []mutant{
	{
		name: "responses-taken-in-err", in: "internal/qp.behaviours",
		old:    "ib.ERR: {postFlush, postFlush, false, false, sendNothing}",
		new:    "ib.ERR: {postFlush, postFlush, false, true, sendNothing}",
		breaks: "E20 Q20 Q24",
	},
	{
		name: "acknowledged-packets-sent-again", in: "internal/qp.advance",
		old:    "$r.psn, $read.restart = to, to",
		new:    "$read.restart = to",
		breaks: "E21", sim: "panic status wire memory liveness", profile: "loss",
	},
	{
		name: "read-completed-by-a-later-acknowledgement", in: "internal/qp.covered",
		old:    "if $w.kind == begunAnswered { $*stop }",
		new:    "",
		breaks: "E22", sim: "memory atomic", profile: "loss",
	},
	{
		name: "implied-nak-ignored", in: "internal/qp.receiveAck",
		old:    "if !c.complete(now, v) { c.missing(now, p) }",
		new:    "c.complete(now, v)",
		breaks: "E22",
	},
	{
		name: "acknowledgement-completes-one-request-only", in: "internal/qp.completer.complete",
		old:    "for i := $first; i != v.end && $alive; i++ { $*complete }",
		new:    "for i := $first; i != v.end && $alive; i = v.end { $*complete }",
		breaks: "E22",
	},
	{
		name: "acknowledgement-taken-for-one-psn-more", in: "internal/qp.receiveAck",
		old:    "v := c.covered(p.BTH.PSN)",
		new:    "ack := p.BTH.PSN; if ack.Next().Diff(c.req.fresh) < 0 { ack = ack.Next() }; v := c.covered(ack)",
		breaks: "E22", sim: "timer message memory", profile: "clean",
	},
	{
		name: "ghost-acknowledgement-of-the-next-psn-taken", in: "internal/qp.receiveResponse",
		old:    "$psn.Diff($r.fresh) >= 0",
		new:    "$psn.Diff($r.fresh) > 0",
		breaks: "E23",
	},
	{
		name: "old-nak-fails-the-queue-pair", in: "internal/qp.oldResponse",
		old:    "$s.IsNAK() && s != roce.NAKSequence && $q.answersRead($p.BTH.PSN)",
		new:    "$s.IsNAK() && s != roce.NAKSequence",
		breaks: "E23",
	},
	{
		name: "old-sequence-nak-goes-back", in: "internal/qp.oldResponse",
		old:    "$c.ep.drop(counters.DropDuplicate, p)",
		new:    `if s == roce.NAKSequence { $c.req.lostPackets(now, "x", 1, causeTold) }; $c.ep.drop(counters.DropDuplicate, p)`,
		breaks: "E23",
	},
	{
		name: "answer-that-does-not-fit-ignored", in: "internal/qp.badResponse",
		old:    "$c.end.fail(now, ib.WCBadRespErr, cause)",
		new:    "_ = cause",
		breaks: "E24",
	},
	{
		name: "read-answer-to-an-atomic-taken", in: "internal/qp.awaiting",
		old:    "$answer.kind != $p.Info.Kind",
		new:    "false",
		breaks: "E24",
	},
	{
		name: "other-naks-taken-for-sequence-errors", in: "internal/qp.receiveNAK",
		old:    "$c.end.fail(now, ib.WCRemAccessErr, $cause)",
		new:    "$c.req.lostPackets(now, $cause, 1, causeTold)",
		breaks: "E14 E30",
	},
	{
		name: "invalid-request-reported-as-operational-error", in: "internal/qp.receiveNAK",
		old:    "ib.WCRemInvReqErr",
		new:    "ib.WCRemOpErr",
		breaks: "E10", sim: "status", profile: "errors",
	},
	{
		name: "operational-error-reported-as-invalid-request", in: "internal/qp.receiveNAK",
		old:    "ib.WCRemOpErr",
		new:    "ib.WCRemInvReqErr",
		breaks: "E16", sim: "status", profile: "errors",
	},
	{
		name: "nak-does-not-acknowledge-what-is-before", in: "internal/qp.before",
		old:    "c.covered(psn.Prev())",
		new:    "coverage{c.req.queue.Cons(), c.req.una, c.req.done, true}",
		breaks: "E8",
	},
	{
		name: "rnr-nak-taken-for-a-sequence-error", in: "internal/qp.receiveNAK",
		old:    "c.ep.owner.suspend(now, $s.Value())",
		new:    `c.req.lostPackets(now, "x", 1, causeTold)`,
		breaks: "E25", sim: "rnr status retry", profile: "slow",
	},
	{
		name: "read-response-out-of-turn-stored", in: "internal/qp.receiveReadResponse",
		old:    "psn != $r.una",
		new:    "psn.Diff($r.una) < 0",
		breaks: "E26", sim: "memory status", profile: "loss",
	},
	{
		name: "read-response-place-not-compared", in: "internal/qp.receiveReadResponse",
		old:    "psn != $read.restart",
		new:    "false",
		breaks: "E26",
	},
	{
		name: "short-read-response-taken", in: "internal/qp.receiveReadResponse",
		old:    "len($p.Payload) != $want",
		new:    "len($p.Payload) > $want",
		breaks: "E26",
	},
	{
		name: "read-data-that-cannot-be-stored-reported-as-success", in: "internal/qp.receiveReadResponse",
		old:    "$c.end.fail(now, ib.WCLocProtErr, $cause); return",
		new:    "_ = off",
		breaks: "E28", sim: "status memory", profile: "errors",
	},
	{
		name: "atomic-result-that-cannot-be-stored-reported-as-success", in: "internal/qp.receiveAtomicAck",
		old:    "$c.end.fail(now, ib.WCLocProtErr, $cause); return",
		new:    "_ = value",
		breaks: "E28", sim: "status atomic", profile: "errors",
	},
	{
		name: "atomic-result-in-network-byte-order", in: "internal/qp.receiveAtomicAck",
		old: "$p.AtomicAck",
		new: "$p.AtomicAck<<56 | $p.AtomicAck>>8",
		sim: "atomic", profile: "clean",
	},
	{
		name: "answer-after-the-failure-completes-again", in: "internal/qp.receiveNAK",
		old:    "if $q.State() == ib.ERR { return }",
		new:    "",
		breaks: "E27",
	},
	{
		name: "progress-wakes-nobody", in: "internal/qp.End.sendOn",
		old: "$ep.behaviour().sends()",
		new: "false",
		sim: "liveness delay", profile: "clean",
	},
}
