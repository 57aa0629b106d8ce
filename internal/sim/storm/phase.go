package storm

import "github.com/softhca/softhca/internal/cm"

// phase is where a program believes that its end of a connection stands, by
// what it said and heard.
type phase uint8

const (
	fresh     phase = iota // nothing was said
	calling                // active: REQ is out
	answered               // active: REP came, and the program owes an answer
	asked                  // passive: REQ came, and the program owes an answer
	offered                // passive: REP is out
	up                     // connected
	leaving                // DREQ is out
	left                   // DREQ came, and the program owes an answer
	quiet                  // over; packets may still be under way
	over                   // over
	resolving              // client: SIDR_REQ is out
	queried                // server: SIDR_REQ came, and the program owes an answer
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
func (p phase) is(st cm.State) bool {
	for _, s := range phaseStates[p] {
		if s == st {
			return true
		}
	}
	return false
}

// waits reports whether the manager will end the phase by itself: it waits for
// the peer, a bounded time.
func (p phase) waits() bool {
	return p == calling || p == offered || p == leaving || p == resolving || p == quiet
}

// owes reports whether the phase lasts until the program decides.
func (p phase) owes() bool { return p == answered || p == asked || p == left || p == queried }

// hearing is an event that may come in a phase, and the phase that follows.
type hearing struct {
	in   phase
	on   cm.EventType
	next phase
}

// hearings are all of them (C3 to C7, C9, C10). After a REJ that calls the
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
// cannot come.
func (p phase) after(on cm.EventType) (phase, bool) {
	for _, h := range hearings {
		if h.in == p && h.on == on {
			return h.next, true
		}
	}
	return p, false
}

// sayings are the calls that a phase allows. Some of them depend on more.
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

// allows reports whether the phase allows a call, at least at times.
func (p phase) allows(call cm.Input) bool {
	for _, c := range sayings[p] {
		if c == call {
			return true
		}
	}
	return false
}
