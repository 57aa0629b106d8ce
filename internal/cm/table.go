package cm

// Action is what a cell of the machine does before the state changes.
type Action uint8

// The actions. Each is a method in action.go. They keep or stop the timer as
// their comments say; without a comment it stays as it is.
const (
	none            Action = iota
	accept                 // make a connection of a REQ that the listener takes, or refuse it
	acceptSIDR             // the same for SIDR_REQ
	sendREQ                // and repeat it
	sendREP                // and repeat it
	resendREP              // the one that waits for RTU; the timer stays
	sendRTU                // and keep it for a repeated REP
	resendRTU              // the kept one
	sendMRA                // and keep it for a repeated REQ or REP
	answerMRA              // the kept MRA, or the one that was prepared
	prepareMRA             // keep its fields
	sendREJ                // what the consumer says; stops the timer
	rejectTimeout          // REJ, reason timeout, naming this node; stops the timer
	rejectConsumer         // REJ, reason consumer reject; stops the timer
	rejectStale            // REJ, reason stale connection
	resendREJ              // the kept one, if a REJ was the end
	rejectUnknownID        // REJ, reason invalid communication ID, to a REP or RTU for nobody
	rejectService          // REJ, reason invalid service ID
	sendDREQ               // and repeat it
	sendDREP               // and keep it for a repeated DREQ; stops the timer
	resendDREP             // the kept one, or an empty one
	answerDREP             // DREP to a DREQ for nobody
	learnREP               // check it and note what it says; stops the timer
	extendTimer            // let the timer wait as long as the MRA asks for
	retransmit             // send once more what waits for an answer
	stop                   // stop the timer
	sendSIDRREQ            // and repeat it
	sendSIDRREP            // stops nothing: there is nothing
	rejectSIDR             // SIDR_REP, rejected by the service provider
	unknownSIDR            // SIDR_REP, service ID not supported
	lap                    // the table of sub-states decides
	lapStop                // an alternate path is not loaded any more; stops the timer
	numActions
)

var actionWords = [numActions]string{
	none:            "nothing",
	accept:          "make a connection, or refuse it",
	acceptSIDR:      "make a resolution, or drop it",
	sendREQ:         "send REQ, repeat until answered",
	sendREP:         "send REP, repeat until answered",
	resendREP:       "send REP again",
	sendRTU:         "send RTU",
	resendRTU:       "send RTU again",
	sendMRA:         "send MRA",
	answerMRA:       "send MRA, perhaps again",
	prepareMRA:      "have MRA ready for a repetition",
	sendREJ:         "send REJ with the consumer's reason",
	rejectTimeout:   "send REJ: timeout",
	rejectConsumer:  "send REJ: consumer reject",
	rejectStale:     "send REJ: stale connection",
	resendREJ:       "send REJ again, if that was the end",
	rejectUnknownID: "send REJ: invalid communication ID",
	rejectService:   "send REJ: invalid service ID",
	sendDREQ:        "send DREQ, repeat until answered",
	sendDREP:        "send DREP",
	resendDREP:      "send DREP, perhaps again",
	answerDREP:      "send DREP",
	learnREP:        "learn what it says, or refuse it",
	extendTimer:     "wait as long as it asks for",
	retransmit:      "send it again",
	stop:            "wait no more",
	sendSIDRREQ:     "send SIDR_REQ, repeat until answered",
	sendSIDRREP:     "send SIDR_REP",
	rejectSIDR:      "send SIDR_REP: rejected",
	unknownSIDR:     "send SIDR_REP: unsupported service ID",
	lap:             "as the sub-state says",
	lapStop:         "wait no more, also not for APR",
}

// String returns what is done, in words.
func (a Action) String() string { return nameOf(actionWords[:], a, "invalid action") }

// cellOf says what an input does in a state. The zero cell of a call is an
// error, of a message a counted drop, of a timer impossible.
type cellOf[A, S ~uint8] struct {
	defined   bool
	duplicate bool // counted as a repetition by the peer
	do        A
	next      S
	raise     EventType
}

type (
	cell    = cellOf[Action, State]
	lapCell = cellOf[lapAction, LAPState] // in a sub-state of Established
)

// cellFor returns what a row says of one state.
func cellFor[A, S ~uint8](do A, next S, raise EventType) cellOf[A, S] {
	if raise == repeated {
		return cellOf[A, S]{defined: true, duplicate: true, do: do, next: next}
	}
	return cellOf[A, S]{defined: true, do: do, next: next, raise: raise}
}

