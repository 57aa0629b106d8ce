//go:build mutation

package mutation

// fullMutants are bugs of bounds and full tables, of output fields that nobody reads, and of
// what is left behind after an error.
var fullMutants = []mutant{
	{
		name: "ee-context-number-without-its-upper-byte", in: "internal/ring.CQE.put",
		old:  "byte(wc.EEC >> 16)",
		new:  "0",
		test: "internal/ring TestCQEKeepsEveryField",
	},
	{
		name: "depth-of-an-ee-context-as-the-peer-asks", in: "internal/hca.moveEEC",
		old:  "a.MaxRDAtomic = min(a.MaxRDAtomic, $limit)",
		new:  "",
		test: "internal/hca TestC8_C14_DepthsOfAChannel",
	},
	{
		name: "ee-context-serves-as-many-reads-as-the-peer-asks", in: "internal/hca.moveEEC",
		old:  "a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, $limit)",
		new:  "",
		test: "internal/hca TestC8_C14_DepthsOfAChannel",
	},
	{
		name: "one-ee-context-too-many", in: "internal/hca.CreateEEC",
		old:  "s.eecs.n >= $limit",
		new:  "s.eecs.n > $limit",
		test: "internal/hca TestFullAdapter",
	},
	{
		name: "one-domain-too-many", in: "internal/hca.AllocRDD",
		old:  "len(h.rdds) >= $limit",
		new:  "len(h.rdds) > $limit",
		test: "internal/hca TestFullAdapter",
	},
	{
		name: "overflow-counted-again-with-each-datagram", in: "internal/fabric/udp.datagram",
		old:  "s.drops = drops",
		new:  "",
		test: "internal/fabric/udp TestOverflowIsCounted",
	},
	{
		name: "error-of-another-packet-costs-this-one", in: "internal/fabric/udp.failed",
		old:  "!p.send.retried",
		new:  "p.send.retried",
		test: "internal/fabric/udp TestStaleErrors",
	},
	{
		name: "refused-run-tried-for-ever", in: "internal/fabric/udp.failed",
		old:  "p.send.retried = true",
		new:  "",
		test: "internal/fabric/udp TestRefusedTwice",
	},
	{
		name: "run-after-a-refused-one-has-one-try", in: "internal/fabric/udp.failed",
		old:  "p.send.retried = false",
		new:  "",
		test: "internal/fabric/udp TestRefusedTwice",
	},
	{
		name: "run-after-one-that-was-sent-has-one-try", in: "internal/fabric/udp.sender.count",
		old:  "t.retried = false",
		new:  "",
		test: "internal/fabric/udp TestRefusedTwice",
	},
	{
		name: "failed-join-leaves-sockets", in: "internal/fabric/udp.openGroup",
		old:  "closeAll(socks)",
		new:  "",
		test: "internal/fabric/udp TestFailedJoinLeavesNothing",
	},
	{
		name: "failed-join-leaves-the-port-in-the-group", in: "internal/fabric/udp.Port.Join",
		old:  "_, undo := m.groups.Leave(group)",
		new:  "var undo error",
		test: "internal/fabric/udp TestFailedJoinLeavesNothing",
	},
	{
		name: "state-of-a-capture-read-without-its-lock", in: "internal/fabric/capture.Err",
		old:  "p.mu.Lock()",
		new:  "defer p.mu.Lock()",
		test: "internal/fabric/capture TestErrWaitsForTheWrite",
	},
	{
		name: "completion-without-pkey-index", in: "internal/ring.CQE.put",
		old:  "e.PKeyIndex, e.SLID, e.DLIDPathBits, e.SL = wc.PKeyIndex, wc.SLID, wc.DLIDPathBits, wc.SL",
		new:  "e.SLID, e.DLIDPathBits, e.SL = wc.SLID, wc.DLIDPathBits, wc.SL",
		test: "internal/ring TestCQEKeepsEveryField",
	},
	{
		name: "receive-says-not-who-sent", in: "internal/qp.completeMessage",
		old: "ib.WC{Opcode: ib.WCRecv, ByteLen: r.received, SrcQP: attr.DestQPN, $*rest}",
		new: "ib.WC{Opcode: ib.WCRecv, ByteLen: r.received, $*rest}",
		sim: "poll", profile: "clean",
	},
	{
		name: "datagram-over-ipv4-called-one-over-ipv6", in: "internal/qp.receiver.receiveUD",
		old: "wc.SL = ib.SLIPv4",
		new: "",
		sim: "poll", profile: "clean",
	},
	{
		name: "pool-of-kept-packets-grows", in: "internal/qp.KeepPool.put",
		old:  "len($idle) < keptIdle",
		new:  "true",
		test: "internal/qp TestL2_IdleMemoryIsBounded",
	},
	{
		name: "large-tables-of-slots-kept", in: "internal/qp.putTable",
		old:  "len(t) <= mostIdle",
		new:  "true",
		test: "internal/qp TestL2_IdleMemoryIsBounded",
	},
	{
		name: "comments-of-a-capture-without-bound", in: "internal/fabric/capture.Note",
		old:  "len(p.notes) >= maxNotes",
		new:  "false",
		test: "internal/fabric/capture TestNotesAreBounded",
	},
	{
		name: "packets-missing-from-a-capture-not-counted", in: "internal/fabric/capture.Port.fail",
		old:  "p.missing++",
		new:  "",
		test: "internal/fabric/capture TestErrWaitsForTheWrite",
	},
	{
		name: "late-watch-of-a-device-not-told-why", in: "internal/device.Watch",
		old:  "gone(0, cause)",
		new:  "gone(0, nil)",
		test: "internal/device TestWatch",
	},
	{
		name: "lost-events-not-counted", in: "internal/device.raise",
		old:  "e.lost++",
		new:  "",
		test: "verbs TestV16_ManyEventsAreCounted",
	},
	{
		name: "next-reader-of-events-not-woken", in: "internal/device.TakeEvent",
		old:  "if len(e.queue) > 0 || e.death != nil || e.shut { e.signal() }",
		new:  "",
		test: "verbs TestAsyncEventReadyAgain",
	},
	{
		name: "packets-held-back-without-bound", in: "internal/fault.hold.add",
		old:  "h.heap.Len() == maxQueue",
		new:  "false",
		test: "internal/fault TestHeldBound",
	},
	{
		name: "packet-lost-for-want-of-room-not-counted", in: "internal/fault.fate.hold",
		old:  "f.waits.overflow.Add(1)",
		new:  "",
		test: "internal/fault TestHeldBound",
	},
	{
		name: "packet-held-back-after-it-is-due", in: "internal/fault.hold.pop",
		old:  "h.heap.Next() > now",
		new:  "h.heap.Next() >= now",
		test: "internal/fault TestHeldBound",
	},
	{
		name: "any-number-of-vlan-tags", in: "internal/pcapfile.afterType",
		old:  "for range maxTags { $*body }",
		new:  "for range 2 * maxTags { $*body }",
		test: "internal/pcapfile TestLinkLayers",
	},
	{
		name: "one-processor-too-many", in: "internal/sysfs.cpuMask",
		old:  "to >= maxCPUs",
		new:  "to > maxCPUs",
		test: "internal/sysfs TestCPUMask",
	},
	{
		name: "script-posts-without-bound", in: "internal/script.ids",
		old:  "hi-lo >= maxPosts",
		new:  "false",
		test: "internal/script TestScriptErrors",
	},
	{
		name: "script-time-without-bound", in: "internal/script.pass",
		old:  "d > maxPass",
		new:  "false",
		test: "internal/script TestScriptErrors",
	},
	{
		name: "timers-due-together-last-in-first-out", in: "internal/deadline.before",
		old:  "int32(a.seq-b.seq) < 0",
		new:  "int32(a.seq-b.seq) > 0",
		test: "internal/deadline TestModel",
	},
	{
		name: "secret-cut-short-taken", in: "internal/identity.load",
		old:  "copy(s[:], text) != len(s)",
		new:  "copy(s[:], text) == 0",
		test: "internal/identity TestNowhere",
	},
	{
		name: "record-of-an-ee-context-names-a-queue-pair", in: "internal/packet.Seal",
		old:  "r.EEC = $rd",
		new:  "",
		test: "internal/packet TestRecordTellsContexts",
	},
	{
		name: "record-without-its-time", in: "internal/packet.Record",
		old:  "r.At, r.QPN = now, n",
		new:  "r.QPN = n",
		test: "internal/packet TestRecordTellsContexts",
	},
}
