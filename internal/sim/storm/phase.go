package storm

import (
	"slices"

	"github.com/softhca/softhca/internal/cm"
)

// phase is the state of a connection as its program sees it, from its calls and
// events.
type phase uint8

const (
	fresh     phase = iota // nothing sent or received
	calling                // active: REQ sent
	answered               // active: REP received, the program must answer
	asked                  // passive: REQ received, the program must answer
	offered                // passive: REP sent
	up                     // connected
	leaving                // DREQ sent
	left                   // DREQ received, the program must answer
	quiet                  // over; packets may still be in the network
	over                   // over
	resolving              // client: SIDR_REQ sent
	queried                // server: SIDR_REQ received, the program must answer
	numPhases
)

var phaseNames = [numPhases]string{
	"fresh", "calling", "answered", "asked", "offered", "up", "leaving", "left", "quiet", "over", "resolving", "queried",
}

// String returns the name, such as "calling".
func (p phase) String() string { return phaseNames[p] }

// phaseStates are the states that a connection may be in during a phase.
var phaseStates = [numPhases][]cm.State{
	fresh:     {cm.Idle},
	calling:   {cm.ReqSent, cm.MRAReqRcvd},
	answered:  {cm.RepRcvd, cm.MRARepSent},
	asked:     {cm.ReqRcvd, cm.MRAReqSent},
	offered:   {cm.RepSent, cm.MRARepRcvd},
	up:        {cm.Established},
	leaving:   {cm.DReqSent},
	left:      {cm.DReqRcvd},
	quiet:     {cm.Timewait},
	over:      {cm.Idle},
	resolving: {cm.SIDRReqSent},
	queried:   {cm.SIDRReqRcvd},
}

// is reports whether a connection in a state is in the phase.
func (p phase) is(st cm.State) bool { return slices.Contains(phaseStates[p], st) }

// waits reports whether the manager ends the phase by itself: it waits for the
// peer for a bounded time.
func (p phase) waits() bool {
	return p == calling || p == offered || p == leaving || p == resolving || p == quiet
}

// owes reports whether the phase lasts until the program decides.
func (p phase) owes() bool { return p == answered || p == asked || p == left || p == queried }

// hearing is an event that may occur in a phase, and the following phase.
type hearing struct {
	in   phase
	on   cm.EventType
	next phase
}

// hearings lists all of them (C3 to C7, C9, C10). After a REJ that calls the
// connection stale, quiet follows in place of over.
var hearings = [...]hearing{
	{calling, cm.REPReceived, answered},
	{calling, cm.MRAReceived, calling},
	{calling, cm.REJReceived, over},
	{calling, cm.REQError, over},
	{answered, cm.REJReceived, quiet},
	{asked, cm.REJReceived, over},
	{offered, cm.RTUReceived, up},
	{offered, cm.UserEstablished, up},
	{offered, cm.MRAReceived, offered},
	{offered, cm.REJReceived, over},
	{offered, cm.DREQReceived, left},
	{offered, cm.REPError, over},
	{up, cm.DREQReceived, left},
	{up, cm.REJReceived, quiet},
	{up, cm.LAPReceived, up},
	{up, cm.APRReceived, up},
	{up, cm.MRAReceived, up},
	{up, cm.LAPError, up},
	{leaving, cm.DREQReceived, left},
	{leaving, cm.DREPReceived, quiet},
	{leaving, cm.REJReceived, quiet},
	{leaving, cm.DREQError, quiet},
	{left, cm.DREPReceived, quiet},
	{quiet, cm.TimewaitExit, over},
	{resolving, cm.SIDRREPReceived, over},
	{resolving, cm.SIDRREQError, over},
}

// after returns the phase that follows an event, and false for an event that
// cannot occur.
func (p phase) after(on cm.EventType) (phase, bool) {
	for _, h := range hearings {
		if h.in == p && h.on == on {
			return h.next, true
		}
	}
	return p, false
}

// sayings are the calls that a phase allows. Some have further conditions.
var sayings = [numPhases][]cm.Input{
	calling:  {cm.CallREJ},
	answered: {cm.CallRTU, cm.CallREJ, cm.CallMRA, cm.CallMRALater},
	asked:    {cm.CallREP, cm.CallREJ, cm.CallMRA, cm.CallMRALater},
	offered:  {cm.CallREJ, cm.CallEstablish},
	up:       {cm.CallDREQ, cm.CallLAP, cm.CallAPR, cm.CallMRA},
	left:     {cm.CallDREP},
	queried:  {cm.CallSIDRREP},
	over:     {cm.CallREQ, cm.CallSIDRREQ},
}

// allows reports whether the phase allows a call, at least sometimes.
func (p phase) allows(call cm.Input) bool { return slices.Contains(sayings[p], call) }