// row is a line of the machine: these states and this input, what follows.
type row struct {
	in    []State
	on    Input
	do    Action
	next  State
	raise EventType
}

// stay stands for the state that the row was found in.
const stay = numStates

// repeated marks a row of a message that the peer sent again.
const repeated = EventType(0xff)

// in lists states.
func in(s ...State) []State { return s }

// rows is the machine (C6): all states of both sides. Where IBA and Linux
// leave the two ends in disagreement, the row settles it: whoever gives up says
// so, and a message that fits no connection is answered if it has an answer.
func rows() []row {
	return append(append(setUpRows(), teardownRows()...), otherRows()...)
}

func setUpRows() []row {
	return []row{
		// Active: REQ out, REP in, RTU out.
		{in(Idle), CallREQ, sendREQ, ReqSent, NoEvent},
		{in(ReqSent, MRAReqRcvd), MsgREP, learnREP, RepRcvd, REPReceived},
		{in(ReqSent), MsgMRAREQ, extendTimer, MRAReqRcvd, MRAReceived},
		{in(MRAReqRcvd), MsgMRAREQ, none, stay, repeated},
		{in(ReqSent, MRAReqRcvd), MsgREJ, stop, Idle, REJReceived},
		{in(ReqSent, MRAReqRcvd), MsgREJStale, stop, Timewait, REJReceived},
		{in(ReqSent, MRAReqRcvd), CallREJ, sendREJ, Idle, NoEvent},
		{in(ReqSent, MRAReqRcvd), TimerRetransmit, retransmit, stay, NoEvent},
		{in(ReqSent, MRAReqRcvd), TimerExhausted, rejectTimeout, Idle, REQError},
		{in(ReqSent, MRAReqRcvd), CallDestroy, rejectTimeout, Idle, NoEvent},
		{in(RepRcvd, MRARepSent), CallRTU, sendRTU, Established, NoEvent},
		{in(RepRcvd), CallMRA, sendMRA, MRARepSent, NoEvent},
		{in(RepRcvd), CallMRALater, prepareMRA, MRARepSent, NoEvent},
		{in(RepRcvd, MRARepSent), CallREJ, sendREJ, Idle, NoEvent},
		{in(RepRcvd, MRARepSent), MsgREJ, none, Timewait, REJReceived},
		{in(RepRcvd, MRARepSent), MsgREJStale, none, Timewait, REJReceived},
		{in(RepRcvd), MsgREP, none, stay, repeated},
		{in(MRARepSent), MsgREP, answerMRA, stay, repeated},
		{in(RepRcvd, MRARepSent), CallDestroy, rejectConsumer, Idle, NoEvent},
		{in(Established), MsgREP, resendRTU, stay, repeated},

		// Passive: REQ in, REP out, RTU in.
		{in(Listen), MsgREQ, accept, stay, REQReceived},
		{in(Unknown), MsgREQ, rejectService, stay, NoEvent},
		{in(ReqRcvd), MsgREQ, none, stay, repeated},
		{in(MRAReqSent), MsgREQ, answerMRA, stay, repeated},
		{in(RepSent), MsgREQ, resendREP, stay, repeated},
		{in(MRARepRcvd, Established, DReqSent, DReqRcvd), MsgREQ, none, stay, repeated},
		{in(Timewait), MsgREQ, rejectStale, stay, repeated},
		{in(ReqRcvd), CallMRA, sendMRA, MRAReqSent, NoEvent},
		{in(ReqRcvd), CallMRALater, prepareMRA, MRAReqSent, NoEvent},
		{in(ReqRcvd, MRAReqSent), CallREP, sendREP, RepSent, NoEvent},
		{in(ReqRcvd, MRAReqSent), CallREJ, sendREJ, Idle, NoEvent},
		{in(ReqRcvd, MRAReqSent), CallDestroy, rejectConsumer, Idle, NoEvent},
		{in(ReqRcvd, MRAReqSent), MsgREJ, none, Idle, REJReceived},
		{in(ReqRcvd, MRAReqSent), MsgREJStale, none, Timewait, REJReceived},
		{in(RepSent, MRARepRcvd), MsgRTU, stop, Established, RTUReceived},
		{in(RepSent, MRARepRcvd), CallEstablish, stop, Established, UserEstablished},
		{in(Established), MsgRTU, none, stay, repeated},
		{in(RepSent), MsgMRAREP, extendTimer, MRARepRcvd, MRAReceived},
		{in(MRARepRcvd), MsgMRAREP, none, stay, repeated},
		{in(RepSent, MRARepRcvd), MsgREJ, stop, Idle, REJReceived},
		{in(RepSent, MRARepRcvd), MsgREJStale, stop, Timewait, REJReceived},
		{in(RepSent, MRARepRcvd), MsgDREQ, stop, DReqRcvd, DREQReceived},
		{in(RepSent, MRARepRcvd), CallREJ, sendREJ, Timewait, NoEvent},
		{in(RepSent, MRARepRcvd), CallDestroy, rejectConsumer, Timewait, NoEvent},
		{in(RepSent, MRARepRcvd), TimerRetransmit, retransmit, stay, NoEvent},
		{in(RepSent, MRARepRcvd), TimerExhausted, rejectTimeout, Idle, REPError},
		{in(Unknown), MsgREP, rejectUnknownID, stay, NoEvent},
		{in(Unknown), MsgRTU, rejectUnknownID, stay, NoEvent},
	}
}

