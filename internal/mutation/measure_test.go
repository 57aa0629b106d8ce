//go:build mutation

package mutation

import "slices"

// measureMutants are bugs of the commands that measure, show and explain memory windows, ATOMIC
// WRITE, FLUSH and XRC, and of faults on local requests.
var measureMutants = slices.Concat(
	bugsIn("cmd/softhca/internal/perf", []mutant{
		{name: "perf-shared-receives-in-one-place", in: "sink.repost", test: "TestM4_PlacesTakeTurns",
			old: "p.next == len(p.recvs)",
			new: "true"},
		{name: "perf-shared-receives-counted-by-place", in: "sink.lane", test: "TestM4_PlacesTakeTurns",
			old: "s.byQPN != nil",
			new: "s.byQPN == nil"},
		{name: "perf-shared-queue-without-a-bound", in: "localSide.receives", test: "TestM4_LargeSharedQueue",
			old: "min(n, int(attr.MaxSRQWR))",
			new: "max(n, int(attr.MaxSRQWR))"},
		{name: "perf-xrc-answers-on-the-first-connection", in: "localSide.sender", test: "TestM4_SharedQueue",
			old: "s.shared != nil && s.serves",
			new: "false"},
		{name: "perf-window-with-all-rights", in: "localSide.windowOf", test: "TestM2_WindowsGiveOneRight",
			old: "s.plan.Op.info().right",
			new: "ib.AccessRemote"},
		{name: "perf-window-over-the-first-message", in: "localSide.windowOf", test: "TestM2_Windows",
			old: "s.offset(s.remote() + i)",
			new: "s.offset(s.remote())"},
		{name: "perf-key-of-the-region-in-spite-of-a-window", in: "localSide.begin", test: "TestM2_Windows",
			old: "cmp.Or(peer.QPs[i].RKey, peer.RKey)",
			new: "peer.RKey"},
		{name: "perf-server-without-windows-measured", in: "client.agree", test: "TestM2_ServerWithoutWindows",
			old: "e.RKey == 0",
			new: "e.QPN == 0"},
		{name: "perf-binds-of-a-list-share-a-key", in: "cycle.fill", test: "TestM2_BindAndInvalidate",
			old: "c.key = c.key.Inc()",
			new: "if i == 0 { c.key = c.key.Inc() }"},
	}),
	bugsIn("internal/explain", []mutant{
		{name: "key-gone-after-another-kind-of-request", in: "keyUse.covers", test: "cmd/softhca TestM1_M2_M4_M5_M6_ExplainAndDecode",
			old: "u.kind == o.kind",
			new: "u.kind != roce.KindSend"},
		{name: "key-gone-beyond-the-bytes-of-before", in: "keyUse.covers", test: "TestRules",
			old: "o.length <= u.length-int(ahead)",
			new: "o.length <= 2*u.length-int(ahead)"},
		{name: "key-gone-though-a-rule-changed-the-request", in: "keyUse.covers", test: "TestProgramCaptures",
			old: "!o.altered",
			new: "o.length > 0"},
		{name: "use-of-the-last-key-forgotten", in: "keys.store", test: "TestRules",
			old: "k.put(k.last, k.use)"},
		{name: "shared-receive-queues-remembered-without-a-bound", in: "keys.executed", test: "TestFullTables",
			old: "maxKeys",
			new: "1 << 30"},
		{name: "queue-that-was-reached-unknown", in: "keys.invalid", test: "TestRules",
			old: "!reached",
			new: "!reached || used >= 0"},
		{name: "address-that-is-a-multiple-of-4-aligned", in: "op.unaligned", test: "TestRules",
			old: "o.va%8 != 0",
			new: "o.va%4 != 0"},
	}),
	bugsIn("cmd/softhca/internal/decode", []mutant{
		{name: "flush-of-an-unknown-type-named", in: "FETH.text", test: "TestM6_Flush",
			old: "left != 0 || len(types) == 0",
			new: "len(types) == 0"},
	}),
	bugsIn("internal/qp", []mutant{
		{name: "bind-that-is-to-fail-takes-effect", in: "executeLocal", test: "verbs TestM1_M2_BindFailsOnDemand",
			old: "return memory.FaultInjected",
			new: "w.request().operation().local(q, e); return memory.FaultInjected"},
	}),
	bugsIn("internal/fault", []mutant{
		{name: "rule-for-invalidations-acts-on-binds", in: "Live.matches", test: "verbs TestM1_M2_BindFailsOnDemand",
			old: "s.Request == ib.WROpcode(l.values[Request].num)",
			new: "s.Request != 0"},
	}),
)
