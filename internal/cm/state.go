package cm

// State is the state of a connection (C6). The values are those of Linux.
type State uint8

// The states. SIDR resolutions are connections too.
const (
	Idle        State = iota // not started, or over
	Listen                   // a listener: answers REQ and SIDR_REQ for its service
	ReqSent                  // active: waits for REP
	ReqRcvd                  // passive: the consumer decides
	MRAReqSent               // passive: the consumer decides; MRA sent or prepared
	MRAReqRcvd               // active: waits for REP, longer
	RepSent                  // passive: waits for RTU
	RepRcvd                  // active: the consumer prepares its QP
	MRARepSent               // active: the same; MRA sent or prepared
	MRARepRcvd               // passive: waits for RTU, longer
	Established              // both sides
	DReqSent                 // waits for DREP
	DReqRcvd                 // the consumer must send DREP
	Timewait                 // packets of the connection may still be in the network
	SIDRReqSent              // client: waits for SIDR_REP
	SIDRReqRcvd              // server: the consumer decides
	// Unknown is not a state of a connection: its rows handle messages without
	// a connection.
	Unknown
	numStates
)

var stateNames = [numStates]string{
	"IDLE", "LISTEN", "REQ_SENT", "REQ_RCVD", "MRA_REQ_SENT", "MRA_REQ_RCVD", "REP_SENT", "REP_RCVD",
	"MRA_REP_SENT", "MRA_REP_RCVD", "ESTABLISHED", "DREQ_SENT", "DREQ_RCVD", "TIMEWAIT",
	"SIDR_REQ_SENT", "SIDR_REQ_RCVD", "UNKNOWN",
}

// String returns the name, such as "REQ_SENT".
func (s State) String() string { return nameOf(stateNames[:], s, "invalid state") }

// LAPState is the sub-state of Established: the loading of an alternate path
// (C10).
type LAPState uint8

// The sub-states of Established.
const (
	LAPIdle    LAPState = iota // none is under way
	LAPSent                    // active: waits for APR
	LAPRcvd                    // passive: the consumer decides
	LAPMRASent                 // passive: the consumer decides; MRA sent
	LAPMRARcvd                 // active: waits for APR, longer
	numLAPStates
)

var lapNames = [numLAPStates]string{"LAP_IDLE", "LAP_SENT", "LAP_RCVD", "LAP_MRA_SENT", "LAP_MRA_RCVD"}

// String returns the name, such as "LAP_SENT".
func (s LAPState) String() string { return nameOf(lapNames[:], s, "invalid LAP state") }

// Role is the side of a connection.
type Role uint8

// The sides.
const (
	Active  Role = iota // sent REQ or SIDR_REQ
	Passive             // received it
)

// String returns "active" or "passive".
func (r Role) String() string {
	if r == Active {
		return "active"
	}
	return "passive"
}

// nameOf returns the entry of a table of names, or otherwise for a value beyond
// the table.
func nameOf[V ~uint8](names []string, v V, otherwise string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return otherwise
}
