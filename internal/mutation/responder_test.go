//go:build mutation

package mutation

// responderMutants are bugs of the receiving side.
var responderMutants = []mutant{
	{
		name: "duplicate-atomic-executed-again", in: "internal/qp.duplicateAtomic",
		old:    "$r.kept.again(i, $*args)",
		new:    "_ = i; if p.Info.Kind == roce.KindFetchAdd { executeFetchAdd($r, p) } else { executeCompareSwap($r, p) }",
		breaks: "E9", sim: "atomic", profile: "loss",
	},
	{
		name: "duplicate-write-executed-again", in: "internal/qp.acknowledgeAgain",
		old: "$r.reply.ack($last)",
		new: `if w, msg := $r.in.write, $r.in.msg; p.RETH.Length > 0 && p.Info.Kind == roce.KindWrite {
				$r.in.write, $r.in.received = writeTarget{p.RETH.VA, p.RETH.RKey, p.RETH.Length}, 0
				$r.in.executeWrite(p)
				$r.in.write, $r.in.msg = w, msg
			}
			$r.reply.ack($last)`,
		breaks: "E9", sim: "memory status", profile: "loss",
	},
	{
		name: "duplicate-acknowledged-past-what-was-executed", in: "internal/qp.lastExecuted",
		old:    "return epsn.Prev()",
		new:    "return epsn",
		breaks: "E9", sim: "message memory status", profile: "loss",
	},
	{
		name: "duplicate-acknowledges-unanswered-read", in: "internal/qp.lastExecuted",
		old:    "return $e.first.Prev()",
		new:    "_ = $e.first",
		breaks: "E9",
	},
	{
		name: "duplicate-read-from-wrong-offset", in: "internal/qp.sendReadResponse",
		old:    "$src, $err = $Mem.Remote($*args)",
		new:    "if e.replay { off = 0 }; $src, $err = $Mem.Remote($*args)",
		breaks: "E9", sim: "memory", profile: "loss",
	},
	{
		name: "duplicate-read-address-not-compared", in: "internal/qp.duplicateRead",
		old:    "$p.RETH.VA != $e.va+done || $length",
		new:    "$length",
		breaks: "E9",
	},
	{
		name: "duplicate-read-key-not-compared", in: "internal/qp.duplicateRead",
		old:    "$found || $e.rkey != $p.RETH.RKey",
		new:    "$found",
		breaks: "E9",
	},
	{
		name: "duplicate-without-result-refused", in: "internal/qp.duplicateAtomic",
		old:    "if $other { $r.ep.owner.cannotRepeat(p); return }; $r.kept.again($*args)",
		new:    `if $other { $r.dying = invalidRequest(ib.WCRemInvReqErr, "gone"); $r.reply.nak($r.dying.syndrome, p.BTH.PSN); return }; $r.kept.again($*args)`,
		breaks: "E9",
	},
	{
		name: "only-the-last-result-kept", in: "internal/qp.ready",
		old:    "min($s.n-int(depth)+1, $s.out)",
		new:    "min($s.n, $s.out)",
		breaks: "E11",
	},
	{
		name: "late-copy-holds-the-newer-results", in: "internal/qp.ready",
		old:    "!$s.at(0).pending || $s.at(0).replay",
		new:    "!$s.at(0).pending",
		breaks: "E11",
	},
	{
		name: "saved-results-last-in-first-out", in: "internal/qp.forget",
		old:    "$s.head = ($s.head + n) % len($s.ring)",
		new:    "",
		breaks: "E11",
	},
	{
		name: "next-psn-accepted-after-a-gap", in: "internal/qp.request",
		old:    "d > 0",
		new:    "d > 1",
		breaks: "E8", sim: "message memory status state event", profile: "loss",
	},
	{
		name: "nak-for-every-packet-after-a-gap", in: "internal/qp.outOfSequence",
		old:    "if $r.nakSent { $*ahead; return }; $*rest; $r.missing()",
		new:    "if $r.nakSent { $*ahead; $r.missing(); return }; $*rest; $r.missing()",
		breaks: "E8",
	},
	{
		name: "nak-carries-the-psn-that-came", in: "internal/qp.outOfSequence",
		old:    "$r.missing()",
		new:    "$r.missing(); $r.reply.psn = p.BTH.PSN",
		breaks: "E8", sim: "message memory", profile: "loss",
	},
	{
		name: "one-nak-for-all-gaps", in: "internal/qp.gapClosed",
		old:    "$r.nakSent = false",
		new:    "",
		breaks: "E8",
	},
	{
		name: "opcode-in-the-middle-not-compared", in: "internal/qp.checkOpcode",
		old:    "op.message != $r.msg",
		new:    "op.message == messageNone",
		breaks: "E10",
	},
	{
		name: "first-inside-a-message-accepted", in: "internal/qp.checkOpcode",
		old:    "start != ($r.msg == messageNone)",
		new:    "!start && $r.msg == messageNone",
		breaks: "E10",
	},
	{
		name: "read-without-resources-accepted", in: "internal/qp.ready",
		old:    "return false",
		new:    "return true",
		breaks: "E10",
	},
	{
		name: "operation-that-the-qp-forbids-executed", in: "internal/qp.checkOpcode",
		old:    "$attr.AccessFlags&op.right != op.right",
		new:    "$attr.AccessFlags == 0 && op.right != 0",
		breaks: "E10",
	},
	{
		name: "no-rnr-nak", in: "internal/qp.notReady",
		old:    "$reply.nak(s, $p.BTH.PSN)",
		new:    "",
		breaks: "E12", sim: "status delay", profile: "slow",
	},
	{
		name: "rnr-nak-with-another-timer", in: "internal/qp.notReady",
		old:    "$attr.MinRNRTimer",
		new:    "$attr.Timeout",
		breaks: "E12",
	},
	{
		name: "message-without-a-receive-counted-as-executed", in: "internal/qp.notReady",
		old:    "$r.nakSent, $r.ahead = true, $psn",
		new:    "$r.nakSent, $r.ahead, $r.in.epsn = true, $psn, $r.in.epsn.Next()",
		breaks: "E12", sim: "message memory status state event", profile: "slow",
	},
	{
		name: "rest-of-the-burst-refused-too", in: "internal/qp.notReady",
		old:    "$resp.nakSent, $resp.ahead = true, $p.BTH.PSN",
		new:    "$resp.ahead = $p.BTH.PSN",
		breaks: "E12",
	},
	{
		name: "key-of-an-empty-read-checked", in: "internal/qp.checkKey",
		old:    "va, rkey, n := $*reth",
		new:    "va, rkey, n := $*reth; if p.Info.Kind == roce.KindReadRequest { n = max(n, 1) }",
		breaks: "E13",
	},
	{
		name: "key-of-an-empty-write-checked", in: "internal/qp.checkKey",
		old:    "va, rkey, n := $*reth",
		new:    "va, rkey, n := $*reth; if p.Info.Kind == roce.KindWrite { n = max(n, 1) }",
		breaks: "E13", sim: "status state event", profile: "clean",
	},
	{
		name: "key-checked-for-the-first-packet-only", in: "internal/qp.checkKey",
		old:    "va, rkey, n := $*reth",
		new:    "va, rkey, n := $*reth; if p.Info.Kind == roce.KindWrite { n = uint32(len(p.Payload)) }",
		breaks: "E14",
	},
	{
		name: "write-with-the-right-to-read", in: "internal/qp.checkKey",
		old:    "right := $right",
		new:    "right := $right; if right == ib.AccessRemoteWrite { right = ib.AccessRemoteRead }",
		breaks: "E14",
	},
	{
		name: "region-that-went-still-read", in: "internal/qp.endRead",
		old:    "$q.abandonRead(e, err)",
		new:    "_ = err",
		breaks: "E14",
	},
	{
		name: "refusal-leaves-the-responder-alive", in: "internal/qp.die",
		old:    "$q.fail(now, $f.cause)",
		new:    "_ = now",
		breaks: "E14 E15 E16 E17 E10", sim: "state event status message", profile: "errors",
	},
	{
		name: "no-event-when-a-request-is-refused", in: "internal/qp.die",
		old:    "$q.raise($f.event)",
		new:    "_ = $f.event",
		breaks: "E14 E29", sim: "state", profile: "errors",
	},
	{
		name: "middle-packet-may-be-short", in: "internal/qp.fitsMTU",
		old:    "n == mtu",
		new:    "n <= mtu",
		breaks: "E15",
	},
	{
		name: "last-packet-may-be-empty", in: "internal/qp.fitsMTU",
		old:    "n >= 1 && n <= mtu",
		new:    "n <= mtu",
		breaks: "E15",
	},
	{
		name: "packet-over-the-mtu-accepted", in: "internal/qp.fitsMTU",
		old:    "return n <= mtu",
		new:    "return true",
		breaks: "E15",
	},
	{
		name: "send-longer-than-its-receive", in: "internal/qp.checkSendLength",
		old:    "uint64($slot.length)",
		new:    "uint64($slot.length) + 1<<20",
		breaks: "E15", sim: "status", profile: "errors",
	},
	{
		name: "write-length-not-compared", in: "internal/qp.checkWriteLength",
		old:    "if n > rest || end != (n == rest) { $*body }",
		new:    "if n > rest { _ = end; $*body }",
		breaks: "E15",
	},
	{
		name: "bad-receive-called-a-bad-request", in: "internal/qp.remoteOperational",
		old:    "roce.NAKRemoteOperational",
		new:    "roce.NAKInvalidRequest",
		breaks: "E16", sim: "status", profile: "errors",
	},
	{
		name: "data-that-fits-no-receive-acknowledged", in: "internal/qp.receiver.executeSend",
		old:    "if !$r.placeAt($*args) { return $fault }",
		new:    "$r.placeAt($*args)",
		breaks: "E16", sim: "message status memory", profile: "errors",
	},
	{
		name: "unaligned-atomic-called-an-access-error", in: "internal/qp.checkKey",
		old:    "return invalidRequest(ib.WCRemInvReqErr, $breach)",
		new:    "return remoteAccess($breach)",
		breaks: "E17", sim: "status", profile: "errors",
	},
	{
		name: "response-lost-when-the-batch-is-full", in: "internal/qp.sendReadResponse",
		old:    "return false, memory.FaultNone",
		new:    "e.pending = false; return false, memory.FaultNone",
		breaks: "E19",
	},
	{
		name: "atomic-answer-lost-when-the-batch-is-full", in: "internal/qp.sendAtomicAck",
		old:    "return false, memory.FaultNone",
		new:    "e.pending = false; return false, memory.FaultNone",
		breaks: "E19",
	},
	{
		name: "read-data-from-the-next-packet", in: "internal/qp.sendReadResponse",
		old: "$e.next.Distance($e.first) * uint32($e.mtu)",
		new: "$e.next.Distance($e.first) * 256",
		sim: "memory status delay", profile: "clean",
	},
	{
		name: "write-data-at-the-start-of-the-region", in: "internal/qp.receiver.executeWrite",
		old: "$write.va + uint64($r.received)",
		new: "$write.va",
		sim: "memory message", profile: "clean",
	},
	{
		name: "receive-completed-before-the-last-packet", in: "internal/qp.request",
		old: "if $flags&roce.FlagEnd != 0 { $*msn; $in.completeMessage($*args) }",
		new: "if $flags&roce.FlagEnd == 0 { msg := $in.msg; $in.completeMessage($*args); $in.msg = msg } else { $*msn; $in.completeMessage($*args) }",
		sim: "message", profile: "clean",
	},
	{
		name: "uc-message-goes-on-after-a-gap", in: "internal/qp.receiveUC",
		old: "$p.BTH.PSN != $r.epsn || start && $r.msg != messageNone",
		new: "start && $r.msg != messageNone",
		sim: "poll message memory", profile: "loss",
	},
	{
		name: "uc-write-loses-its-middle", in: "internal/qp.receiver.executeWrite",
		old:    "$r.msg = messageWrite",
		new:    "if $r.ep.typ == ib.RC { $r.msg = messageWrite }",
		breaks: "E15",
	},
	{
		name: "datagram-without-q-key", in: "internal/qp.admit",
		old: "onAddressed.has($q.typ) && $p.DETH.QKey != $attr.QKey",
		new: "onAddressed.has($q.typ) && $p.DETH.QKey == 0 && $attr.QKey != 0",
		sim: "stale corrupt", profile: "corrupt",
	},
	{
		name: "datagram-over-its-grh", in: "internal/qp.receiveUD",
		old: "$q.placeAt($p.Payload, grhBytes)",
		new: "$q.placeAt($p.Payload, grhBytes-20)",
		sim: "message", profile: "clean",
	},
	{
		name: "no-communication-established", in: "internal/qp.established",
		old:    "$ep.raise(ib.EventCommEst)",
		new:    "",
		breaks: "Q9 E29",
	},
	{
		name: "communication-established-with-every-packet", in: "internal/qp.established",
		old:    "$q.commEst = true",
		new:    "",
		breaks: "Q9",
	},
}
