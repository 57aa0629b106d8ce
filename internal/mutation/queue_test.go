//go:build mutation

package mutation

// queueMutants are bugs of completions, queues and memory.
var queueMutants = []mutant{
	{
		name: "failed-request-flushed-too", in: "internal/qp.completeNext",
		old:    "$r.queue.Retire()",
		new:    "if status == ib.WCSuccess || status == ib.WCWRFlushErr { $r.queue.Retire() }",
		breaks: "Q19", sim: "completion order", profile: "errors",
	},
	{
		name: "failed-request-without-completion-if-unsignalled", in: "internal/qp.completeNext",
		old:    "status == ib.WCSuccess && !signalled",
		new:    "!signalled",
		breaks: "Q23", sim: "flush atomic order message memory", profile: "lifecycle",
	},
	{
		name: "completion-for-every-success", in: "internal/qp.completeNext",
		old: "status == ib.WCSuccess && !signalled",
		new: "status == ib.WCWRFlushErr && !signalled",
		sim: "completion", profile: "clean",
	},
	{
		name: "error-completion-without-qpn", in: "internal/qp.completeNext",
		old:    "wc.QPN = $num",
		new:    "if status == ib.WCSuccess { wc.QPN = $num }",
		breaks: "Q23", sim: "poll", profile: "lifecycle",
	},
	{
		name: "error-completion-of-a-receive-without-wr-id", in: "internal/qp.receiver.complete",
		old:    "$wc.WRID, $wc.QPN = $id, $num",
		new:    "$wc.QPN = $num; if $wc.Status == ib.WCSuccess { $wc.WRID = $id }",
		breaks: "Q23 Q19", sim: "completion", profile: "lifecycle",
	},
	{
		name: "flush-counted-nowhere", in: "internal/qp.countStatus",
		old: "$Counters.CQEFlush++",
		new: "",
		sim: "counters", profile: "lifecycle",
	},
	{
		name: "completion-lost-in-silence", in: "internal/qp.CQ.push",
		old:    "return overflowed",
		new:    "return pushed",
		breaks: "E18 E27", sim: "event", profile: "errors",
	},
	{
		name: "full-queue-raises-its-event-only", in: "internal/qp.QP.push",
		old:    "$q.fatal(now, causeCQFull); if r == overflowed { $*body }",
		new:    "if r > refused { $*body }",
		breaks: "E18 E27",
	},
	{
		name: "full-queue-fails-one-queue-pair-only", in: "internal/qp.QP.push",
		old:    "$env.CQFailed(now, cq)",
		new:    "",
		breaks: "E18",
	},
	{
		name: "no-cq-err", in: "internal/qp.QP.push",
		old:    "$env.Raise(Event{Type: ib.EventCQErr, CQ: cq})",
		new:    "",
		breaks: "E18 E27 E29", sim: "event", profile: "errors",
	},
	{
		name: "lost-completions-not-counted", in: "internal/qp.QP.push",
		old:    "$Counters.CQEOverflow++",
		new:    "",
		breaks: "E18", sim: "counters", profile: "errors",
	},
	{
		name: "full-queue-overwrites-the-oldest", in: "internal/ring.CQ.Push",
		old:    "if $c.prod-$c.hdr.Cons.Load() >= $c.mask.Load() { return false }",
		new:    "",
		breaks: "E18 E27", sim: "event poll", profile: "errors",
	},
	{
		name: "nobody-told-of-completions", in: "internal/qp.CQ.push",
		old:    "$c.onEvent != nil",
		new:    "$c.onEvent == nil",
		breaks: "E29",
	},
	{
		name: "told-of-every-completion", in: "internal/ring.CQ.Fire",
		old:    "if $c.hdr.Armed.CompareAndSwap(a, ArmNone) { return true }",
		new:    "return true",
		breaks: "E29",
	},
	{
		name: "solicited-bit-not-sent", in: "internal/qp.sendData",
		old:    "$p.BTH.SE = $se",
		new:    "$p.BTH.SE = false",
		breaks: "E29",
	},
	{
		name: "polled-twice", in: "internal/ring.CQ.Poll",
		old: "$c.hdr.Cons.Store(cons)",
		new: "$c.hdr.Cons.Store(cons - uint32(n/3))",
		sim: "poll", profile: "clean",
	},
	{
		name: "completions-swapped-by-resize", in: "internal/ring.CQ.Resize",
		old: "cqe(base, i&mask).get(&wc, i); $c.entry(i).put(&wc, i)",
		new: "j := 2*$c.prod - waiting - 1 - i; cqe(base, j&mask).get(&wc, j); $c.entry(i).put(&wc, i)",
		sim: "poll", profile: "errors",
	},
	{
		name: "removal-takes-other-queue-pairs-too", in: "internal/ring.CQ.Remove",
		old: "$wc.QPN == n",
		new: "$wc.QPN <= n",
		sim: "poll", profile: "lifecycle",
	},
	{
		name: "region-end-not-checked", in: "internal/memory.view",
		old:    "n > size || off > size-n",
		new:    "off > size",
		breaks: "E14 E3", sim: "panic", profile: "errors",
	},
	{
		name: "region-range-wraps", in: "internal/memory.view",
		old:    "size, off := $size, addr - $r.iova; if $outside { $*body }",
		new:    "size, off := $size, addr - $r.iova; if addr+n > $r.iova+size { $*body }",
		breaks: "E14", sim: "panic", profile: "errors",
	},
	{
		name: "rights-of-the-region-not-checked", in: "internal/memory.allowed",
		old:    "$r.access&need != need",
		new:    "$r.access&need != need && need&ib.AccessRemote == 0",
		breaks: "E14",
	},
	{
		name: "region-of-another-domain", in: "internal/memory.allowed",
		old:    "$r.pd != pd",
		new:    "$r.pd < pd",
		breaks: "E14",
	},
	{
		name: "key-good-after-deregistration", in: "internal/memory.retire",
		old:    "$k.find(key).entry = entry{}",
		new:    "",
		breaks: "E14", sim: "memory status atomic", profile: "errors",
	},
	{
		name: "low-bits-of-the-key-not-compared", in: "internal/memory.resolve",
		old:    "$s.key == key",
		new:    "$s.key != 0",
		breaks: "E14", sim: "status", profile: "errors",
	},
	{
		name: "atomic-compares-nothing", in: "internal/memory.CompareSwap",
		old: "if atomic.CompareAndSwapUint64(p, compare, swap) { return compare }",
		new: "if orig = atomic.SwapUint64(p, swap); true { return orig }",
		sim: "atomic", profile: "clean",
	},
	{
		name: "second-element-from-the-start", in: "internal/memory.Gather",
		old: "off -= min(off, uint64(sges[i].Length))",
		new: "",
		sim: "memory message status", profile: "clean",
	},
	{
		name: "shared-receive-queue-takes-twice", in: "internal/qp.SRQ.take",
		old: "$rq.complete()",
		new: "if n, _ := $rq.Len(); n > 1 { $rq.complete() }",
		sim: "completion", profile: "slow",
	},
	{
		name: "queues-locked-in-the-wrong-order", in: "internal/qp.QP.Destroy",
		old:  "sq.mu.Lock(); rq.mu.Lock()",
		new:  "rq.mu.Lock(); sq.mu.Lock()",
		test: "internal/qp TestL1_DeadQueuePair", tags: "lockorder",
	},
	{
		name: "modify-raises-events-with-the-locks-of-the-queues", in: "internal/qp.QP.accept",
		old:  "q.store(m.attr, m.mask)",
		new:  "now := q.ep.env.now; q.store(m.attr, m.mask); q.carryOut(now, m); q.enter(now, m)",
		test: "internal/qp TestEventsOfModify",
	},
	{
		name: "rd-queue-pair-leaves-with-the-locks-of-its-queues", in: "internal/qp.QP.Destroy",
		old:  "q.rd.leave($*args); sq.mu.Lock(); rq.mu.Lock()",
		new:  "sq.mu.Lock(); rq.mu.Lock(); q.rd.leave($*args)",
		test: "internal/qp TestEventsOfLeaving", tags: "lockorder",
	},
}
