//go:build mutation

package mutation

// completerMutants are bugs in what answers do to the send queue.
var completerMutants = []mutant{
	{
		name: "responses-taken-in-err", file: "internal/qp/behaviour.go",
		old: "ib.ERR:   {postFlush, postFlush, false, false, sendNothing}", new: "ib.ERR:   {postFlush, postFlush, false, true, sendNothing}",
		breaks: "E20 Q20 Q24",
	},
	{
		name: "acknowledged-packets-sent-again", file: "internal/qp/completer.go",
		old: "r.psn, r.read.restart = to, to\n", new: "r.read.restart = to\n",
		breaks: "E21", sim: "panic status wire memory liveness", profile: "loss",
	},
	{
		name: "read-completed-by-a-later-acknowledgement", file: "internal/qp/completer.go",
		old: "if needsResponse(w.Opcode) {\n\t\t\treturn false\n\t\t}", new: "",
		breaks: "E22", sim: "memory atomic", profile: "loss",
	},
	{
		name: "implied-nak-ignored", file: "internal/qp/completer.go",
		old: "if !q.acknowledge(now, p.BTH.PSN) {\n\t\t\tq.impliedNAK(now)\n\t\t}", new: "q.acknowledge(now, p.BTH.PSN)",
		breaks: "E22",
	},
	{
		name: "acknowledgement-completes-one-request-only", file: "internal/qp/completer.go",
		old:    "q.completeSend(now, ib.WCSuccess)\n\t\tif q.State() == ib.ERR {",
		new:    "q.completeSend(now, ib.WCSuccess)\n\t\tif q.State() <= ib.ERR {",
		breaks: "E22",
	},
	{
		name: "acknowledgement-taken-for-one-psn-more", file: "internal/qp/completer.go",
		old: "if !q.acknowledge(now, p.BTH.PSN) {", new: "ack := p.BTH.PSN\n\t\tif ack.Next().Diff(q.req.fresh) < 0 {\n\t\t\tack = ack.Next()\n\t\t}\n\t\tif !q.acknowledge(now, ack) {",
		breaks: "E22", sim: "timer message memory", profile: "clean",
	},
	{
		name: "ghost-acknowledgement-of-the-next-psn-taken", file: "internal/qp/completer.go",
		old: "case psn.Diff(r.fresh) >= 0:", new: "case psn.Diff(r.fresh) > 0:",
		breaks: "E23",
	},
	{
		name: "old-nak-fails-the-queue-pair", file: "internal/qp/completer.go",
		old: "case s.IsNAK() && s != roce.NAKSequence && q.answersRead(p.BTH.PSN):", new: "case s.IsNAK() && s != roce.NAKSequence:",
		breaks: "E23",
	},
	{
		name: "old-sequence-nak-goes-back", file: "internal/qp/completer.go",
		old: "q.drop(DropDuplicate, p)\n}", new: "if s == roce.NAKSequence {\n\t\tq.lostPackets(now, \"x\")\n\t}\n\tq.drop(DropDuplicate, p)\n}",
		breaks: "E23",
	},
	{
		name: "answer-that-does-not-fit-ignored", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCBadRespErr, cause)", new: "_ = cause",
		breaks: "E24",
	},
	{
		name: "read-answer-to-an-atomic-taken", file: "internal/qp/completer.go",
		old: "if w.Opcode != ib.WRRDMARead {", new: "if w.Opcode == ib.WRSend {",
		breaks: "E24",
	},
	{
		name: "other-naks-taken-for-sequence-errors", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCRemAccessErr, \"NAK remote access error\")", new: "q.lostPackets(now, \"x\")",
		breaks: "E14 E30",
	},
	{
		name: "invalid-request-reported-as-operational-error", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCRemInvReqErr, \"NAK", new: "q.sendError(now, ib.WCRemOpErr, \"NAK",
		breaks: "E10", sim: "status", profile: "errors",
	},
	{
		name: "operational-error-reported-as-invalid-request", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCRemOpErr, \"NAK", new: "q.sendError(now, ib.WCRemInvReqErr, \"NAK",
		breaks: "E16", sim: "status", profile: "errors",
	},
	{
		name: "nak-does-not-acknowledge-what-is-before", file: "internal/qp/completer.go",
		old: "if p.BTH.PSN != q.req.una && !q.acknowledge(now, p.BTH.PSN.Prev()) {", new: "if false {",
		breaks: "E8",
	},
	{
		name: "rnr-nak-taken-for-a-sequence-error", file: "internal/qp/completer.go",
		old: "q.receiveRNR(now, s.Value())", new: "q.lostPackets(now, \"x\")",
		breaks: "E25", sim: "rnr status", profile: "slow",
	},
	{
		name: "read-response-out-of-turn-stored", file: "internal/qp/completer.go",
		old: "if psn != r.una { // a response", new: "if psn.Diff(r.una) < 0 { // a response",
		breaks: "E26", sim: "memory status", profile: "loss",
	},
	{
		name: "read-response-place-not-compared", file: "internal/qp/completer.go",
		old: "if start == r.read.inMessage && psn != r.read.restart {", new: "if start == r.read.inMessage && false {",
		breaks: "E26",
	},
	{
		name: "short-read-response-taken", file: "internal/qp/completer.go",
		old: "if len(p.Payload) != int(min(w.Length-off, uint32(q.mtu))) || end", new: "if len(p.Payload) > int(min(w.Length-off, uint32(q.mtu))) || end",
		breaks: "E26",
	},
	{
		name: "read-data-that-cannot-be-stored-reported-as-success", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCLocProtErr, \"READ data cannot be stored\")\n\t\treturn", new: "_ = off",
		breaks: "E28", sim: "status memory", profile: "errors",
	},
	{
		name: "atomic-result-that-cannot-be-stored-reported-as-success", file: "internal/qp/completer.go",
		old: "q.sendError(now, ib.WCLocProtErr, \"atomic result cannot be stored\")\n\t\treturn", new: "_ = value",
		breaks: "E28", sim: "status atomic", profile: "errors",
	},
	{
		name: "atomic-result-in-network-byte-order", file: "internal/qp/completer.go",
		old: "putHost64(value[:], p.AtomicAck)", new: "putHost64(value[:], p.AtomicAck<<56|p.AtomicAck>>8)",
		breaks: "", sim: "atomic", profile: "clean",
	},
	{
		name: "answer-after-the-failure-completes-again", file: "internal/qp/completer.go",
		old: "if q.State() == ib.ERR {\n\t\t\treturn\n\t\t}", new: "",
		breaks: "E27",
	},
	{
		name: "progress-wakes-nobody", file: "internal/qp/completer.go",
		old: "if behaviourOf(q.State()).sends() {\n\t\tq.env.Wake(q)", new: "if false {\n\t\tq.env.Wake(q)",
		breaks: "", sim: "liveness", profile: "clean",
	},
}
