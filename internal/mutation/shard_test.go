//go:build mutation

package mutation

// shardMutants are bugs of what is around the queue pairs.
var shardMutants = []mutant{
	{
		name: "icrc-not-checked", file: "internal/hca/shard.go",
		old: "return roce.Check(seg, s.pre.p.WithID(p.ID))", new: "return !d.Src.Is6() || roce.Check(seg, s.pre.p.WithID(p.ID))",
		breaks: "", sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "icrc-of-ipv6-not-checked", file: "internal/hca/shard.go",
		old: "return roce.Check(seg, s.pre.p.WithID(p.ID))", new: "return d.Src.Is6() || roce.Check(seg, s.pre.p.WithID(p.ID))",
		breaks: "", sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "sender-not-checked", file: "internal/qp/qp.go",
		old: "case q.connected() && (p.Data.Src != q.path.Dst || p.Data.Dst != q.path.Src):", new: "case q.connected() && p.Data.Dst != q.path.Src:",
		breaks: "", sim: "corrupt", profile: "corrupt",
	},
	{
		name: "partition-not-checked", file: "internal/qp/qp.go",
		old: "case !q.pkeyMatches(p.BTH.PKey):", new: "case !q.pkeyMatches(p.BTH.PKey) && !q.connected():",
		breaks: "", sim: "corrupt", profile: "corrupt",
	},
	{
		name: "service-not-checked", file: "internal/qp/qp.go",
		old: "case p.Info.Service != serviceOf(q.typ):", new: "case p.Info.Service != serviceOf(q.typ) && p.Info.Service != serviceOf(ib.UC):",
		breaks: "", sim: "corrupt panic", profile: "corrupt",
	},
	{
		name: "segments-after-the-second-lost", file: "internal/hca/shard.go",
		old: "for off, k := 0, 0; off < len(d.Bytes); k++ {", new: "for off, k := 0, 0; off < len(d.Bytes) && k < 2; k++ {",
		breaks: "", sim: "timer counters status", profile: "clean",
	},
	{
		name: "queue-pair-found-after-its-end", file: "internal/hca/shard.go",
		old: "s.qpns.remove(q.Num())", new: "",
		breaks: "", sim: "leak state stale counters panic", profile: "lifecycle",
	},
	{
		name: "timer-of-a-destroyed-queue-pair-stays", file: "internal/hca/shard.go",
		old: "s.timers.Remove(q)\n", new: "",
		breaks: "", sim: "leak", profile: "lifecycle",
	},
	{
		name: "timer-not-armed-after-sending", file: "internal/hca/shard.go",
		old: "s.active.push(q)\n\t\t}\n\t\ts.timers.arm(q)", new: "s.active.push(q)\n\t\t}",
		breaks: "E5", sim: "liveness timer", profile: "loss",
	},
	{
		name: "queue-pair-dropped-from-the-line-when-the-batch-is-full", file: "internal/hca/shard.go",
		old: "if q.Transmit(now, b) {\n\t\t\ts.active.push(q)\n\t\t}", new: "q.Transmit(now, b)",
		breaks: "E19",
	},
	{
		name: "line-of-senders-cut-when-the-last-leaves", file: "internal/hca/shard.go",
		old: "if l.tail == q {\n\t\tl.tail = before\n\t}", new: "",
		breaks: "E1",
	},
	{
		name: "deadlines-not-in-order", file: "internal/deadline/heap.go",
		old: "for ; i > 1 && h.before(i, i/2); i /= 2 {", new: "for ; i > 2 && h.before(i, i/2); i /= 2 {",
		breaks: "", sim: "liveness timer", profile: "loss",
	},
	{
		name: "doorbell-answered-once", file: "internal/hca/doorbell.go",
		old: "q.Links.Rung.Store(false)", new: "",
		breaks: "", sim: "liveness", profile: "clean",
	},
	{
		name: "packets-sent-counted-twice", file: "internal/packet/writer.go",
		old: "w.Counters.SentPkts++", new: "w.Counters.SentPkts += 2",
		breaks: "", sim: "counters", profile: "clean",
	},
}
