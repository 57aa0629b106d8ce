//go:build mutation

package mutation

// brokerMutants are bugs of who serves QP1 for processes that share an address.
var brokerMutants = []mutant{
	{
		name: "dreq-ends-a-connection-that-the-member-has-not-answered", in: "internal/broker.ask",
		old:  "$c.ending.ask(now, $c, $tid)",
		new:  "r.forget(c); return a",
		test: "internal/broker TestParting",
	},
	{
		name: "dreq-with-another-id-ends-a-connection", in: "internal/broker.ask",
		old:  "$c.localID != 0 && $c.localID != to",
		new:  "false",
		test: "internal/broker TestPartingStrangers",
	},
	{
		name: "connections-that-end-without-a-bound", in: "internal/broker.ask",
		old:  "$a.asked.Len() > maxAsked",
		new:  "false",
		test: "internal/broker TestAsked",
	},
	{
		name: "connection-that-ends-in-the-way-of-the-next", in: "internal/broker.request",
		old:  "$c != nil && $c.ending.asked",
		new:  "false",
		test: "internal/broker TestParting",
	},
	{
		name: "disconnect-answered-by-strangers", in: "internal/broker.heard",
		old:  "$p.peer == (remoteKey{$id, from.Remote})",
		new:  "id != 0",
		test: "internal/broker TestDisconnectIsThePeersToEnd",
	},
}
