package verbs

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// SendWR is a send work request. Posting copies it whole: the caller may
// reuse it, its SGList and its InlineData at once; the memory that SGList
// names belongs to the adapter until the request completes.
type SendWR struct {
	WRID       uint64
	SGList     []SGE
	Opcode     WROpcode
	Flags      SendFlags
	ImmData    uint32 // immediate, host order; big-endian on the wire
	InvRKey    RKey   // SEND with invalidate
	RKey       RKey   // RDMA and atomics
	RemoteAddr uint64 // RDMA and atomics

	CompareAdd uint64 // COMPARE&SWAP: the value to compare; FETCH&ADD: the value to add
	Swap       uint64 // COMPARE&SWAP

	AH         *AH  // UD: destination
	EEC        *EEC // RD: the EE context to send over
	RemoteQPN  QPN  // UD, RD
	RemoteQKey QKey // UD, RD
	RemoteSRQN SRQN // XRC: the shared receive queue at the target, for RDMA and atomics too

	InlineData []byte // payload with SendInline, and only then
}

// put converts the request to the form of a device's engine. An address handle or
// EE context of another device counts as none: its number means another object, or
// none, on this device.
func (w *SendWR) put(d *device.Device, wr *ib.SendWR) {
	wr.WRID, wr.SGList, wr.Opcode, wr.Flags, wr.ImmData = w.WRID, w.SGList, w.Opcode, w.Flags, w.ImmData
	wr.InvRKey, wr.RKey, wr.RemoteAddr, wr.CompareAdd, wr.Swap = w.InvRKey, w.RKey, w.RemoteAddr, w.CompareAdd, w.Swap
	wr.RemoteQPN, wr.RemoteQKey, wr.InlineData, wr.AH = w.RemoteQPN, w.RemoteQKey, w.InlineData, 0
	wr.EEC, wr.RemoteSRQN = w.EEC.number(d), w.RemoteSRQN
	if w.AH != nil && w.AH.pd != nil && w.AH.pd.dev == d {
		wr.AH = w.AH.h
	}
}
