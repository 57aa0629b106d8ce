package verbs

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// SendWR is a send work request. Posting copies it whole: the caller may
// reuse it, its SGList and its InlineData at once; the memory that SGList
// names belongs to the adapter until the request completes.
//
// An ATOMIC WRITE has 8 bytes of payload, in its SGList or inline, for an address that is a
// multiple of 8. They are written as they are: a reader at the peer sees the old bytes or the
// new ones, never a mixture. A FLUSH has no payload. Both exist on RC, are answered by the peer
// like a READ, and count as one towards MaxRDAtomic; with 0 PostSend returns EINVAL. The peer
// executes both, READs and atomics in order. A later SEND or WRITE may be executed before them,
// unless it has the flag SendFence.
type SendWR struct {
	WRID       uint64
	SGList     []SGE
	Opcode     WROpcode
	Flags      SendFlags
	ImmData    uint32 // immediate, host order; big-endian on the wire
	InvRKey    RKey   // SEND with invalidate, LOCAL_INV: the key to invalidate
	RKey       RKey   // RDMA, atomics and FLUSH
	RemoteAddr uint64 // RDMA, atomics and FLUSH

	CompareAdd uint64 // COMPARE&SWAP: the value to compare; FETCH&ADD: the value to add
	Swap       uint64 // COMPARE&SWAP
	Flush      Flush  // FLUSH

	AH         *AH  // UD: destination
	EEC        *EEC // RD: the EE context to send over
	RemoteQPN  QPN  // UD, RD
	RemoteQKey QKey // UD, RD
	RemoteSRQN SRQN // XRC: the shared receive queue at the target, for RDMA and atomics too

	InlineData []byte // payload with SendInline, and only then

	Bind *MWBind // BIND_MW: what it binds to a window of type 2
}

// put converts the request to the form of a device's engine. An address handle or
// EE context of another device counts as none: its number means another object, or
// none, on this device.
func (w *SendWR) put(d *device.Device, wr *ib.SendWR) {
	wr.WRID, wr.SGList, wr.Opcode, wr.Flags, wr.ImmData = w.WRID, w.SGList, w.Opcode, w.Flags, w.ImmData
	wr.InvRKey, wr.RKey, wr.RemoteAddr, wr.CompareAdd, wr.Swap = w.InvRKey, w.RKey, w.RemoteAddr, w.CompareAdd, w.Swap
	wr.Flush = w.Flush
	wr.RemoteQPN, wr.RemoteQKey, wr.InlineData, wr.AH = w.RemoteQPN, w.RemoteQKey, w.InlineData, 0
	wr.EEC, wr.RemoteSRQN = w.EEC.number(d), w.RemoteSRQN
	if w.AH != nil && w.AH.pd != nil && w.AH.pd.dev == d {
		wr.AH = w.AH.h
	}
}
