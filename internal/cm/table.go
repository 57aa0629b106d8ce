package cm

// Action is the action of a machine cell, executed before the state changes.
type Action uint8

// The actions. Each is a method in action.go. An action leaves the timer as it
// is unless its comment says otherwise.
const (
	none            Action = iota
	accept                 // create a connection for a REQ, or refuse it
	acceptSIDR             // the same for SIDR_REQ
	sendREQ                // and repeat it
	sendREP                // and repeat it
	resendREP              // the REP that waits for RTU; the timer is unchanged
	sendRTU                // and keep it for a repeated REP
	resendRTU              // the kept one
	sendMRA                // and keep it for a repeated REQ or REP
	answerMRA              // the kept MRA, or the one that was prepared
	prepareMRA             // keep its fields
	sendREJ                // as the consumer specifies; stops the timer
	rejectTimeout          // REJ, reason timeout, naming this node; stops the timer
	rejectConsumer         // REJ, reason consumer reject; stops the timer
	rejectStale            // REJ, reason stale connection
	resendREJ              // the stored REJ, if the connection ended with one
	rejectUnknownID        // REJ, reason invalid communication ID, to a REP or RTU without a connection
	rejectService          // REJ, reason invalid service ID
	sendDREQ               // and repeat it
	sendDREP               // and keep it for a repeated DREQ; stops the timer
	resendDREP             // the kept one, or an empty one
	answerDREP             // DREP to a DREQ without a connection
	learnREP               // check and store it; stops the timer
	extendTimer            // extend the timer as the MRA requests
	retransmit             // repeat the unanswered message
	stop                   // stop the timer
	sendSIDRREQ            // and repeat it
	sendSIDRREP            // there is no timer to stop
	rejectSIDR             // SIDR_REP, rejected by the service provider
	unknownSIDR            // SIDR_REP, service ID not supported
	lap                    // the table of sub-states decides
	lapStop                // abort the loading of an alternate path; stops the timer
	numActions
)

var actionWords = [numActions]string{
	none:            "nothing",
	accept:          "create a connection, or reject it",
	acceptSIDR:      "create a resolution, or drop it",
	sendREQ:         "send REQ, repeat until answered",
	sendREP:         "send REP, repeat until answered",
	resendREP:       "send REP again",
	sendRTU:         "send RTU",
	resendRTU:       "send RTU again",
	sendMRA:         "send MRA",
	answerMRA:       "send the MRA again, or the prepared one",
	prepareMRA:      "prepare an MRA for repetitions",
	sendREJ:         "send REJ with the consumer's reason",
	rejectTimeout:   "send REJ: timeout",
	rejectConsumer:  "send REJ: consumer reject",
	rejectStale:     "send REJ: stale connection",
	resendREJ:       "send REJ again if a REJ ended it",
	rejectUnknownID: "send REJ: invalid communication ID",
	rejectService:   "send REJ: invalid service ID",
	sendDREQ:        "send DREQ, repeat until answered",
	sendDREP:        "send DREP",
	resendDREP:      "send DREP",
	answerDREP:      "send DREP",
	learnREP:        "accept the attributes, or reject it",
	extendTimer:     "extend the timer as it requests",
	retransmit:      "repeat the message",
	stop:            "stop the timer",
	sendSIDRREQ:     "send SIDR_REQ, repeat until answered",
	sendSIDRREP:     "send SIDR_REP",
	rejectSIDR:      "send SIDR_REP: rejected",
	unknownSIDR:     "send SIDR_REP: unsupported service ID",
	lap:             "see the sub-state",
	lapStop:         "stop the timer, abort LAP",
}

// String returns what is done, in words.
func (a Action) String() string { return nameOf(actionWords[:], a, "invalid action") }

// machineOf holds the reactions of a machine by state and input. It never changes.
type machineOf[A, S, I ~uint8] [][]cellOf[A, S]

