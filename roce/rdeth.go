package roce

import "encoding/binary"

// RDETH is the extended header of every RD packet (IBA 9.3.1).
//
//	+---------------+-----------------------------------------------+
//	|     Resv      |                  EE context                   |
//	+---------------+-----------------------------------------------+
type RDETH struct {
	Resv uint8
	EEC  uint32 // end-to-end context at the destination, 24 bits
}

func (h *RDETH) decode(b *[4]byte) {
	v := binary.BigEndian.Uint32(b[:])
	h.Resv, h.EEC = uint8(v>>24), v&mask24
}

func (h *RDETH) put(b *[4]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Resv)<<24|h.EEC&mask24)
}

// mask24 keeps the low 24 bits, the width of QP, EE and SRQ numbers and MSNs.
const mask24 = 1<<24 - 1
