//go:build mutation

package mutation

import "slices"

// bareMutants are bugs of packets that have no ICRC.
var bareMutants = slices.Concat(
	bugsIn("internal/fabric/near", []mutant{
		{name: "capture-does-not-ask-for-icrcs", in: "New", test: "TestBare",
			old: "!c.Sealed",
			new: "true"},
		{name: "arrived-packets-reach-a-capture-without-icrc", in: "Port.Receive", test: "TestBare",
			old: "p.cfg.Sealed",
			new: "false"},
		{name: "packets-of-a-peer-that-left-without-icrc", in: "Port.Send", test: "TestBareAfterTheEnd",
			old: "runs[n].Bare",
			new: "false"},
		{name: "packets-by-the-network-without-icrc", in: "Port.bare", test: "TestBareAfterTheEnd",
			old: "t.peer != nil && t.peer.sends()",
			new: "true"},
		{name: "record-does-not-say-that-the-icrc-is-missing", in: "tagOf", test: "TestBare",
			old: "tag |= tagBare",
			new: "tag |= 0"},
		{name: "icrc-through-memory-not-looked-at", in: "peer.datagram", test: "TestBare",
			old: "rec.Tag&tagBare != 0",
			new: "true"},
	}),
	bugsIn("internal/fabric/near/meeting", []mutant{
		{name: "process-invited-without-permission", in: "Host.Invite", test: "internal/fabric/near TestNotPermitted",
			old: "h.cfg.Permit != nil",
			new: "false"},
		{name: "owner-asked-after-the-offer", in: "Host.accepts", test: "internal/fabric/near TestNotPermitted",
			old: "h.cfg.Permit != nil",
			new: "false"},
	}),
	bugsIn("internal/packet", []mutant{
		{name: "icrc-of-a-tiny-packet", in: "SealDatagram", test: "TestSealTiny",
			old: "len(seg) >= roce.MinSize",
			new: "true"},
		{name: "icrcs-with-one-identification", in: "SealDatagram", test: "TestBareRun",
			old: "d.ID+k",
			new: "d.ID"},
		{name: "run-sealed-but-called-bare", in: "SealRun", test: "TestBareRun",
			old: "r.Bare = false"},
		{name: "old-bytes-in-the-place-of-the-icrc", in: "Writer.Seal", test: "TestBareRun",
			old: "clear(seg[len(seg)-roce.ICRCLen:])"},
		{name: "every-packet-bare-if-one-may-be", in: "Writer.Append", test: "TestBareNeedsPermission",
			old: "w.bare = b.Bare()",
			new: "w.bare = w.bare || b.Bare()"},
	}),
	bugsIn("internal/flow", []mutant{
		{name: "round-of-a-read-ends-with-its-first-response", in: "Flight.beginRound", test: "TestRoundsOfReads",
			old: "f.next.Add(n)",
			new: "f.next.Add(1)"},
	}),
)
