package ring

import "github.com/softhca/softhca/ib"

// SendWQE is an entry of a send queue. Its gather elements stand in an array
// beside the ring, its inline payload in another.
type SendWQE struct {
	WRID       uint64
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	Length     uint32 // bytes of payload; of a READ, bytes asked for
	RKey       ib.RKey
	Imm        uint32 // immediate data, or the rkey to invalidate
	AH         ib.AHHandle
	RemoteQPN  ib.QPN
	RemoteQKey ib.QKey
	FirstPSN   ib.PSN // set when sending begins
	LastPSN    ib.PSN
	SSN        uint32 // send sequence number: messages begun, this one included
	Opcode     ib.WROpcode
	Flags      ib.SendFlags
	NumSGE     uint8
	Status     ib.WCStatus // a local error found while sending, else SUCCESS
}

// RecvWQE is an entry of a receive queue. Its scatter elements stand in an
// array beside the ring.
type RecvWQE struct {
	WRID   uint64
	Length uint32 // bytes that the scatter elements hold
	NumSGE uint32
}
