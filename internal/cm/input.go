package cm

import "github.com/softhca/softhca/mad"

// Input is an input of the machine: a call of the consumer, a message or a
// timer.
type Input uint8

// The inputs. A message has one input for each kind that is handled
// differently.
const (
	CallREQ       Input = iota // SendREQ
	CallREP                    // SendREP
	CallRTU                    // SendRTU
	CallREJ                    // SendREJ
	CallMRA                    // SendMRA: sent at once
	CallMRALater               // PrepareMRA: sent when the peer repeats its message
	CallEstablish              // Establish: data arrived before RTU (COMM_EST)
	CallDREQ                   // SendDREQ
	CallDREP                   // SendDREP
	CallLAP                    // SendLAP
	CallAPR                    // SendAPR
	CallSIDRREQ                // SendSIDRREQ
	CallSIDRREP                // SendSIDRREP
	CallDestroy                // Destroy

	MsgREQ      // for a connection: a repeated REQ
	MsgMRAREQ   // MRA for REQ
	MsgMRAREP   // MRA for REP
	MsgMRAOther // MRA for LAP
	MsgREJ      // REJ with any reason but stale
	MsgREJStale // REJ with reason stale connection
	MsgREP
	MsgRTU
	MsgDREQ
	MsgDREP
	MsgLAP
	MsgAPR
	MsgSIDRREQ
	MsgSIDRREP

	TimerRetransmit // no answer in time: repetitions are left
	TimerExhausted  // no answer in time: none is left
	TimerTimewait   // the time in Timewait is over
	numInputs
)

const (
	firstMsg   = MsgREQ
	firstTimer = TimerRetransmit
)

// messageOf is the message that an input is about.
var messageOf = [firstTimer]mad.AttrID{
	MsgREQ: mad.AttrREQ, MsgMRAREQ: mad.AttrMRA, MsgMRAREP: mad.AttrMRA, MsgMRAOther: mad.AttrMRA,
	MsgREJ: mad.AttrREJ, MsgREJStale: mad.AttrREJ, MsgREP: mad.AttrREP, MsgRTU: mad.AttrRTU,
	MsgDREQ: mad.AttrDREQ, MsgDREP: mad.AttrDREP, MsgLAP: mad.AttrLAP, MsgAPR: mad.AttrAPR,
	MsgSIDRREQ: mad.AttrSIDRREQ, MsgSIDRREP: mad.AttrSIDRREP,
}

var inputNames = [numInputs]string{
	"send REQ", "send REP", "send RTU", "send REJ", "send MRA", "prepare MRA", "establish", "send DREQ", "send DREP",
	"send LAP", "send APR", "send SIDR_REQ", "send SIDR_REP", "destroy",
	"REQ", "MRA(REQ)", "MRA(REP)", "MRA(other)", "REJ", "REJ(stale)", "REP", "RTU", "DREQ", "DREP",
	"LAP", "APR", "SIDR_REQ", "SIDR_REP",
	"timer, retry", "timer, retries spent", "timer, timewait over",
}

// String returns the name: of calls a verb, of messages their name.
func (i Input) String() string { return nameOf(inputNames[:], i, "invalid input") }

// Kind returns "call", "message" or "timer".
func (i Input) Kind() string {
	switch {
	case i < firstMsg:
		return "call"
	case i < firstTimer:
		return "message"
	default:
		return "timer"
	}
}
