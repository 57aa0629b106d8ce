//go:build mutation

package mutation

// floodMutants are bugs that show when a stranger sends forged or very many REQs, and when a
// restarted peer connects again.
var floodMutants = []mutant{
	{
		name: "req-pays-for-four-messages", in: "internal/cm.earn",
		old:  "$a.left + perMessage",
		new:  "$a.left + perMessage + 1",
		test: "internal/cm TestC6_EachREQEarnsAREP",
	},
	{
		name: "first-req-pays-for-all", in: "internal/cm.Manager.accept",
		old:  "left: perMessage",
		new:  "left: maxAllowance",
		test: "internal/cm TestC6_OneREQDrawsThree",
		sim:  "amplification", profile: "connect",
	},
	{
		name: "an-answer-does-not-end-the-bound", in: "internal/cm.find",
		old:  "$c.allowance.limited = false",
		new:  "",
		test: "internal/cm TestC6_AnAnswerEndsTheBound",
		sim:  "answer", profile: "connect",
	},
	{
		name: "data-does-not-end-the-bound", in: "internal/cm.move",
		old:  "$c.allowance.limited = false",
		new:  "",
		test: "internal/cm TestC6_DataEndsTheBound",
	},
	{
		name: "repeated-req-not-answered-by-rep", in: "internal/cm.stimulus.resendREP",
		old:    "x.reply($c, $c.sent)",
		new:    "",
		breaks: "C6", sim: "answer", profile: "connect",
	},
	{
		name: "repetition-skipped-though-paid-for", in: "internal/cm.stimulus.retransmit",
		old: "maySend($c)",
		new: "maySend($c) && $c.retry.left%2 == 0",
		sim: "answer", profile: "connect",
	},
	{
		name: "silent-peers-of-the-largest-address-stay", in: "internal/cm.Listener.makeRoom",
		old:  "$g.count > has+1",
		new:  "$g.count > has+1000",
		test: "internal/cm TestC6_SilentPeersKeepNobodyOut",
	},
	{
		name: "one-silent-peer-too-few-gives-way", in: "internal/cm.Listener.makeRoom",
		old:  "for $bounded { $*body }",
		new:  "if $bounded { $*body }",
		test: "internal/cm TestC6_MoreThanTheBound",
	},
	{
		name: "overdue-ten-times-as-late", in: "internal/cm.evictOverdue",
		old:  "$silence >= overdue",
		new:  "$silence >= 10*overdue",
		test: "internal/cm TestC6_SilentPeersKeepNobodyOut",
	},
	{
		name: "crowd-taken-for-an-attack", in: "internal/cm.evictOverdue",
		old:  "$silence >= overdue",
		new:  "$silence >= 0",
		test: "internal/cm TestC6_ManyPeersAtOnce",
	},
	{
		name: "newest-of-the-largest-address-gives-way", in: "internal/cm.evictLargest",
		old:  "$g.list.oldest",
		new:  "$g.list.newest",
		test: "internal/cm TestC6_RoomIsNotTakenFromWhoTookIt",
	},
	{
		name: "early-requests-not-shared", in: "internal/cm.makeRoom",
		old:  "$count[$largest] <= $count[$from]+1",
		new:  "$count[$largest] < 0",
		test: "internal/cm TestC7_EarlyIsShared",
	},
	{
		name: "forged-req-believed-after-one-challenge", in: "internal/cm.examRows",
		old:  "{examBoth, examDead, examNone, examAsked}",
		new:  "{examBoth, examDead, examEnd, examOver}",
		test: "internal/cm TestC7_Outcomes",
	},
	{
		name: "living-peer-examined-again-at-once", in: "internal/cm.examRows",
		old:  "{examBoth, examAlive, examTrust, examLiving}",
		new:  "{examBoth, examAlive, examForget, examOver}",
		test: "internal/cm TestC7_SweepInThePeersName",
	},
	{
		name: "inquiry-ends-the-peers-connection", in: "internal/cm.examination.ask",
		old:  "RemoteCommID: $c.remoteID",
		new:  "RemoteCommID: $c.remoteID, RemoteQPN: $c.ep.remoteQPN",
		test: "internal/cm TestC7_SweepInThePeersName",
	},
	{
		name: "examination-outlives-its-connection", in: "internal/cm.move",
		old:  "dismiss(c)",
		new:  "",
		test: "internal/cm TestC7_OutcomesWithoutChallenge",
	},
	{
		name: "late-challenge-counts-for-the-next", in: "internal/cm.examination.challenge",
		old:  "$c.exam != e || e.serial != serial",
		new:  "$c.exam != e",
		test: "internal/cm TestC7_Outcomes",
	},
	{
		name: "every-alternate-path-accepted", in: "internal/cm.sendAPR",
		old:  "Status: $p.Status",
		new:  "Status: mad.APRAccepted",
		test: "internal/cm TestC10_EveryAPRStatus",
	},
	{
		name: "refused-path-agreed-on", in: "internal/cm.sendAPR",
		old:  "$p.Status == mad.APRAccepted",
		new:  "$p.Status <= mad.APRRejected",
		test: "internal/cm TestC10_EveryAPRStatus",
	},
	{
		name: "status-of-a-refused-path-not-told", in: "rdmacm.link.altPathAnswered",
		old:  "int($apr.Status)",
		new:  "0",
		test: "rdmacm TestC10_AltPathRefused",
	},
	{
		name: "automatic-disconnect-does-not-answer", in: "rdmacm.link.disconnected",
		old:  "l.leaving || l.settings.autoDisconnect",
		new:  "l.leaving",
		test: "rdmacm TestC11_AutoDisconnect",
	},
	{
		name: "readers-wake-when-close-is-over", in: "rdmacm/stream.stream.close",
		old:  "$s.wakeAll()",
		new:  "",
		test: "rdmacm/stream TestC11_CloseWakesAtOnce",
	},
	{
		name: "listener-drops-the-oldest-of-all", in: "rdmacm/stream.Listener.oldest",
		old:  "$count[$from] > n",
		new:  "n == 0",
		test: "rdmacm/stream TestC11_OldestOfTheLargest",
	},
	{
		name: "silent-peers-of-a-program-not-bounded", in: "rdmacm.adapter.open",
		old:  "$l.MaxSilent = $_",
		new:  "",
		test: "rdmacm TestC11_SilentPeersKeepNobodyOut",
	},
	{
		name: "answers-of-qp1-take-half-of-the-queue", in: "internal/gsi.answer",
		old:  "$g.queue.max / 4",
		new:  "$g.queue.max / 2",
		test: "internal/gsi TestC12_Floods",
	},
	{
		name: "answers-of-agents-take-the-whole-queue", in: "internal/gsi.Agent.Answer",
		old:  "$g.queue.max / 2",
		new:  "$g.queue.max",
		test: "internal/gsi TestC12_AnswersLeaveRoom",
	},
	{
		name: "length-of-apr-information-not-told", in: "mad.APR.Put",
		old:  "$d[8] = $r.InfoLength",
		new:  "",
		test: "mad TestC2_AnyBytes",
	},
}
