package roce

import "encoding/binary"

// XRCETH is the extended header of XRC requests, directly after the BTH
// (IBA annex A14).
//
//	+---------------+-----------------------------------------------+
//	|     Resv      |                   XRC SRQ                     |
//	+---------------+-----------------------------------------------+
type XRCETH struct {
	Resv uint8
	SRQN uint32 // shared receive queue at the destination, 24 bits
}

func (h *XRCETH) decode(b *[4]byte) {
	v := binary.BigEndian.Uint32(b[:])
	h.Resv, h.SRQN = uint8(v>>24), v&mask24
}

func (h *XRCETH) put(b *[4]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Resv)<<24|h.SRQN&mask24)
}
