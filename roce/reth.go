package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// RETH is the RDMA extended header: where a WRITE, READ, FLUSH or ATOMIC
// WRITE goes in the responder's memory (IBA 9.3.3).
//
//	+---------------------------------------------------------------+
//	|                        Virtual address                        |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                          DMA length                           |
//	+---------------------------------------------------------------+
type RETH struct {
	VA     uint64
	RKey   ib.RKey
	Length uint32 // bytes of the whole message
}

func (h *RETH) decode(b *[16]byte) {
	h.VA = binary.BigEndian.Uint64(b[:])
	h.RKey = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	h.Length = binary.BigEndian.Uint32(b[12:])
}

func (h *RETH) put(b *[16]byte) {
	binary.BigEndian.PutUint64(b[:], h.VA)
	binary.BigEndian.PutUint32(b[8:], uint32(h.RKey))
	binary.BigEndian.PutUint32(b[12:], h.Length)
}
