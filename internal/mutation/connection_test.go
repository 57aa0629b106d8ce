//go:build mutation

package mutation

// connectionMutants are bugs of the connection manager and of QP1 below it.
var connectionMutants = []mutant{
	{
		name: "mad-with-another-q-key", file: "internal/gsi/transmit.go",
		old: "QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI", new: "QKey: 1, SrcQP: ib.QPNGSI",
		breaks: "C1", sim: "answer liveness", profile: "connect",
	},
	{
		name: "class-port-info-not-answered", file: "internal/gsi/receive.go",
		old: "case h.Method == mad.MethodGet && h.AttrID == mad.AttrClassPortInfo:", new: "case h.Method == mad.MethodGetResp:",
		breaks: "C12",
	},
	{
		name: "private-data-of-rtu-left-out", file: "mad/rtu.go",
		old: "copy(d[8:], r.PrivateData[:])", new: "",
		breaks: "C2", sim: "stranger", profile: "connect",
	},
	{
		name: "rtu-not-sent-again", file: "internal/cm/action.go",
		old: "c.resend(x, mad.AttrRTU)", new: "",
		breaks: "C4 C6", sim: "answer", profile: "connect",
	},
	{
		name: "data-before-rtu-does-not-connect", file: "internal/hca/connect.go",
		old: "_ = c.Establish(now) // allowed in these states", new: "",
		breaks: "C4", sim: "data", profile: "connect",
	},
	{
		name: "repetitions-never-spent", file: "internal/cm/action.go",
		old: "c.retry.left--\n", new: "",
		breaks: "C3", sim: "repetition", profile: "connect",
	},
	{
		name: "one-repetition-too-many", file: "internal/cm/action.go",
		old: "c.retry.left = c.retry.max\n", new: "c.retry.left = c.retry.max + 1\n",
		breaks: "C6", sim: "repetition", profile: "connect",
	},
	{
		name: "repeated-req-makes-another-connection", file: "internal/cm/manager.go",
		old: "m.peers[c.peerKey()] = c\n", new: "",
		breaks: "C6 C7", sim: "answer twice event", profile: "connect",
	},
	{
		name: "id-of-the-peer-kept", file: "internal/cm/manager.go",
		old: "delete(c.m.peers, c.peerKey())", new: "",
		breaks: "", sim: "answer", profile: "connect",
	},
	{
		name: "queue-pair-of-the-peer-kept", file: "internal/cm/manager.go",
		old: "delete(c.m.qps, c.qpKey())", new: "",
		breaks: "C7", sim: "event answer liveness", profile: "connect",
	},
	{
		name: "stale-req-taken", file: "internal/cm/listener.go",
		old:    "if old := m.qps[qpKey{q.LocalQPN, c.guid, c.to.Remote}]; old != nil {",
		new:    "if old := m.qps[qpKey{q.LocalQPN, c.guid, c.to.Remote}]; old != nil && old.state != Established {",
		breaks: "C7", sim: "stale state answer", profile: "connect",
	},
	{
		name: "stale-rep-taken", file: "internal/cm/action.go",
		old: "if old := c.m.qps[qpKey{p.LocalQPN, guid, remote}]; old != nil {", new: "if old := c.m.qps[qpKey{p.LocalQPN, guid, remote}]; old == c {",
		breaks: "C7", sim: "answer", profile: "connect",
	},
	{
		name: "stale-connection-not-ended", file: "internal/cm/action.go",
		old: "if c.state == Established {\n\t\t_ = c.step(CallDREQ", new: "if c.state == Timewait {\n\t\t_ = c.step(CallDREQ",
		breaks: "C7", sim: "state", profile: "connect",
	},
	{
		name: "timewait-skipped", file: "internal/cm/table.go",
		old: "{in(DReqSent), MsgDREP, stop, Timewait, DREPReceived}", new: "{in(DReqSent), MsgDREP, stop, Idle, DREPReceived}",
		breaks: "C5", sim: "state", profile: "connect",
	},
	{
		name: "timewait-half-as-long", file: "internal/cm/conn.go",
		old: "c.await(now, peerWait(c.ep.ackTimeout), 0)", new: "c.await(now, peerWait(c.ep.ackTimeout)/2, 0)",
		breaks: "C5", sim: "timer", profile: "connect",
	},
	{
		name: "destroyed-without-dreq", file: "internal/cm/table.go",
		old: "{in(Established), CallDestroy, sendDREQ, DReqSent, NoEvent}", new: "{in(Established), CallDestroy, lapStop, Timewait, NoEvent}",
		breaks: "C6", sim: "answer", profile: "connect",
	},
	{
		name: "given-up-without-rej", file: "internal/cm/table.go",
		old: "{in(RepSent, MRARepRcvd), TimerExhausted, rejectTimeout, Idle, REPError}", new: "{in(RepSent, MRARepRcvd), TimerExhausted, stop, Idle, REPError}",
		breaks: "C4", sim: "answer", profile: "connect",
	},
	{
		name: "given-up-in-silence", file: "internal/cm/table.go",
		old: "{in(RepSent, MRARepRcvd), TimerExhausted, rejectTimeout, Idle, REPError}", new: "{in(RepSent, MRARepRcvd), TimerExhausted, rejectTimeout, Idle, NoEvent}",
		breaks: "C4", sim: "state", profile: "connect",
	},
	{
		name: "dreq-for-nobody-not-answered", file: "internal/cm/receive.go",
		old: "m.answerDREQ(x)\n", new: "",
		breaks: "C6", sim: "answer", profile: "connect",
	},
	{
		name: "rep-for-nobody-not-answered", file: "internal/cm/receive.go",
		old: "m.rejectUnknown(x)\n", new: "",
		breaks: "C6", sim: "answer", profile: "connect",
	},
	{
		name: "dreps-sent-once", file: "internal/cm/table.go",
		old: "{in(Timewait), MsgDREQ, resendDREP, stay, repeated}", new: "{in(Timewait), MsgDREQ, none, stay, repeated}",
		breaks: "C5", sim: "answer", profile: "connect",
	},
	{
		name: "crossing-dreqs-ignored", file: "internal/cm/table.go",
		old: "{in(DReqSent), MsgDREQ, stop, DReqRcvd, DREQReceived}", new: "{in(DReqSent), MsgDREQ, none, stay, repeated}",
		breaks: "C5", sim: "event", profile: "connect",
	},
	{
		name: "dreq-before-rtu-ignored", file: "internal/cm/table.go",
		old: "{in(RepSent, MRARepRcvd), MsgDREQ, stop, DReqRcvd, DREQReceived}", new: "{in(RepSent, MRARepRcvd), MsgDREQ, none, stay, repeated}",
		breaks: "", sim: "event", profile: "connect",
	},
	{
		name: "late-rej-ends-the-connection", file: "internal/cm/receive.go",
		old: "c = m.find(j.RemoteCommID, 0, x)", new: "c = m.local[j.RemoteCommID]",
		breaks: "C6", sim: "event forgery", profile: "connect",
	},
	{
		name: "mra-waits-half-as-long", file: "internal/cm/action.go",
		old: "c.await(x.now, wait, c.retry.left)\n", new: "c.await(x.now, wait/2, c.retry.left)\n",
		breaks: "C7", sim: "timer", profile: "connect",
	},
	{
		name: "mra-not-sent-again", file: "internal/cm/action.go",
		old: "c.resendMRA(x)\n", new: "",
		breaks: "C7", sim: "answer", profile: "connect",
	},
	{
		name: "half-open-never-whole", file: "internal/cm/conn.go",
		old: "case Established:\n\t\tc.m.leaveHalfOpen(c)", new: "case Established:",
		breaks: "", sim: "leak", profile: "connect",
	},
	{
		name: "share-of-a-peer-never-given-back", file: "internal/cm/halfopen.go",
		old: "if m.half[c.to.Remote]--; m.half[c.to.Remote] == 0 {", new: "if m.half[c.to.Remote] == 0 {",
		breaks: "", sim: "liveness", profile: "connect",
	},
	{
		name: "messages-of-strangers-taken", file: "internal/cm/receive.go",
		old: "case c.to.Remote != x.from.From.Remote:\n\t\tm.counters.Foreign++\n\t\tx.foreign = true\n\t\treturn nil\n", new: "",
		breaks: "C6", sim: "forgery", profile: "connect",
	},
	{
		name: "events-after-destroy", file: "internal/cm/conn.go",
		old: "c.destroyed, c.handler = true, nil\n\t_ = c.step", new: "c.destroyed = true\n\t_ = c.step",
		breaks: "C6", sim: "event", profile: "connect",
	},
	{
		name: "id-used-again", file: "internal/cm/conn.go",
		old:    "*c = Conn{Consumer: c.Consumer,",
		new:    "if c.localID != 0 {\n\t\tid = c.localID\n\t}\n\t*c = Conn{Consumer: c.Consumer,",
		breaks: "", sim: "stranger event answer", profile: "connect",
	},
	{
		name: "starting-psns-not-swapped", file: "internal/cm/qpattr.go",
		old: "SQPSN: c.ep.remotePSN", new: "SQPSN: c.ep.localPSN",
		breaks: "C8", sim: "terms", profile: "connect",
	},
	{
		name: "depths-not-swapped", file: "internal/cm/listener.go",
		old: "responderResources: q.InitiatorDepth, initiatorDepth: q.ResponderResources,", new: "responderResources: q.ResponderResources, initiatorDepth: q.InitiatorDepth,",
		breaks: "", sim: "terms", profile: "connect",
	},
	{
		name: "repeated-sidr-req-asks-again", file: "internal/cm/receive.go",
		old: "if c := m.sidr[sidrKey{q.RequestID, x.from.From.Remote}]; c != nil {", new: "if c := m.sidr[sidrKey{q.RequestID, x.from.From.Remote}]; c != nil && c.destroyed {",
		breaks: "C9", sim: "forgery twice", profile: "connect",
	},
	{
		name: "lap-repeated-after-the-connection", file: "internal/cm/action.go",
		old: "c.lap = LAPIdle\n\t\tc.answered()", new: "c.lap = LAPIdle",
		breaks: "", sim: "timer", profile: "connect",
	},
	{
		name: "apr-after-mra-ignored", file: "internal/cm/table.go",
		old: "{LAPMRARcvd, MsgAPR, lapLoad, LAPIdle, APRReceived}", new: "{LAPMRARcvd, MsgAPR, lapNone, LAPMRARcvd, NoEvent}",
		breaks: "C10", sim: "event", profile: "connect",
	},
}
