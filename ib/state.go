package ib

// QPState is the state of a queue pair.
type QPState uint8

// The states. The device itself enters only SQE and ERR.
const (
	RESET QPState = iota
	INIT
	RTR
	RTS
	SQD
	SQE
	ERR
)

// NumQPStates is the number of states.
const NumQPStates = 7

// QPType is the transport service of a queue pair.
type QPType uint8

// The services. SMI, GSI and RD have no number in the user verbs of
// rdma-core; GSI and SMI have the kernel's, RD one that nothing else uses.
const (
	SMI QPType = 0
	GSI QPType = 1
	RC  QPType = 2
	UC  QPType = 3
	UD  QPType = 4
	RD  QPType = 5
	// EEC is no queue pair but the EE context of reliable datagrams, which has
	// states, attributes and moves of its own in the same tables.
	EEC QPType = 6
)

// MigState is the state of automatic path migration.
type MigState uint8

// The migration states; software sets only MIGRATED and REARM.
const (
	MIGRATED MigState = iota
	REARM
	ARMED
)

// PortState is the logical state of a port.
type PortState uint8

// The port states.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// SigType says which send work requests complete with an entry in the CQ.
type SigType uint8

// Signalling types: each request chooses, or all are signalled.
const (
	SigPerWR SigType = iota
	SigAll
)
