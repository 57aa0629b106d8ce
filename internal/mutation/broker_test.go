//go:build mutation

package mutation

// brokerMutants are bugs of the broker, which serves QP1 for processes that
// share an address.
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
	{
		name: "record-4097-in-the-slot-of-another-member", in: "internal/broker.learn",
		old:  "$a.known.Len() >= maxKnown",
		new:  "$a.known.Len() > maxKnown",
		test: "internal/broker TestLedgerIsFull",
	},
	{
		name: "gaps-of-the-ledger-lost-at-a-restart", in: "internal/broker.router.restore",
		old:  "$c.of.vacant = append($c.of.vacant, $c.of.used)",
		new:  "_ = $c.of.used",
		test: "internal/broker TestLedgerIsFull",
	},
	{
		name: "services-of-a-member-without-a-bound", in: "internal/broker.router.claim",
		old:  "len($a.services) >= maxServices",
		new:  "false",
		test: "internal/broker TestServicesAreFull",
	},
	{
		name: "store-with-a-tcp-socket", in: "internal/broker.genuine",
		old:  "$kind != unix.IPPROTO_UDP",
		new:  "$kind != $kind",
		test: "internal/broker TestFalseStore",
	},
	{
		name: "store-with-a-socket-that-does-not-listen", in: "internal/broker.isListener",
		old:  "$listens == 0",
		new:  "$listens != $listens",
		test: "internal/broker TestFalseStore",
	},
	{
		name: "ledger-that-a-member-can-shrink", in: "internal/broker.openLedger",
		old:  "$seals&ledgerSeals != ledgerSeals",
		new:  "$seals&0 != 0",
		test: "internal/broker TestFalseStore",
	},
	{
		name: "welcome-to-slot-0", in: "internal/broker.welcomed",
		old:  "$m.Slot == 0",
		new:  "false",
		test: "internal/broker TestHostileHost",
	},
	{
		name: "descriptors-of-a-bad-welcome-left-open", in: "internal/broker.join",
		old:  "closeAll($fds)",
		new:  "_ = $fds",
		test: "internal/broker TestHostileHost",
	},
	{
		name: "queue-of-a-failed-join-left-open", in: "internal/broker.try",
		old:  "closeAll([]int{$s.mail, $mail})",
		new:  "_ = $mail",
		test: "internal/broker TestFailedJoin",
	},
	{
		name: "member-goes-on-after-a-message-that-it-must-not-send", in: "internal/broker.obey",
		old:  "return &message{Op: opRefused, Error: $e}, false",
		new:  "return &message{Op: opRefused, Error: $e}, true",
		test: "internal/broker TestHostileMember",
	},
	{
		name: "member-that-lost-its-connection-taken-for-dead", in: "internal/broker.part",
		old:  "$b.lives($r.Slot) && !$r.ended.Load()",
		new:  "false",
		test: "internal/broker TestLostConnection",
	},
	{
		name: "disconnect-repeated-too-late", in: "internal/broker.disconnectRetry",
		old:  "300 * time.Millisecond",
		new:  "3 * time.Second",
		test: "internal/broker TestManyPartings",
	},
	{
		name: "peer-not-told-when-too-many-are", in: "internal/broker.disconnect",
		old:  "errors.Is($err, gsi.ErrTooManyTransactions)",
		new:  "false",
		test: "internal/broker TestManyPartings",
	},
	{
		name: "silent-connection-kept-for-longer", in: "internal/broker.greet",
		old:  "time.Now().Add(helloTime)",
		new:  "time.Now().Add(10 * helloTime)",
		test: "internal/broker TestSilentConnection",
	},
	{
		name: "any-user-is-this-user", in: "internal/broker.ofThisUser",
		old:  "int($uid) != os.Geteuid()",
		new:  "false",
		test: "internal/broker TestOverflowUserIsAlone",
	},
	{
		name: "overflow-user-shares", in: "internal/broker.distinct",
		old:  "!userns.Ambiguous(os.Geteuid())",
		new:  "!userns.Ambiguous(-1)",
		test: "internal/broker TestOverflowUserIsAlone",
	},
	{
		name: "only-the-public-name", in: "internal/broker.namesOf",
		old:  "$secret == nil",
		new:  "true",
		test: "internal/broker TestForkedChildClosesNames",
	},
	{
		name: "names-not-in-the-store", in: "internal/broker.succeed",
		old:  "$b.inherit($label, $found)",
		new:  "$b.inherit($label, stored{groups: $found.groups, ledger: $found.ledger})",
		test: "internal/broker TestD3_HostGoes",
	},
	{
		name: "deputy-keeps-the-lock", in: "internal/broker.hand",
		old:  "close($b.handed)",
		new:  "",
		test: "internal/broker TestBrokerDies",
	},
	{
		name: "deputy-gives-the-store-for-other-addresses", in: "internal/broker.hand",
		old:  "!slices.Equal($m.Addrs, $b.cfg.Addrs)",
		new:  "false",
		test: "internal/broker TestAway",
	},
	{
		name: "next-broker-does-not-wait-for-members", in: "internal/broker.settle",
		old:  "$b.awaited()",
		new:  "false",
		test: "internal/broker TestClaimWaitsForOthers",
	},
	{
		name: "name-of-a-socket-the-same-for-all-addresses", in: "internal/identity.Secret.Name",
		old:  "append([]byte(nameMark), $a...)",
		new:  "append([]byte(nameMark), $a[:0]...)",
		test: "internal/identity TestName",
	},
	{
		name: "secret-in-a-directory-of-all", in: "internal/identity.makeDir",
		old:  "0o700",
		new:  "0o777",
		test: "internal/identity TestRestart",
	},
	{
		name: "two-processes-are-the-first", in: "internal/fabric/udp.alone",
		old:  "unix.Bind($a.fd, $a.sockaddr())",
		new:  "errors.Join(share($a.fd), unix.Bind($a.fd, $a.sockaddr()))",
		test: "internal/fabric/udp TestOpenFirstAtOnce",
	},
	{
		name: "sockets-of-a-failed-join-of-a-group-left-open", in: "internal/fabric/udp.Port.openGroup",
		old:  "closeAll($socks)",
		new:  "_ = $socks",
		test: "internal/fabric/udp TestFailedJoin",
	},
	{
		name: "group-of-a-failed-join-not-left", in: "internal/fabric/udp.Port.Join",
		old:  "_, undo := m.groups.Leave(group)",
		new:  "var undo error",
		test: "internal/fabric/udp TestFailedJoin",
	},
}
