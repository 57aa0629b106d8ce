//go:build mutation

package mutation

// channelMutants are bugs of connections of reliable datagrams and of the channels
// that they share (C14).
var channelMutants = []mutant{
	{
		name: "req-without-its-ee-context", in: "internal/cm.sendREQ",
		old:    "$msg.LocalEECN, $msg.RemoteEECN, $msg.RDCExists = uint32($h.local), uint32($h.far.eecn), $c.joins",
		new:    "$msg.LocalEECN, $msg.RemoteEECN, $msg.RDCExists = 0, uint32($h.far.eecn), $c.joins",
		breaks: "C14",
	},
	{
		name: "rdc-exists-not-said", in: "internal/cm.sendREQ",
		old:    "$msg.LocalEECN, $msg.RemoteEECN, $msg.RDCExists = uint32($h.local), uint32($h.far.eecn), $c.joins",
		new:    "$msg.LocalEECN, $msg.RemoteEECN, $msg.RDCExists = uint32($h.local), uint32($h.far.eecn), false",
		breaks: "C14",
	},
	{
		name: "rep-without-its-ee-context", in: "internal/cm.sendREP",
		old:    "$msg.LocalEECN = uint32($h.local)",
		new:    "",
		breaks: "C14",
	},
	{
		name: "req-without-its-q-key", in: "internal/cm.sendREQ",
		old:    "LocalQKey: $p.QKey",
		new:    "LocalQKey: 0",
		breaks: "C14",
	},
	{
		name: "dreq-names-the-queue-pair", in: "internal/cm.numbersOf",
		old:    "h != nil",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "lap-for-another-ee-context-taken", in: "internal/cm.receiveLAP",
		old:    "!isNamed($*args)",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "channel-of-another-peer-joined", in: "internal/cm.joinable",
		old:    "$h.far != (farEnd{$*fields})",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "channel-that-is-down-joined", in: "internal/cm.channelRows",
		old:    "{ChannelDown, ChannelJoin, channelRefuse, ChannelDown}",
		new:    "{ChannelDown, ChannelJoin, channelTake, ChannelDown}",
		breaks: "C14",
	},
	{
		name: "channel-that-is-not-up-joined", in: "internal/cm.channelRows",
		old:    "{ChannelOpening, ChannelJoin, channelRefuse, ChannelOpening}",
		new:    "{ChannelOpening, ChannelJoin, channelTake, ChannelOpening}",
		breaks: "C14",
	},
	{
		name: "channel-that-failed-joined", in: "internal/hca.channelUsable",
		old:    "$e.State() == ib.RTS",
		new:    "$e.State() != ib.RESET",
		breaks: "C14",
	},
	{
		name: "channel-ends-with-any-connection", in: "internal/cm.Channel.leave",
		old:    "last == 0",
		new:    "last >= 0",
		breaks: "C14",
	},
	{
		name: "channel-never-ends", in: "internal/cm.Channel.leave",
		old:    "$h.step(now, ChannelLeft)",
		new:    "",
		breaks: "C14",
	},
	{
		name: "ee-context-left-in-rts", in: "internal/hca.channelDown",
		old:    "_ = $e.Modify($*args)",
		new:    "",
		breaks: "C14",
	},
	{
		name: "user-of-a-channel-miscounted", in: "internal/cm.Channel.leave",
		old:  "$h.users[$c.place].place = $c.place",
		new:  "",
		test: "internal/cm TestC14_Reuse",
	},
	{
		name: "ee-context-in-timewait-serves-another", in: "internal/cm.checkEECN",
		old:    "$m.channels[n] != nil",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "ee-context-never-free-again", in: "internal/cm.release",
		old:    "$h.step(now, ChannelGone)",
		new:    "",
		breaks: "C14",
	},
	{
		name: "stale-ee-context-in-req-taken", in: "internal/cm.Manager.accept",
		old:    "opensRDC(q)",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "stale-ee-context-in-rep-taken", in: "internal/cm.learnChannel",
		old:    "old != nil",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "one-connection-of-a-stale-channel-ended", in: "internal/cm.Channel.expire",
		old:    "slices.Clone($h.users)",
		new:    "$h.users[:1]",
		breaks: "C14",
	},
	{
		name: "rep-of-another-channel-taken", in: "internal/cm.learnChannel",
		old:    "$c.joins && $far != $h.far",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "rd-offered-to-who-does-not-know-it", in: "internal/cm.takes",
		old:    "t == mad.TransportRC || t == mad.TransportUC",
		new:    "true",
		breaks: "C14",
	},
	{
		name: "rc-offered-to-who-knows-only-rd", in: "internal/cm.takes",
		old:    "$l.RD",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "queue-pair-of-rd-held-stale", in: "internal/cm.remember",
		old:    "$c.channel == nil",
		new:    "true",
		breaks: "C14",
	},
	{
		name: "ee-context-of-another-domain-used", in: "internal/hca.EstablishRD",
		old:    "q != nil && $q.RDD() != $e.RDD()",
		new:    "false",
		breaks: "C14",
	},
	{
		name: "ee-context-moved-again-by-who-joins", in: "internal/hca.EstablishRD",
		old:    "!$c.Channel().JoinedBy(c)",
		new:    "true",
		breaks: "C14",
	},
	{
		name: "data-to-a-joining-queue-pair-does-not-connect", in: "internal/hca.EstablishRD",
		old:    "finishBy(&q.End, $c)",
		new:    "",
		breaks: "C14 C4",
	},
	{
		name: "data-over-a-new-channel-does-not-connect", in: "internal/hca.EstablishRD",
		old:    "finishBy(&e.End, $c)",
		new:    "",
		breaks: "C14 C4",
	},
	{
		name: "q-key-that-anybody-can-guess", in: "internal/hca.Prepare",
		old:    "$a.QKey = ib.QKey($h.cfg.Rand()) &^ ib.QKeyControlled",
		new:    "$a.QKey = 1",
		breaks: "C14",
	},
	{
		name: "channel-lost-to-make-room-joined", in: "internal/cm.enter",
		old:  "h == nil",
		new:  "false",
		test: "internal/cm TestC14_RoomMadeByTheLastUser",
	},
	{
		name: "ee-context-outlives-its-channel", in: "rdmacm.closeChannel",
		old:  "$id.m.letGo($k)",
		new:  "false",
		test: "rdmacm TestC14_SharedChannel",
	},
	{
		name: "no-ee-context-not-told", in: "rdmacm.acceptRD",
		old:  "mad.RejNoEEC",
		new:  "mad.RejConsumer",
		test: "rdmacm TestC14_NoEEC",
	},
}
