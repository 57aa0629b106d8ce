//go:build mutation

package mutation

import "slices"

// shardMutants are bugs of what is around the queue pairs.
var shardMutants = slices.Concat(
	bugsIn("internal/packet", []mutant{
		{name: "icrc-not-checked", in: "Verify", sim: "corrupt panic", profile: "corrupt",
			old: "return id, roce.Check($*args)",
			new: "return id, !d.Src.Is6() || roce.Check($*args)"},
		{name: "icrc-of-ipv6-not-checked", in: "Verify", sim: "corrupt panic retry", profile: "corrupt",
			old: "return id, roce.Check($*args)",
			new: "return id, d.Src.Is6() || roce.Check($*args)"},
		{name: "packets-sent-counted-twice", in: "Seal", sim: "counters", profile: "clean",
			old: "$Counters.SentPkts++",
			new: "$Counters.SentPkts += 2"},
	}),
	bugsIn("internal/qp", []mutant{
		{name: "sender-not-checked", in: "admit", sim: "corrupt", profile: "corrupt",
			old: "$e.connected() && !comesBy(&$e.path, p.Data)",
			new: "$e.connected() && p.Data.Dst != $e.path.Src"},
		{name: "partition-not-checked", in: "admit", sim: "corrupt", profile: "corrupt",
			old: "!$q.pkeyMatches($p.BTH.PKey)",
			new: "!$q.pkeyMatches($p.BTH.PKey) && !$q.connected()"},
		{name: "service-not-checked", in: "admit", sim: "corrupt panic", profile: "corrupt",
			old: "$p.Info.Service != $q.service",
			new: "$p.Info.Service != $q.service && $p.Info.Service != roce.ServiceUC"},
		{name: "timer-of-a-destroyed-queue-pair-stays", in: "End.unschedule", sim: "leak", profile: "lifecycle",
			old: "$Timers.Remove($e)"},
		{name: "line-of-senders-cut-when-the-last-leaves", in: "ActiveList.remove", breaks: "E1",
			old: "if $l.tail == e { $l.tail = before }"},
	}),
	bugsIn("internal/shard", []mutant{
		{name: "segments-after-the-second-lost", in: "Receive", sim: "timer counters status delay", profile: "clean",
			old: "off < len($d.Bytes)",
			new: "off < len($d.Bytes) && k < 2"},
		{name: "own-multicasts-blocked-for-every-queue-pair", in: "receiveMcast", test: "internal/hca TestV14_MulticastBlocksSelf",
			old: "loops && $p.BlockedBy(q)",
			new: "loops && p.DETH.SrcQP == q.Num()"},
		{name: "own-multicasts-recognised-by-the-number-alone", in: "receiveMcast", test: "internal/hca TestV14_MulticastBlocksSelf",
			old: "loops && $p.BlockedBy(q)",
			new: "$p.BlockedBy(q) || loops && p == nil"},
		{name: "queue-pair-found-after-its-end", in: "Shard.Remove",
			sim: "leak state stale counters panic", profile: "lifecycle",
			old: "$QPs.Remove(uint32($q.Num()))"},
		{name: "timer-not-armed-after-sending", in: "Transmit", breaks: "E5", sim: "liveness timer", profile: "loss",
			old: "if $e.Transmit(now, b) { $*body }; $e.Arm()",
			new: "if $e.Transmit(now, b) { $*body }"},
		{name: "queue-pair-dropped-from-the-line-when-the-batch-is-full", in: "Transmit", breaks: "E19",
			old: "if $e.Transmit(now, b) { $e.Wake() }",
			new: "$e.Transmit(now, b)"},
		{name: "doorbell-answered-once", in: "doorbells.answer", sim: "liveness delay", profile: "clean",
			old: "$q.Doorbells.Rung.Store(false)"},
	}),
	bugsIn("internal/deadline", []mutant{
		{name: "deadlines-not-in-order", in: "sift", sim: "liveness timer", profile: "loss",
			old: "i > 1",
			new: "i > 2"},
	}),
)
