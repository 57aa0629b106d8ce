//go:build mutation

package mutation

// queueMutants are bugs of completions, queues and memory.
var queueMutants = []mutant{
	{
		name: "failed-request-flushed-too", file: "internal/qp/flush.go",
		old: "q.sq.Release(1)\n", new: "if status == ib.WCSuccess || status == ib.WCWRFlushErr {\n\t\tq.sq.Release(1)\n\t}\n",
		breaks: "Q19", sim: "completion order", profile: "errors",
	},
	{
		name: "failed-request-without-completion-if-unsignalled", file: "internal/qp/flush.go",
		old: "if status == ib.WCSuccess && !signalled {", new: "if !signalled {",
		breaks: "Q23", sim: "flush atomic order message memory", profile: "lifecycle",
	},
	{
		name: "completion-for-every-success", file: "internal/qp/flush.go",
		old: "if status == ib.WCSuccess && !signalled {", new: "if status == ib.WCWRFlushErr && !signalled {",
		breaks: "", sim: "completion", profile: "clean",
	},
	{
		name: "error-completion-without-qpn", file: "internal/qp/flush.go",
		old: "wc := ib.WC{WRID: w.WRID, Status: status, QPN: q.num}", new: "wc := ib.WC{WRID: w.WRID, Status: status}\n\tif status == ib.WCSuccess {\n\t\twc.QPN = q.num\n\t}",
		breaks: "Q23", sim: "poll", profile: "lifecycle",
	},
	{
		name: "error-completion-of-a-receive-without-wr-id", file: "internal/qp/flush.go",
		old: "wc.WRID, wc.QPN = r.wqe.WRID, q.num", new: "wc.QPN = q.num\n\tif wc.Status == ib.WCSuccess {\n\t\twc.WRID = r.wqe.WRID\n\t}",
		breaks: "Q23 Q19", sim: "completion", profile: "lifecycle",
	},
	{
		name: "flush-counted-nowhere", file: "internal/qp/flush.go",
		old: "q.env.Counters.CQEFlush++", new: "",
		breaks: "", sim: "counters", profile: "lifecycle",
	},
	{
		name: "completion-lost-in-silence", file: "internal/qp/cq.go",
		old: "r := overflowed\n", new: "r := pushed\n",
		breaks: "E18 E27", sim: "event", profile: "errors",
	},
	{
		name: "full-queue-raises-its-event-only", file: "internal/qp/flush.go",
		old: "q.fatal(now, causeCQFull)\n\tif r == overflowed {", new: "if r > refused {",
		breaks: "E18 E27",
	},
	{
		name: "full-queue-fails-one-queue-pair-only", file: "internal/qp/flush.go",
		old: "q.env.CQFailed(now, cq)", new: "",
		breaks: "E18",
	},
	{
		name: "no-cq-err", file: "internal/qp/flush.go",
		old: "q.env.Raise(Event{Type: ib.EventCQErr, CQ: cq})", new: "",
		breaks: "E18 E27 E29", sim: "event", profile: "errors",
	},
	{
		name: "lost-completions-not-counted", file: "internal/qp/flush.go",
		old: "q.env.Counters.CQEOverflow++", new: "",
		breaks: "E18", sim: "counters", profile: "errors",
	},
	{
		name: "full-queue-overwrites-the-oldest", file: "internal/qp/cq.go",
		old: "if c.failed || c.tail-c.head == uint32(len(c.buf)) {", new: "if c.failed {",
		breaks: "E18 E27", sim: "event poll", profile: "errors",
	},
	{
		name: "nobody-told-of-completions", file: "internal/qp/cq.go",
		old: "if fire && c.onEvent != nil {", new: "if fire && c.onEvent == nil {",
		breaks: "E29",
	},
	{
		name: "told-of-every-completion", file: "internal/qp/cq.go",
		old: "if fire {\n\t\tc.armed = armNone\n\t}", new: "",
		breaks: "E29",
	},
	{
		name: "solicited-bit-not-sent", file: "internal/qp/packet.go",
		old: "p.BTH.SE = end && w.Flags&ib.SendSolicited != 0 && needsCredit(w.Opcode)", new: "p.BTH.SE = false",
		breaks: "E29",
	},
	{
		name: "polled-twice", file: "internal/qp/cq.go",
		old: "c.head += uint32(n)", new: "c.head += uint32(n - n/3)",
		breaks: "", sim: "poll", profile: "clean",
	},
	{
		name: "completions-swapped-by-resize", file: "internal/qp/cq.go",
		old: "c.head, c.tail = 0, waiting", new: "c.head, c.tail = c.head, c.head+waiting",
		breaks: "", sim: "poll", profile: "errors",
	},
	{
		name: "removal-takes-other-queue-pairs-too", file: "internal/qp/cq.go",
		old: "if wc := c.buf[i&mask]; wc.QPN != n {", new: "if wc := c.buf[i&mask]; wc.QPN > n {",
		breaks: "", sim: "poll", profile: "lifecycle",
	},
	{
		name: "region-end-not-checked", file: "internal/memory/region.go",
		old: "if n > size || off > size-n {", new: "if off > size {",
		breaks: "E14 E3", sim: "panic", profile: "errors",
	},
	{
		name: "region-range-wraps", file: "internal/memory/region.go",
		old: "if n > size || off > size-n {", new: "if addr+n > r.iova+size {",
		breaks: "E14", sim: "panic", profile: "errors",
	},
	{
		name: "rights-of-the-region-not-checked", file: "internal/memory/access.go",
		old: "case r.access&need != need:", new: "case r.access&need != need && need&ib.AccessRemote == 0:",
		breaks: "E14",
	},
	{
		name: "region-of-another-domain", file: "internal/memory/access.go",
		old: "case r.pd != pd:", new: "case r.pd < pd:",
		breaks: "E14",
	},
	{
		name: "key-good-after-deregistration", file: "internal/memory/keys.go",
		old: "k.find(key).region = nil\n", new: "",
		breaks: "E14", sim: "memory status atomic", profile: "errors",
	},
	{
		name: "low-bits-of-the-key-not-compared", file: "internal/memory/keys.go",
		old: "if s := k.find(key); s.key == key {", new: "if s := k.find(key); s.key != 0 {",
		breaks: "E14", sim: "status", profile: "errors",
	},
	{
		name: "atomic-compares-nothing", file: "internal/memory/atomic.go",
		old: "if atomic.CompareAndSwapUint64(p, compare, swap) {\n\t\t\treturn compare\n\t\t}", new: "if orig = atomic.SwapUint64(p, swap); true {\n\t\t\treturn orig\n\t\t}",
		breaks: "", sim: "atomic", profile: "clean",
	},
	{
		name: "second-element-from-the-start", file: "internal/memory/access.go",
		old: "off -= min(off, uint64(sges[i].Length))\n\t\tdst", new: "dst",
		breaks: "", sim: "memory message status", profile: "clean",
	},
	{
		name: "shared-receive-queue-takes-twice", file: "internal/qp/srq.go",
		old: "s.rq.Release(1)\n", new: "if s.rq.Len() > 1 {\n\t\ts.rq.Release(1)\n\t}\n",
		breaks: "", sim: "completion", profile: "slow",
	},
}
