package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// AtomicETH is the extended header of the atomic requests (IBA 9.3.4).
//
//	+---------------------------------------------------------------+
//	|                        Virtual address                        |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             R_Key                             |
//	+---------------------------------------------------------------+
//	|                       Swap or add data                        |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                         Compare data                          |
//	|                                                               |
//	+---------------------------------------------------------------+
type AtomicETH struct {
	VA      uint64
	RKey    ib.RKey
	SwapAdd uint64 // COMPARE_SWAP: the new value; FETCH_ADD: the addend
	Compare uint64 // COMPARE_SWAP: the value to find; FETCH_ADD: sent as 0, ignored
}

func (h *AtomicETH) decode(b *[28]byte) {
	h.VA = binary.BigEndian.Uint64(b[:])
	h.RKey = ib.RKey(binary.BigEndian.Uint32(b[8:]))
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

func (h *AtomicETH) put(b *[28]byte) {
	binary.BigEndian.PutUint64(b[:], h.VA)
	binary.BigEndian.PutUint32(b[8:], uint32(h.RKey))
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}