func teardownRows() []row {
	return []row{
		{in(Established), CallDREQ, sendDREQ, DReqSent, NoEvent},
		{in(Established), CallDestroy, sendDREQ, DReqSent, NoEvent},
		{in(Established), MsgDREQ, lapStop, DReqRcvd, DREQReceived},
		{in(Established), MsgREJ, lapStop, Timewait, REJReceived},
		{in(Established), MsgREJStale, lapStop, Timewait, REJReceived},
		{in(DReqSent), MsgDREQ, stop, DReqRcvd, DREQReceived},
		{in(DReqSent), MsgDREP, stop, Timewait, DREPReceived},
		{in(DReqSent), MsgREJ, stop, Timewait, REJReceived},
		{in(DReqSent), MsgREJStale, stop, Timewait, REJReceived},
		{in(DReqSent), MsgREP, none, stay, repeated},
		{in(DReqSent), MsgRTU, none, stay, repeated},
		{in(DReqSent), TimerRetransmit, retransmit, stay, NoEvent},
		{in(DReqSent), TimerExhausted, stop, Timewait, DREQError},
		{in(DReqSent), CallDestroy, none, stay, NoEvent},
		{in(DReqRcvd), CallDREP, sendDREP, Timewait, NoEvent},
		{in(DReqRcvd), CallDestroy, sendDREP, Timewait, NoEvent},
		{in(DReqRcvd), MsgDREQ, none, stay, repeated},
		{in(DReqRcvd), MsgDREP, none, Timewait, DREPReceived},
		{in(Timewait), MsgDREQ, resendDREP, stay, repeated},
		{in(Timewait), MsgDREP, none, stay, repeated},
		{in(Timewait), MsgREP, none, stay, repeated},
		{in(Timewait), MsgRTU, resendREJ, stay, repeated},
		{in(Timewait), TimerTimewait, none, Idle, TimewaitExit},
		{in(Timewait), CallDestroy, none, stay, NoEvent},
		{in(Unknown), MsgDREQ, answerDREP, stay, NoEvent},
		{in(Idle), CallDestroy, none, stay, NoEvent},
		{in(Listen), CallDestroy, none, Idle, NoEvent},
	}
}

func otherRows() []row {
	return []row{
		// SIDR (C9).
		{in(Idle), CallSIDRREQ, sendSIDRREQ, SIDRReqSent, NoEvent},
		{in(SIDRReqSent), MsgSIDRREP, stop, Idle, SIDRREPReceived},
		{in(SIDRReqSent), TimerRetransmit, retransmit, stay, NoEvent},
		{in(SIDRReqSent), TimerExhausted, stop, Idle, SIDRREQError},
		{in(SIDRReqSent), CallDestroy, stop, Idle, NoEvent},
		{in(Listen), MsgSIDRREQ, acceptSIDR, stay, SIDRREQReceived},
		{in(Unknown), MsgSIDRREQ, unknownSIDR, stay, NoEvent},
		{in(SIDRReqRcvd), MsgSIDRREQ, none, stay, repeated},
		{in(SIDRReqRcvd), CallSIDRREP, sendSIDRREP, Idle, NoEvent},
		{in(SIDRReqRcvd), CallDestroy, rejectSIDR, Idle, NoEvent},

		// Alternate paths (C10): the table of sub-states decides.
		{in(Established), CallLAP, lap, stay, NoEvent},
		{in(Established), CallAPR, lap, stay, NoEvent},
		{in(Established), CallMRA, lap, stay, NoEvent},
		{in(Established), MsgLAP, lap, stay, NoEvent},
		{in(Established), MsgAPR, lap, stay, NoEvent},
		{in(Established), MsgMRAOther, lap, stay, NoEvent},
		{in(Established), TimerRetransmit, lap, stay, NoEvent},
		{in(Established), TimerExhausted, lap, stay, NoEvent},
	}
}

