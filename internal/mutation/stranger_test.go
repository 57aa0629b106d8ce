//go:build mutation

package mutation

import "slices"

// strangerMutants are bugs that show when another sender than the peer sends,
// or when a program outside Go writes the queues.
var strangerMutants = slices.Concat(
	bugsIn("internal/qp", []mutant{
		{name: "ip-identification-demanded-for-ever", in: "ipidPolicy.refuses", test: "TestIPIDOfRequests",
			old: "$y.streak = 0"},
		{name: "ip-identification-judged-for-duplicates", in: "responder.request", test: "TestIPIDOfStrangers",
			old: "switch d := $ahead; { case d > 0: $*above; case d < 0: $*below; case $awaits: return }; if r.ep.refusesID(p) { $*drop }",
			new: "if r.ep.refusesID(p) { $*drop }; switch d := $ahead; { case d > 0: $*above; case d < 0: $*below; case $awaits: return }"},
		{name: "ip-identification-learnt-from-requests-at-any-psn", in: "responder.receiveRequest",
			test: "TestIPIDOfStrangers",
			old:  "expected := $epsn",
			new:  "expected := $epsn; r.ep.ipid.learn(p)"},
		{name: "ip-identification-of-strangers-wanted-of-a-uc-peer", in: "receiveUC", test: "TestIPIDOfUCStrangers",
			old: "refused := r.ep.refusesID(p)",
			new: "refused := p.BTH.PSN == r.epsn && r.ep.refusesID(p)"},
		{name: "number-of-elements-to-send-not-checked", in: "sane", test: "internal/hca TestWildSends",
			old: "uint32($w.numSGE) > $s.maxSGE",
			new: "false"},
		{name: "length-to-send-not-checked", in: "sane", test: "internal/hca TestWildSends",
			old: "$w.length > MaxMessage",
			new: "false"},
		{name: "number-of-elements-to-receive-not-checked", in: "recvQueue.take", test: "internal/hca TestWildReceives",
			old: "$e.NumSGE > $r.maxSGE",
			new: "false"},
		{name: "kept-results-out-of-order-when-their-ring-grows", in: "grow", test: "TestE11_Model",
			old: "$s.ring, $s.head = ring, 0",
			new: "$s.ring = ring"},
		{name: "kept-result-forgotten-before-it-is-answered", in: "resources.ready", test: "TestE11_Model",
			old: "min($s.n-int(depth)+1, $s.out)",
			new: "$s.n - int(depth) + 1"},
	}),
	bugsIn("internal/cm", []mutant{
		{name: "stale-before-the-request-is-checked", in: "Manager.accept", test: "TestC7_StaleREQIsValid",
			old: "if $check; !ok { $*reject }; if $look; old != nil { $*end }",
			new: "if $look; old != nil { $*end }; if $check; !ok { $*reject }"},
	}),
	bugsIn("internal/ring", []mutant{
		{name: "completion-taken-before-it-came", in: "CQE.get", test: "TestQ5_CQThreads",
			old: "$e.Valid.Load() != i+1",
			new: "$e.Valid.Load() == 0"},
		{name: "fresh-entries-pretend-to-have-come", in: "place", test: "TestQ5_CQModel",
			old: "$c.entry(n - 1).Valid.Store($c.prod)"},
	}),
	bugsIn("internal/driver", []mutant{
		{name: "recall-of-the-port-lost", in: "look", test: "TestRecallIsNeverLost",
			old: "if $p.state.CompareAndSwap(old, next) { return aside }",
			new: "_ = old; $p.state.Store(next); return aside"},
	}),
)
