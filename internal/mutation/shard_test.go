//go:build mutation

package mutation

// shardMutants are bugs of what is around the queue pairs.
var shardMutants = []mutant{
	{
		name: "icrc-not-checked", in: "internal/packet.Verify",
		old: "return id, roce.Check($*args)",
		new: "return id, !d.Src.Is6() || roce.Check($*args)",
		sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "icrc-of-ipv6-not-checked", in: "internal/packet.Verify",
		old: "return id, roce.Check($*args)",
		new: "return id, d.Src.Is6() || roce.Check($*args)",
		sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "sender-not-checked", in: "internal/qp.admit",
		old: "$e.connected() && !comesBy(&$e.path, p.Data)",
		new: "$e.connected() && p.Data.Dst != $e.path.Src",
		sim: "corrupt", profile: "corrupt",
	},
	{
		name: "partition-not-checked", in: "internal/qp.admit",
		old: "!$q.pkeyMatches($p.BTH.PKey)",
		new: "!$q.pkeyMatches($p.BTH.PKey) && !$q.connected()",
		sim: "corrupt", profile: "corrupt",
	},
	{
		name: "service-not-checked", in: "internal/qp.admit",
		old: "$p.Info.Service != $q.service",
		new: "$p.Info.Service != $q.service && $p.Info.Service != roce.ServiceUC",
		sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "segments-after-the-second-lost", in: "internal/shard.Receive",
		old: "off < len($d.Bytes)",
		new: "off < len($d.Bytes) && k < 2",
		sim: "timer counters status delay", profile: "clean",
	},
	{
		name: "queue-pair-found-after-its-end", in: "internal/shard.Shard.Remove",
		old: "$QPs.Remove(uint32($q.Num()))",
		new: "",
		sim: "leak state stale counters panic", profile: "lifecycle",
	},
	{
		name: "timer-of-a-destroyed-queue-pair-stays", in: "internal/qp.End.unschedule",
		old: "$Timers.Remove($e)",
		new: "",
		sim: "leak", profile: "lifecycle",
	},
	{
		name: "timer-not-armed-after-sending", in: "internal/shard.Transmit",
		old:    "if $e.Transmit(now, b) { $*body }; $e.Arm()",
		new:    "if $e.Transmit(now, b) { $*body }",
		breaks: "E5", sim: "liveness timer", profile: "loss",
	},
	{
		name: "queue-pair-dropped-from-the-line-when-the-batch-is-full", in: "internal/shard.Transmit",
		old:    "if $e.Transmit(now, b) { $e.Wake() }",
		new:    "$e.Transmit(now, b)",
		breaks: "E19",
	},
	{
		name: "line-of-senders-cut-when-the-last-leaves", in: "internal/qp.ActiveList.remove",
		old:    "if $l.tail == e { $l.tail = before }",
		new:    "",
		breaks: "E1",
	},
	{
		name: "deadlines-not-in-order", in: "internal/deadline.sift",
		old: "i > 1",
		new: "i > 2",
		sim: "liveness timer", profile: "loss",
	},
	{
		name: "doorbell-answered-once", in: "internal/shard.doorbells.answer",
		old: "$q.Doorbells.Rung.Store(false)",
		new: "",
		sim: "liveness delay", profile: "clean",
	},
	{
		name: "packets-sent-counted-twice", in: "internal/packet.Seal",
		old: "$Counters.SentPkts++",
		new: "$Counters.SentPkts += 2",
		sim: "counters", profile: "clean",
	},
}
