//go:build mutation

package mutation

import "slices"

// nearCountMutants count and describe wrongly what takes shared memory.
var nearCountMutants = slices.Concat(bugsIn("internal/fabric/near", []mutant{
	{name: "packets-for-a-full-ring-not-counted", in: "Port.countDropped", test: "TestDroppedAreCounted",
		old: "p.count(fabric.NearDropped, packets)"},
	{name: "packets-through-memory-counted-again", in: "Port.countSent", test: "TestCounts",
		old: "*s = sent{}"},
	{name: "peer-counted-after-it-has-left", in: "Port.closePeer", test: "TestCounts",
		old: "p.count(fabric.NearPeers, -1)"},
	{name: "memory-of-a-peer-counted-after-it-has-left", in: "Port.closePeer", test: "TestCounts",
		old: "p.count(fabric.NearMemory, -r.Out.Bytes())"},
	{name: "garbage-not-counted", in: "Port.countGarbled", test: "TestGarbage",
		old: "p.count(fabric.NearGarbage, 1)"},
	{name: "refused-invitation-not-counted", in: "Port.countInvited", test: "TestRefusedInvitationIsCounted",
		old: "errors.Is(err, meeting.ErrRefused)",
		new: "false"},
	{name: "sockets-that-listen-counted-as-pairs", in: "pairsIn", test: "TestPairsInList",
		old: "s == connected",
		new: "s > 0"},
}), bugsIn("internal/fabric/near/meeting", []mutant{
	{name: "any-number-of-peers-believed", in: "Ask", test: "TestAsk",
		old: "m.kind != status || m.from.Key() != at || m.number > MaxPeers",
		new: "m.kind != status || m.from.Key() != at"},
	{name: "answer-of-any-process-believed", in: "Ask", test: "TestAsk",
		old: "m.kind != status || m.from.Key() != at || m.number > MaxPeers",
		new: "m.kind != status || m.number > MaxPeers"},
}), bugsIn("internal/device", []mutant{
	{name: "shaping-is-no-reason-for-the-network", in: "sharesMemory", test: "TestShaped",
		old: "if err := unshaped(a); err != nil { return err }",
		new: "_ = a"},
}), bugsIn("internal/fault", []mutant{
	{name: "packet-damaged-where-it-arrived", in: "Port.admit", test: "TestReceivedPacketsAreNotChanged",
		old: "d.Bytes = bytes.Clone(d.Bytes)",
		new: "d.Bytes = append(d.Bytes[:0], bytes.Clone(d.Bytes)...)"},
}))

// forgedMutants refuse packets from the network that a process has sent, or take forged ones.
var forgedMutants = slices.Concat(bugsIn("internal/fabric/near", []mutant{
	{name: "packets-refused-as-soon-as-the-peer-switches", in: "Port.bar", test: "TestForgedPackets",
		old: "now().Sub(r.switched) >= settleTime",
		new: "true"},
	{name: "packets-refused-that-were-on-their-way", in: "Port.screen", test: "TestPacketsOnTheirWay",
		old: "if len(ds) == 0 { p.bar(p.system.Now); return }",
		new: "p.bar(p.system.Now)"},
	{name: "return-to-the-network-not-noticed", in: "peer.returned", test: "TestReturnToTheNetwork",
		old: "r.left.Load() || r.gone.Load() || !r.In.Switched()",
		new: "r.left.Load() || r.gone.Load()"},
	{name: "peer-that-has-ended-stays-barred", in: "Port.forget", test: "TestEndedPeer",
		old: "if r.barred { p.gatherBarred() }"},
	{name: "switch-not-announced", in: "Port.seat", test: "TestForgedPackets",
		old: "r.Out.Switch()"},
	{name: "slots-of-all-addresses-barred", in: "Port.gatherBarred", test: "TestForgedPackets",
		old: "b.slots.Add(r.key.slot)",
		new: "b.slots.Add(r.key.slot); b.slots.Add(1)"},
}), bugsIn("internal/fabric/near/ring", []mutant{
	{name: "end-of-a-ring-is-no-return", in: "Consumer.Switched", test: "TestSwitch",
		old: "c.peer.load(switchedAt) != 0 && c.peer.load(headAt)%line != headEnd",
		new: "c.peer.load(switchedAt) != 0"},
	{name: "ring-without-a-switch-counts-as-one", in: "Consumer.Switched", test: "TestSwitch",
		old: "c.peer.load(switchedAt) != 0 && c.peer.load(headAt)%line != headEnd",
		new: "c.peer.load(headAt)%line != headEnd"},
}), bugsIn("internal/qp", []mutant{
	{name: "all-slots-of-an-address-barred", in: "endpoint.forged", test: "TestForgedPackets",
		old: "p.Data.Barred.Has(uint8(from >> 16))",
		new: "p.Data.Barred.Has(uint8(from>>16)) || e.connected()"},
	{name: "source-of-a-datagram-not-regarded", in: "endpoint.forged", test: "TestForgedPackets",
		old: "from = p.DETH.SrcQP"},
	{name: "datagrams-of-QP1-refused", in: "endpoint.forged", test: "TestForgedPackets",
		old: "e.typ == ib.GSI || onDatagrams.has(e.typ) && p.DETH.SrcQP == ib.QPNGSI",
		new: "e.typ == ib.GSI"},
	{name: "datagrams-to-QP1-refused", in: "endpoint.forged", test: "TestForgedPackets",
		old: "e.typ == ib.GSI || onDatagrams.has(e.typ) && p.DETH.SrcQP == ib.QPNGSI",
		new: "onDatagrams.has(e.typ) && p.DETH.SrcQP == ib.QPNGSI"},
	{name: "end-of-an-EE-context-not-known", in: "destination.peer", test: "TestForgedPackets",
		old: "$t == ib.EEC", new: "false"},
}))