// cellOf is the reaction to an input in a state. A zero cell means an error for
// a call, a counted drop for a message, and a bug for a timer.
type cellOf[A, S ~uint8] struct {
	defined   bool
	duplicate bool // counted as a repetition by the peer
	do        A
	next      S
	raise     EventType
}

// rowOf is a line of a machine: the reaction of these states to this input.
type rowOf[A, S, I ~uint8] struct {
	in    []S
	on    I
	do    A
	next  S
	raise EventType
}

type (
	row    = rowOf[Action, State, Input]
	lapRow = rowOf[lapAction, LAPState, Input] // in a sub-state of Established
)

// newMachine returns the machine with these rows.
func newMachine[A, S, I ~uint8](states S, inputs I, rows []rowOf[A, S, I]) machineOf[A, S, I] {
	m := make(machineOf[A, S, I], states)
	for i := range m {
		m[i] = make([]cellOf[A, S], inputs)
	}
	for _, r := range rows {
		for _, s := range r.in {
			c := cellOf[A, S]{defined: true, do: r.do, next: r.next, raise: r.raise}
			if c.next == stay {
				c.next = s
			}
			if c.raise == repeated {
				c.raise, c.duplicate = NoEvent, true
			}
			m[s][r.on] = c
		}
	}
	return m
}

// stay means that the state does not change.
const stay = 0xff

// repeated marks a row of a message that the peer sent again.
const repeated = EventType(0xff)

// in lists states.
func in[S ~uint8](s ...S) []S { return s }

// rows is the machine (C6): all states of both sides. Where IBA and Linux can
// leave the two ends in different states, the rows resolve that: a side that
// gives up sends a message, and a message without a connection is answered if
// an answer to it exists.
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
	lapLoad                  // store the alternate path of an accepted LAP; stops the timer
	lapNote                  // store the requested alternate path
	lapExtendTimer           // extend the timer as the MRA requests
	lapRetransmit            // repeat the LAP
	lapGiveUp                // stops the timer
	numLAPActions
)

var lapWords = [numLAPActions]string{
	lapNone:        "nothing",
	lapSend:        "send LAP, repeat until answered; active side only",
	lapAnswer:      "send APR",
	lapMRA:         "send MRA",
	lapAgainMRA:    "send MRA again",
	lapLoad:        "stop the timer; note the path if accepted",
	lapNote:        "note the path; passive side only",
	lapExtendTimer: "extend the timer as it requests",
	lapRetransmit:  "repeat the message",
	lapGiveUp:      "stop the timer",
}

// String returns what is done, in words.
func (a lapAction) String() string { return nameOf(lapWords[:], a, "invalid LAP action") }

func lapRows() []lapRow {
	return []lapRow{
		{in(LAPIdle), CallLAP, lapSend, LAPSent, NoEvent},
		{in(LAPSent), MsgAPR, lapLoad, LAPIdle, APRReceived},
		{in(LAPMRARcvd), MsgAPR, lapLoad, LAPIdle, APRReceived},
		{in(LAPSent), MsgMRAOther, lapExtendTimer, LAPMRARcvd, MRAReceived},
		{in(LAPMRARcvd), MsgMRAOther, lapNone, stay, repeated},
		{in(LAPSent, LAPMRARcvd), TimerRetransmit, lapRetransmit, stay, NoEvent},
		{in(LAPSent, LAPMRARcvd), TimerExhausted, lapGiveUp, LAPIdle, LAPError},
		{in(LAPIdle), MsgLAP, lapNote, LAPRcvd, LAPReceived},
		{in(LAPRcvd), MsgLAP, lapNone, stay, repeated},
		{in(LAPMRASent), MsgLAP, lapAgainMRA, stay, repeated},
		{in(LAPRcvd), CallMRA, lapMRA, LAPMRASent, NoEvent},
		{in(LAPRcvd, LAPMRASent), CallAPR, lapAnswer, LAPIdle, NoEvent},
	}
}

var (
	machine    = newMachine(numStates, numInputs, rows())
	lapMachine = newMachine(numLAPStates, numInputs, lapRows())
)
