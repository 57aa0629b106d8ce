//go:build mutation

package mutation

import "slices"

// portMutants are bugs that show only on an adapter with several ports.
var portMutants = slices.Concat(
	bugsIn("internal/qp", []mutant{
		{name: "turn-always-at-the-first-port", in: "End.Wake", test: "internal/shard TestTurnAtThePortOfThePath",
			old: "$e.ep.path.Port.Active.push(e)",
			new: "$e.ep.env.port(1).Active.push(e)"},
		{name: "turn-stays-when-the-path-moves", in: "End.setPath", test: "internal/shard TestTurnMovesWithThePath",
			old: "if p.Port != $e.ep.path.Port { $*leave }"},
		{name: "turn-lost-when-the-path-moves", in: "End.setPath", test: "internal/shard TestTurnMovesWithThePath",
			old: "if e.ep.path = p; active { $*wake }",
			new: "_ = active; e.ep.path = p"},
		{name: "turn-stays-at-the-port-after-reset", in: "End.forget", test: "internal/shard TestEndLeavesItsPort",
			old: "e.setPath(Path{Port: $port})",
			new: "e.ep.path = Path{Port: $port}"},
		{name: "address-vector-leaves-the-port", in: "End.store", test: "internal/shard TestNewPortInSQD",
			old: "$e.ep.attr.AV, $e.ep.attr.Port, $e.ep.prefixes = a.AV, a.AV.Port, packet.Prefixes{}",
			new: "$e.ep.attr.AV, $e.ep.prefixes = a.AV, packet.Prefixes{}"},
		{name: "pkey-of-the-old-port", in: "End.carryOut", test: "internal/shard TestNewPortInSQD",
			old: "ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAV",
			new: "ib.AttrPKeyIndex"},
		{name: "port-without-a-path-from-it", in: "checkOwnPort", test: "internal/shard TestPathIsAtThePort",
			old: "$c.mask&ib.AttrAV == 0",
			new: "false"},
		{name: "datagrams-taken-at-any-port", in: "admit", test: "internal/shard TestPortTakesItsOwn",
			old: "e.path.Port.Num != p.Port",
			new: "false"},
		{name: "address-handle-of-another-port-used", in: "sendDatagram", test: "internal/shard TestAddressHandleOfAnotherPort",
			old: "ah.Path.Port != ep.path.Port",
			new: "false"},
	}),
	bugsIn("internal/shard", []mutant{
		{name: "address-of-another-port-taken", in: "Receive", test: "TestPortTakesItsOwn",
			old: "$s.portOf(d.Dst) == port",
			new: "$s.portOf(d.Dst) != 0"},
		{name: "turns-of-mads-shared-by-the-ports", in: "Transmit", test: "TestTurnsOfMADs",
			old: "first := $p.MADsFirst; $p.MADsFirst = !first",
			new: "first := s.env.Ports[0].MADsFirst; s.env.Ports[0].MADsFirst = !first"},
	}),
	bugsIn("internal/gsi", []mutant{
		{name: "mads-leave-by-the-first-port", in: "source", test: "internal/shard TestMADsLeaveByThePortOfTheirSource",
			old: "return a, &g.queues[i], nil",
			new: "_ = i; return a, &g.queues[0], nil"},
	}),
	bugsIn("internal/driver", []mutant{
		{name: "blocked-port-stops-the-others", in: "Driver.transmit", test: "TestBlockedPortStopsNoOther",
			old: "more = d.sendBatches(now, $p) || more",
			new: "more = d.sendBatches(now, $p) || more; if d.ports[i].blocked { break }"},
		{name: "room-in-later-ports-not-waited-for", in: "watch", test: "TestBlockedPortStopsNoOther",
			old: "p.Wait(-1, true, write)",
			new: "p.Wait(-1, true, write && false)"},
		{name: "full-later-port-wakes-nobody", in: "ports.wakeWatchers", test: "TestFullPortIsServedAgain",
			old: "p.ignoresRoom()",
			new: "p.ignoresRoom() && false"},
		{name: "only-the-first-port-read", in: "Driver.take", test: "TestGoroutineOfEachPort",
			old: "for i := range d.ports { $*body }",
			new: "for i := range d.ports[:1] { $*body }"},
	}),
)
