package roce

import "encoding/binary"

// Bits of FETH.Placement, with the values of IBV_FLUSH_GLOBAL and
// IBV_FLUSH_PERSISTENT.
const (
	PlacementGlobal      uint8 = 1 << 0 // visible to everyone at the responder
	PlacementPersistence uint8 = 1 << 1 // kept across a power loss
)

// Values of FETH.Selectivity, with those of IBV_FLUSH_RANGE and IBV_FLUSH_MR.
const (
	SelectRange  uint8 = 0 // the range of the RETH
	SelectRegion uint8 = 1 // the whole memory region of the R_Key
)

// FETH is the extended header of FLUSH (IBA annex A19).
//
//	+---------------------------------------------------+---+-------+
//	|                         Resv                      |SEL|  PLT  |
//	+---------------------------------------------------+---+-------+
type FETH struct {
	Placement   uint8  // PLT: 4 bits
	Selectivity uint8  // SEL: 2 bits
	Resv        uint32 // 26 bits
}

func (h *FETH) decode(b *[4]byte) {
	v := binary.BigEndian.Uint32(b[:])
	h.Placement, h.Selectivity, h.Resv = uint8(v&0x0f), uint8(v>>4&3), v>>6
}

func (h *FETH) put(b *[4]byte) {
	binary.BigEndian.PutUint32(b[:], h.Resv<<6|uint32(h.Selectivity&3)<<4|uint32(h.Placement&0x0f))
}
