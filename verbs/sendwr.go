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

	CompareAdd uint64 // COMPARE&SWAP: compare; FETCH&ADD: what to add
	Swap       uint64 // COMPARE&SWAP

	AH         *AH  // UD: destination
	EEC        *EEC // RD: the EE context that it goes by
	RemoteQPN  QPN  // UD, RD
	RemoteQKey QKey // UD, RD

	InlineData []byte // payload with SendInline, and only then
}

// put writes the request as the engine of a device takes it. An address handle
// of another device names something else there, or nothing: it counts as none. So
// does an EE context.
func (w *SendWR) put(d *device.Device, wr *ib.SendWR) {
	wr.WRID, wr.SGList, wr.Opcode, wr.Flags, wr.ImmData = w.WRID, w.SGList, w.Opcode, w.Flags, w.ImmData
	wr.InvRKey, wr.RKey, wr.RemoteAddr, wr.CompareAdd, wr.Swap = w.InvRKey, w.RKey, w.RemoteAddr, w.CompareAdd, w.Swap
	wr.RemoteQPN, wr.RemoteQKey, wr.InlineData, wr.AH = w.RemoteQPN, w.RemoteQKey, w.InlineData, 0
	wr.EEC = w.EEC.number(d)
	if w.AH != nil && w.AH.pd != nil && w.AH.pd.dev == d {
		wr.AH = w.AH.h
	}
}
