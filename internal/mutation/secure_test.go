//go:build mutation

package mutation

import "slices"

// secureMutants are bugs that let other users take memory, addresses or time.
var secureMutants = slices.Concat(
	bugsIn("internal/environ", []mutant{
		{name: "privileged-programs-not-recognised", in: "secureIn", test: "TestSecureIn",
			old: "entry[1] != 0",
			new: "false"},
	}),
	bugsIn("internal/qp", []mutant{
		{name: "garbage-of-kept-packets-not-counted", in: "letGo", test: "TestL2_KeptHeap",
			old: "$m.garbage[0] += bytes"},
		{name: "garbage-of-kept-packets-forgotten-before-it-is-collected", in: "begin",
			test: "TestL2_KeptMemoryOfAnotherSize",
			old:  "[2]int{0, $m.garbage[0]}",
			new:  "[2]int{}"},
		{name: "memory-of-another-size-never-let-go", in: "shed", test: "TestL2_KeptMemoryOfAnotherSize",
			old: "tables < 0 && packets >= 0 && $m.letGo(classCost(packets))",
			new: "false"},
		{name: "kept-acknowledgements-without-a-bound", in: "getOne", test: "TestL2_KeptAcknowledgements",
			old: "$m.used+heldCost(n) > maxHeldAdapter",
			new: "false"},
		{name: "kept-acknowledgements-counted-for-ever", in: "putOne", test: "TestL2_KeptAcknowledgements",
			old: "$m.used -= heldCost(len(k.room))"},
	}),
	bugsIn("internal/device", []mutant{
		{name: "loopback-addresses-that-strangers-foresee", in: "Loopbacks", test: "TestLoopbacks",
			old: "rand.Uint32()",
			new: "uint32(7)"},
	}),
	bugsIn("cmd/softhca/internal/launch", []mutant{
		{name: "unusual-address-without-a-notice", in: "freeAddress", test: "TestReservedNames",
			old: "tried >= device.LoopbacksInOrder",
			new: "false"},
	}),
	bugsIn("cmd/softhca/internal/accept", []mutant{
		{name: "silent-clients-without-a-bound", in: "Listener.add", test: "TestSilentClients",
			old: "len($n.waiting) == MaxWaiting",
			new: "false"},
		{name: "first-message-without-a-bound", in: "Listener.read", test: "TestEndlessMessage",
			old: "len(first) >= $n.limit",
			new: "false"},
	}),
)
