//go:build mutation

package mutation

// secureMutants are bugs that let other users take memory, addresses or time.
var secureMutants = []mutant{
	{
		name: "privileged-programs-not-recognised", in: "internal/environ.secureIn",
		old:  "entry[1] != 0",
		new:  "false",
		test: "internal/environ TestSecureIn",
	},
	{
		name: "garbage-of-kept-packets-not-counted", in: "internal/qp.letGo",
		old:  "$m.garbage[0] += bytes",
		new:  "",
		test: "internal/qp TestL2_KeptHeap",
	},
	{
		name: "garbage-of-kept-packets-forgotten-before-it-is-collected", in: "internal/qp.begin",
		old:  "[2]int{0, $m.garbage[0]}",
		new:  "[2]int{}",
		test: "internal/qp TestL2_KeptMemoryOfAnotherSize",
	},
	{
		name: "memory-of-another-size-never-let-go", in: "internal/qp.shed",
		old:  "tables < 0 && packets >= 0 && $m.letGo(classCost(packets))",
		new:  "false",
		test: "internal/qp TestL2_KeptMemoryOfAnotherSize",
	},
	{
		name: "kept-acknowledgements-without-a-bound", in: "internal/qp.getOne",
		old:  "$m.used+keptCost(n) > keepAdapter",
		new:  "false",
		test: "internal/qp TestL2_KeptAcknowledgements",
	},
	{
		name: "kept-acknowledgements-counted-for-ever", in: "internal/qp.putOne",
		old:  "$m.used -= keptCost(len(k.room))",
		new:  "",
		test: "internal/qp TestL2_KeptAcknowledgements",
	},
	{
		name: "loopback-addresses-that-strangers-foresee", in: "internal/device.Loopbacks",
		old:  "rand.Uint32()",
		new:  "uint32(7)",
		test: "internal/device TestLoopbacks",
	},
	{
		name: "unusual-address-without-a-notice", in: "cmd/softhca/internal/launch.freeAddress",
		old:  "tried >= device.LoopbacksInOrder",
		new:  "false",
		test: "cmd/softhca/internal/launch TestReservedNames",
	},
	{
		name: "silent-clients-without-a-bound", in: "cmd/softhca/internal/accept.Listener.add",
		old:  "len($n.waiting) == MaxWaiting",
		new:  "false",
		test: "cmd/softhca/internal/accept TestSilentClients",
	},
	{
		name: "first-message-without-a-bound", in: "cmd/softhca/internal/accept.Listener.read",
		old:  "len(first) >= $n.limit",
		new:  "false",
		test: "cmd/softhca/internal/accept TestEndlessMessage",
	},
}