type lapAction uint8

const (
	lapNone        lapAction = iota
	lapSend                  // LAP, and repeat it; active side only
	lapAnswer                // APR
	lapMRA                   // MRA for the LAP, kept for a repeated one
	lapAgainMRA              // the kept one
	lapLoad                  // note the alternate path of an accepted LAP; stops the timer
	lapNote                  // note the alternate path that is asked for
	lapExtendTimer           // let the timer wait as long as the MRA asks for
	lapRetransmit            // the LAP once more
	lapGiveUp                // stops the timer
	numLAPActions
)

var lapWords = [numLAPActions]string{
	lapNone:        "nothing",
	lapSend:        "send LAP, repeat until answered; active side only",
	lapAnswer:      "send APR",
	lapMRA:         "send MRA",
	lapAgainMRA:    "send MRA again",
	lapLoad:        "wait no more; note the path, if accepted",
	lapNote:        "note the path; passive side only",
	lapExtendTimer: "wait as long as it asks for",
	lapRetransmit:  "send it again",
	lapGiveUp:      "wait no more",
}

// String returns what is done, in words.
func (a lapAction) String() string { return nameOf(lapWords[:], a, "invalid LAP action") }

type lapRow struct {
	in    LAPState
	on    Input
	do    lapAction
	next  LAPState
	raise EventType
}

func lapRows() []lapRow {
	return []lapRow{
		{LAPIdle, CallLAP, lapSend, LAPSent, NoEvent},
		{LAPSent, MsgAPR, lapLoad, LAPIdle, APRReceived},
		{LAPMRARcvd, MsgAPR, lapLoad, LAPIdle, APRReceived},
		{LAPSent, MsgMRAOther, lapExtendTimer, LAPMRARcvd, MRAReceived},
		{LAPMRARcvd, MsgMRAOther, lapNone, LAPMRARcvd, repeated},
		{LAPSent, TimerRetransmit, lapRetransmit, LAPSent, NoEvent},
		{LAPMRARcvd, TimerRetransmit, lapRetransmit, LAPMRARcvd, NoEvent},
		{LAPSent, TimerExhausted, lapGiveUp, LAPIdle, LAPError},
		{LAPMRARcvd, TimerExhausted, lapGiveUp, LAPIdle, LAPError},
		{LAPIdle, MsgLAP, lapNote, LAPRcvd, LAPReceived},
		{LAPRcvd, MsgLAP, lapNone, LAPRcvd, repeated},
		{LAPMRASent, MsgLAP, lapAgainMRA, LAPMRASent, repeated},
		{LAPRcvd, CallMRA, lapMRA, LAPMRASent, NoEvent},
		{LAPRcvd, CallAPR, lapAnswer, LAPIdle, NoEvent},
		{LAPMRASent, CallAPR, lapAnswer, LAPIdle, NoEvent},
	}
}

type (
	table    [numStates][numInputs]cell
	lapTable [numLAPStates][numInputs]lapCell
)

// machine and lapMachine are the rows by state and input. They never change.
var (
	machine    = newTable()
	lapMachine = newLAPTable()
)

func newTable() *table {
	t := new(table)
	for _, r := range rows() {
		for _, s := range r.in {
			next := r.next
			if next == stay {
				next = s
			}
			t[s][r.on] = cellFor(r.do, next, r.raise)
		}
	}
	return t
}

func newLAPTable() *lapTable {
	t := new(lapTable)
	for _, r := range lapRows() {
		t[r.in][r.on] = cellFor(r.do, r.next, r.raise)
	}
	return t
}
