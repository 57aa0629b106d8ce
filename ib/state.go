package ib

// QPState is the state of a queue pair.
type QPState uint8

// The states. The device itself enters only SQE and ERR.
const (
	RESET QPState = iota // as created; the only state from which INIT is reached
	INIT                 // receives may be posted, but nothing is received or sent
	RTR                  // ready to receive: answers the peer, but sends no requests
	RTS                  // ready to send: works in both directions
	SQD                  // send queue drained: finishes what is begun, begins nothing new
	SQE                  // send queue error of UC and UD: sends are flushed, receives work
	ERR                  // every work request completes with WR_FLUSH_ERR
)

// NumQPStates is the number of states.
const NumQPStates = 7

// QPType is the transport service of a queue pair.
type QPType uint8

// The services. SMI, GSI and RD have no number in the user verbs of
// rdma-core; GSI and SMI have the kernel's, and RD has an unused number. The
// others have the values of enum ibv_qp_type.
const (
	SMI QPType = 0 // QP0; RoCE has none
	GSI QPType = 1 // QP1, which the adapter keeps to itself
	RC  QPType = 2 // reliable connection
	UC  QPType = 3 // unreliable connection
	UD  QPType = 4 // unreliable datagram
	RD  QPType = 5 // reliable datagram
	// EEC is no queue pair but the EE context of reliable datagrams, which has
	// states, attributes and moves of its own in the same tables.
	EEC QPType = 6
	// The two ends of an extended reliable connection (XRC).
	XRCIni QPType = 9  // initiator: sends to the shared receive queues of the target's domain
	XRCTgt QPType = 10 // target: receives into the shared receive queue that each request names
)

// MigState is the state of automatic path migration.
type MigState uint8

// The migration states; software sets only MIGRATED and REARM.
const (
	MIGRATED MigState = iota // on the path in use; no alternate path is armed
	REARM                    // asks the peer to arm the alternate path
	ARMED                    // both sides may migrate to the alternate path
)

// PortState is the logical state of a port.
type PortState uint8

// The port states.
const (
	PortNop         PortState = iota // no state
	PortDown                         // no link
	PortInit                         // link, not configured
	PortArmed                        // configured, not yet active
	PortActive                       // carries data
	PortActiveDefer                  // active, link failing
)

// SigType says which send work requests complete with an entry in the CQ.
type SigType uint8

// Signalling types: each request chooses, or all are signalled.
const (
	SigPerWR SigType = iota // those with SendSignaled
	SigAll                  // all of them
)
