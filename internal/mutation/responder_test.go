//go:build mutation

package mutation

// responderMutants are bugs of the receiving side.
var responderMutants = []mutant{
	{
		name: "duplicate-atomic-executed-again", file: "internal/qp/resource.go",
		old: "r.res.again(i, e.first, e.last, r.msn)", new: "_ = i; q.executeAtomic(p)",
		breaks: "E9", sim: "atomic", profile: "loss",
	},
	{
		name: "duplicate-write-executed-again", file: "internal/qp/resource.go",
		old:    "r.reply.ack(q.lastExecuted(p.BTH.PSN))",
		new:    "if w := r.write; p.RETH.Length > 0 && p.Info.Kind == roce.KindWrite {\n r.write, r.received = writeTarget{p.RETH.VA, p.RETH.RKey, p.RETH.Length}, 0\n q.executeWrite(p)\n r.write = w\n}\nr.reply.ack(q.lastExecuted(p.BTH.PSN))",
		breaks: "E9", sim: "memory", profile: "loss",
	},
	{
		name: "duplicate-acknowledged-past-what-was-executed", file: "internal/qp/resource.go",
		old: "return epsn.Prev()\n}", new: "return epsn\n}",
		breaks: "E9", sim: "message memory status", profile: "loss",
	},
	{
		name: "duplicate-acknowledges-unanswered-read", file: "internal/qp/resource.go",
		old: "return e.first.Prev()", new: "_ = e.first",
		breaks: "E9",
	},
	{
		name: "duplicate-read-from-wrong-offset", file: "internal/qp/respond.go",
		old: "src, err = q.env.Mem.Remote(", new: "if e.replay {\n off = 0\n}\nsrc, err = q.env.Mem.Remote(",
		breaks: "E9", sim: "memory", profile: "loss",
	},
	{
		name: "duplicate-read-address-not-compared", file: "internal/qp/resource.go",
		old: "p.RETH.VA != e.va+done || uint64", new: "uint64",
		breaks: "E9",
	},
	{
		name: "duplicate-read-key-not-compared", file: "internal/qp/resource.go",
		old: " || e.rkey != p.RETH.RKey", new: "",
		breaks: "E9",
	},
	{
		name: "duplicate-without-result-refused", file: "internal/qp/resource.go",
		old:    "if e == nil || e.kind != p.Info.Kind {",
		new:    "if e == nil || e.kind != p.Info.Kind {\nq.refuse(p.BTH.PSN, invalidRequest(ib.WCRemInvReqErr, \"gone\"))\nreturn",
		breaks: "E9",
	},
	{
		name: "only-the-last-result-kept", file: "internal/qp/resource.go",
		old: "drop := len(s.ring) - int(depth) + 1", new: "drop := len(s.ring)",
		breaks: "E11",
	},
	{
		name: "saved-results-last-in-first-out", file: "internal/qp/resource.go",
		old: "s.ring = s.ring[:copy(s.ring, s.ring[drop:])]", new: "s.ring = s.ring[:len(s.ring)-drop]",
		breaks: "E11",
	},
	{
		name: "next-psn-accepted-after-a-gap", file: "internal/qp/responder.go",
		old: "case d > 0:\n\t\tq.outOfSequence(p)", new: "case d > 1:\n\t\tq.outOfSequence(p)",
		breaks: "E8", sim: "message memory status state event", profile: "loss",
	},
	{
		name: "nak-for-every-packet-after-a-gap", file: "internal/qp/responder.go",
		old: "q.drop(DropSequence, p)\n\t\treturn", new: "r.reply.nak(roce.NAKSequence, r.epsn)\n\t\treturn",
		breaks: "E8",
	},
	{
		name: "nak-carries-the-psn-that-came", file: "internal/qp/responder.go",
		old:    "r.ahead = p.BTH.PSN\n\tr.nakSent = true\n\tr.reply.nak(roce.NAKSequence, r.epsn)",
		new:    "r.ahead = p.BTH.PSN\n\tr.nakSent = true\n\tr.reply.nak(roce.NAKSequence, p.BTH.PSN)",
		breaks: "E8", sim: "message memory", profile: "loss",
	},
	{
		name: "one-nak-for-all-gaps", file: "internal/qp/responder.go",
		old: "r.nakSent = false\n", new: "",
		breaks: "E8",
	},
	{
		name: "opcode-in-the-middle-not-compared", file: "internal/qp/responder.go",
		old: "!start && inHand != r.msg {", new: "!start && inHand == messageNone {",
		breaks: "E10",
	},
	{
		name: "first-inside-a-message-accepted", file: "internal/qp/responder.go",
		old: "if start != (r.msg == messageNone) ||", new: "if !start && r.msg == messageNone ||",
		breaks: "E10",
	},
	{
		name: "read-without-resources-accepted", file: "internal/qp/resource.go",
		old: "if depth == 0 {\n\t\treturn false", new: "if depth == 0 {\n\t\treturn true",
		breaks: "E10",
	},
	{
		name: "operation-that-the-qp-forbids-executed", file: "internal/qp/responder.go",
		old: "if q.attr.AccessFlags&need != need {", new: "if q.attr.AccessFlags == 0 && need != 0 {",
		breaks: "E10",
	},
	{
		name: "no-rnr-nak", file: "internal/qp/responder.go",
		old: "q.resp.reply.nak(roce.RNRNAK(q.attr.MinRNRTimer), p.BTH.PSN)", new: "",
		breaks: "E12", sim: "status", profile: "slow",
	},
	{
		name: "rnr-nak-with-another-timer", file: "internal/qp/responder.go",
		old: "roce.RNRNAK(q.attr.MinRNRTimer)", new: "roce.RNRNAK(q.attr.Timeout)",
		breaks: "E12",
	},
	{
		name: "message-without-a-receive-counted-as-executed", file: "internal/qp/responder.go",
		old: "q.notReady(p)\n\t\treturn", new: "q.notReady(p)\n\t\tr.epsn = r.epsn.Next()\n\t\treturn",
		breaks: "E12", sim: "message memory status state event", profile: "slow",
	},
	{
		name: "rest-of-the-burst-refused-too", file: "internal/qp/responder.go",
		old: "q.resp.nakSent, q.resp.ahead = true, p.BTH.PSN\n\tq.resp.reply.nak(roce.RNRNAK", new: "q.resp.ahead = p.BTH.PSN\n\tq.resp.reply.nak(roce.RNRNAK",
		breaks: "E12",
	},
	{
		name: "key-of-an-empty-read-checked", file: "internal/qp/responder.go",
		old:    "if p.RETH.Length > 0 {\n\t\t\t_, err = q.env.Mem.Remote(q.pd, p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length), ib.AccessRemoteRead)",
		new:    "if n := max(p.RETH.Length, 1); n > 0 {\n\t\t\t_, err = q.env.Mem.Remote(q.pd, p.RETH.RKey, p.RETH.VA, uint64(n), ib.AccessRemoteRead)",
		breaks: "E13",
	},
	{
		name: "key-of-an-empty-write-checked", file: "internal/qp/responder.go",
		old:    "w.length > 0 {\n\t\t\t_, err = q.env.Mem.Remote(q.pd, w.rkey, w.va, uint64(w.length), ib.AccessRemoteWrite)",
		new:    "w != nil {\n\t\t\t_, err = q.env.Mem.Remote(q.pd, w.rkey, w.va, uint64(max(w.length, 1)), ib.AccessRemoteWrite)",
		breaks: "E13", sim: "status state event", profile: "clean",
	},
	{
		name: "key-checked-for-the-first-packet-only", file: "internal/qp/responder.go",
		old: "w.rkey, w.va, uint64(w.length), ib.AccessRemoteWrite)", new: "w.rkey, w.va, uint64(len(p.Payload)), ib.AccessRemoteWrite)",
		breaks: "E14",
	},
	{
		name: "write-with-the-right-to-read", file: "internal/qp/responder.go",
		old: "w.rkey, w.va, uint64(w.length), ib.AccessRemoteWrite)", new: "w.rkey, w.va, uint64(w.length), ib.AccessRemoteRead)",
		breaks: "E14",
	},
	{
		name: "region-that-went-still-read", file: "internal/qp/respond.go",
		old: "q.abandonRead(e, err)", new: "_ = err",
		breaks: "E14",
	},
	{
		name: "refusal-leaves-the-responder-alive", file: "internal/qp/responder.go",
		old: "q.fatal(now, f.cause)", new: "_ = now",
		breaks: "E14 E15 E16 E17 E10", sim: "state event status message", profile: "errors",
	},
	{
		name: "no-event-when-a-request-is-refused", file: "internal/qp/responder.go",
		old: "q.raise(f.event)", new: "_ = f.event",
		breaks: "E14 E29", sim: "state", profile: "errors",
	},
	{
		name: "middle-packet-may-be-short", file: "internal/qp/responder.go",
		old: "return n == mtu && p.BTH.PadCnt == 0", new: "return n <= mtu && p.BTH.PadCnt == 0",
		breaks: "E15",
	},
	{
		name: "last-packet-may-be-empty", file: "internal/qp/responder.go",
		old: "return n >= 1 && n <= mtu", new: "return n <= mtu",
		breaks: "E15",
	},
	{
		name: "packet-over-the-mtu-accepted", file: "internal/qp/responder.go",
		old: "case roce.PayloadUpToMTU:\n\t\treturn n <= mtu", new: "case roce.PayloadUpToMTU:\n\t\treturn true",
		breaks: "E15",
	},
	{
		name: "send-longer-than-its-receive", file: "internal/qp/responder.go",
		old: "> uint64(r.recv.wqe.Length) {", new: "> uint64(r.recv.wqe.Length)+1<<20 {",
		breaks: "E15", sim: "status", profile: "errors",
	},
	{
		name: "write-length-not-compared", file: "internal/qp/responder.go",
		old: "if uint32(n) > rest || end != (uint32(n) == rest) {", new: "if uint32(n) > rest {\n_ = end",
		breaks: "E15",
	},
	{
		name: "bad-receive-called-a-bad-request", file: "internal/qp/responder.go",
		old: "return fault{syndrome: roce.NAKRemoteOperational,", new: "return fault{syndrome: roce.NAKInvalidRequest,",
		breaks: "E16", sim: "status", profile: "errors",
	},
	{
		name: "data-that-fits-no-receive-acknowledged", file: "internal/qp/execute.go",
		old: "uint64(r.received)) != memory.FaultNone {\n\t\treturn false", new: "uint64(r.received)) != memory.FaultNone {\n\t\tr.received += uint32(len(payload))\n\t\treturn true",
		breaks: "E16", sim: "message status memory", profile: "errors",
	},
	{
		name: "unaligned-atomic-called-an-access-error", file: "internal/qp/responder.go",
		old: "if err == memory.FaultAlign {", new: "if err == memory.FaultNone+200 {",
		breaks: "E17", sim: "status", profile: "errors",
	},
	{
		name: "response-lost-when-the-batch-is-full", file: "internal/qp/respond.go",
		old:    "seg, payload, id := q.append(b, &q.path, n)\n\tif seg == nil {",
		new:    "seg, payload, id := q.append(b, &q.path, n)\n\tif seg == nil {\n\t\te.pending = false",
		breaks: "E19",
	},
	{
		name: "atomic-answer-lost-when-the-batch-is-full", file: "internal/qp/respond.go",
		old:    "p.AtomicAck = e.value\n\tseg, _, id := q.append(b, &q.path, 0)\n\tif seg == nil {",
		new:    "p.AtomicAck = e.value\n\tseg, _, id := q.append(b, &q.path, 0)\n\tif seg == nil {\n\t\te.pending = false",
		breaks: "E19",
	},
	{
		name: "read-data-from-the-next-packet", file: "internal/qp/respond.go",
		old: "off := e.next.Distance(e.first) * uint32(e.mtu)", new: "off := e.next.Distance(e.first) * 256",
		breaks: "", sim: "memory status", profile: "clean",
	},
	{
		name: "write-data-at-the-start-of-the-region", file: "internal/qp/execute.go",
		old: "r.write.va+uint64(r.received), uint64(len(p.Payload))", new: "r.write.va, uint64(len(p.Payload))",
		breaks: "", sim: "memory message", profile: "clean",
	},
	{
		name: "receive-completed-before-the-last-packet", file: "internal/qp/responder.go",
		old: "if p.Info.Flags&roce.FlagEnd != 0 {\n\t\tr.msg = messageNone", new: "if p.Info.Flags&roce.FlagEnd == 0 {\n\t\tq.completeRequest(now, p)\n\t} else {\n\t\tr.msg = messageNone",
		breaks: "", sim: "message", profile: "clean",
	},
	{
		name: "uc-message-goes-on-after-a-gap", file: "internal/qp/uc.go",
		old: "if p.BTH.PSN != r.epsn || start && r.msg != messageNone {", new: "if start && r.msg != messageNone {",
		breaks: "", sim: "poll message", profile: "loss",
	},
	{
		name: "uc-write-loses-its-middle", file: "internal/qp/uc.go",
		old: "r.msg = messageWrite", new: "_ = r.msg",
		breaks: "E15",
	},
	{
		name: "datagram-without-q-key", file: "internal/qp/qp.go",
		old: "case !q.connected() && p.DETH.QKey != q.attr.QKey:", new: "case !q.connected() && p.DETH.QKey == 0 && q.attr.QKey != 0:",
		breaks: "", sim: "stale corrupt", profile: "corrupt",
	},
	{
		name: "datagram-over-its-grh", file: "internal/qp/uc.go",
		old: "!q.placeAt(p.Payload, grhBytes)", new: "!q.placeAt(p.Payload, grhBytes-20)",
		breaks: "", sim: "message", profile: "clean",
	},
	{
		name: "no-communication-established", file: "internal/qp/responder.go",
		old: "q.raise(ib.EventCommEst)", new: "_ = q.commEst",
		breaks: "Q9 E29",
	},
	{
		name: "communication-established-with-every-packet", file: "internal/qp/responder.go",
		old: "q.commEst = true", new: "",
		breaks: "Q9",
	},
}
