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
}
