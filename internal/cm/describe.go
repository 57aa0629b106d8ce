package cm

// Row is a cell of the machine in words: what an input does in a state.
type Row struct {
	State   string // such as "REQ_SENT", or of an alternate path "LAP_SENT"
	Side    string // the sides that can be in the state: "active", "passive" or "either"
	Meaning string // of the state
	Input   string // such as "REP"; of a call the verb
	Kind    string // of the input: "call", "message" or "timer"; of a channel's, "connection"
	// Outcome is Done, or the reason why nothing happens.
	Outcome Outcome
	// If Outcome is Done:
	Action    string // before the state changes
	Next      string // state
	Event     string // event for the consumer; empty for none
	Duplicate bool   // the message is counted as a repetition by the peer
}

// Outcome is the result of an input.
type Outcome string

// The outcomes. A refused call changes nothing.
const (
	Done         Outcome = "done"
	RefusedState Outcome = "refused: EINVAL"
	RefusedAgain Outcome = "refused: EISCONN"
	Dropped      Outcome = "dropped, counted"
	Impossible   Outcome = "cannot occur"
)

// Walk calls f for every state and input, in the order of State and Input,
// and then for every sub-state of Established and each input that depends on
// it (C6, C10).
//
// In addition to the table, a REQ or REP that names the QP of another connection
// is rejected as stale, and a message from an address other than the peer's, or
// whose fields contradict the connection, is dropped. At the limit of half-open
// connections, the one whose peer has been silent longest gets "retries spent"
// or "timewait over" early.
func Walk(f func(Row)) {
	for s := range numStates {
		for on := range numInputs {
			f(describe(s, on))
		}
	}
	for s := range numLAPStates {
		for on := range numInputs {
			if machine[Established][on].do == lap {
				f(describeLAP(s, on))
			}
		}
	}
}

// WalkChannels does the same for the states and inputs of a reliable datagram
// channel (C14). In addition to the table, the first REQ or REP that names an EE
// context of another channel of the peer is rejected as stale, and one that joins
// must name both EE contexts of a channel of its sender.
func WalkChannels(f func(Row)) {
	for s := range numChannelStates {
		for on := range numChannelInputs {
			w, e := channelStateWords[s], channelMachine[s][on]
			r := Row{State: s.String(), Side: w.side, Meaning: w.meaning, Input: on.String(), Kind: "connection", Outcome: Impossible}
			if e.defined {
				r.Outcome, r.Action, r.Next = Done, e.do.String(), e.next.String()
			}
			f(r)
		}
	}
}

func describe(s State, on Input) Row {
	r := Row{State: s.String(), Side: stateWords[s].side, Meaning: stateWords[s].meaning, Input: on.String(), Kind: on.Kind()}
	e := machine[s][on]
	if !e.defined {
		r.Outcome = whyNot(s, on)
		return r
	}
	r.Outcome, r.Action, r.Next, r.Event, r.Duplicate = Done, e.do.String(), e.next.String(), e.raise.String(), e.duplicate
	return r
}

func describeLAP(s LAPState, on Input) Row {
	r := Row{State: s.String(), Side: lapStateWords[s].side, Meaning: lapStateWords[s].meaning, Input: on.String(), Kind: on.Kind()}
	e := lapMachine[s][on]
	switch {
	case e.defined:
		r.Outcome, r.Action, r.Next, r.Event, r.Duplicate = Done, e.do.String(), e.next.String(), e.raise.String(), e.duplicate
	case on < firstMsg:
		r.Outcome = RefusedState
	case on < firstTimer:
		r.Outcome = Dropped
	default:
		r.Outcome = Impossible // nothing waits for an answer
	}
	return r
}

// whyNot returns what the zero cell of a state and an input means.
func whyNot(s State, on Input) Outcome {
	switch {
	case on >= firstTimer:
		return Impossible // the state does not have this timer
	case on >= firstMsg && !finds(s, on):
		return Impossible // the message never finds a connection in this state
	case on >= firstMsg:
		return Dropped
	case s == Listen || s == Unknown:
		return Impossible // there is no connection whose verb could be called
	case s == Established && on == CallEstablish:
		return RefusedAgain
	default:
		return RefusedState
	}
}

// finds reports whether a message can belong to something in a state. A
// listener gets only requests. A connection in Idle gets nothing, and a
// resolution only its own request: no peer knows their IDs. A REQ finds a
// connection by the ID of its peer, once that is known.
func finds(s State, on Input) bool {
	switch s {
	case Idle:
		return false
	case Listen:
		return on == MsgREQ || on == MsgSIDRREQ
	case SIDRReqRcvd:
		return on == MsgSIDRREQ
	case ReqSent, MRAReqRcvd, SIDRReqSent:
		return on != MsgREQ && on != MsgSIDRREQ
	case Unknown:
		return true
	default:
		return on != MsgSIDRREQ
	}
}

type words struct{ side, meaning string }

const (
	active  = "active"
	passive = "passive"
	either  = "either"
)

var stateWords = [numStates]words{
	Idle:        {either, "no connection yet, or no longer"},
	Listen:      {passive, "a listener"},
	ReqSent:     {active, "waits for REP"},
	ReqRcvd:     {passive, "the consumer decides"},
	MRAReqSent:  {passive, "the consumer decides; an MRA makes the peer wait"},
	MRAReqRcvd:  {active, "waits for REP; the peer sent an MRA"},
	RepSent:     {passive, "waits for RTU"},
	RepRcvd:     {active, "the consumer moves its QP to RTS"},
	MRARepSent:  {active, "the consumer moves its QP to RTS; an MRA makes the peer wait"},
	MRARepRcvd:  {passive, "waits for RTU; the peer sent an MRA"},
	Established: {either, "connected"},
	DReqSent:    {either, "waits for DREP"},
	DReqRcvd:    {either, "the peer waits for DREP"},
	Timewait:    {either, "packets of the connection may still arrive"},
	SIDRReqSent: {active, "waits for SIDR_REP"},
	SIDRReqRcvd: {passive, "the consumer decides"},
	Unknown:     {either, "answers messages that belong to no connection"},
}

var channelStateWords = [numChannelStates]words{
	ChannelOpening: {either, "the first connection of a reliable datagram channel is being set up"},
	ChannelUp:      {either, "connections use it, and others may join them"},
	ChannelDown:    {either, "no connection uses it; packets may still arrive"},
	ChannelOver:    {either, "its EE context may serve another channel"},
}

var lapStateWords = [numLAPStates]words{
	LAPIdle:    {either, "no alternate path is being loaded"},
	LAPSent:    {active, "waits for APR"},
	LAPRcvd:    {passive, "the consumer decides"},
	LAPMRASent: {passive, "the consumer decides; an MRA makes the peer wait"},
	LAPMRARcvd: {active, "waits for APR; the peer sent an MRA"},
}
