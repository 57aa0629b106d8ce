package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// BTHLen is the size of the base transport header in bytes.
const BTHLen = 12

// BTH is the base transport header, the first of every packet (IBA 9.2).
//
//	 0               1               2               3
//	 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
//	+---------------+-+-+---+-------+-------------------------------+
//	|    Opcode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B|   Resv6   |               Destination QP                  |
//	+-+-+-----------+-----------------------------------------------+
//	|A|    Resv7    |                     PSN                       |
//	+-+-------------+-----------------------------------------------+
//
// The whole byte with FECN and BECN is outside the ICRC, because switches may
// change it; reserved bits are sent as zero, ignored on receipt and kept, so
// that a parsed packet can be rebuilt exactly.
type BTH struct {
	Opcode Opcode
	SE     bool    // S: solicited event
	MigReq bool    // M: migration state; adapters send 1 when MIGRATED
	PadCnt uint8   // bytes of padding after the payload, 0 to 3
	TVer   uint8   // transport version, 0; 4 bits
	PKey   ib.PKey // partition key
	FECN   bool    // F: the packet met congestion
	BECN   bool    // B: the packets of this QP met congestion at the peer
	Resv6  uint8   // 6 bits
	DestQP ib.QPN
	AckReq bool  // A: the requester wants an acknowledge
	Resv7  uint8 // 7 bits
	PSN    ib.PSN
}

// decode sets every field from the bytes.
func (h *BTH) decode(b *[BTHLen]byte) {
	flags := b[1]
	h.Opcode = Opcode(b[0])
	h.SE = flags&0x80 != 0
	h.MigReq = flags&0x40 != 0
	h.PadCnt = flags >> 4 & 3
	h.TVer = flags & 0x0f
	h.PKey = ib.PKey(binary.BigEndian.Uint16(b[2:]))
	qp := binary.BigEndian.Uint32(b[4:])
	h.FECN = qp&(1<<31) != 0
	h.BECN = qp&(1<<30) != 0
	h.Resv6 = uint8(qp >> 24 & 0x3f)
	h.DestQP = ib.QPN(qp) & ib.QPNMask
	psn := binary.BigEndian.Uint32(b[8:])
	h.AckReq = psn&(1<<31) != 0
	h.Resv7 = uint8(psn >> 24 & 0x7f)
	h.PSN = ib.NewPSN(psn)
}

// put writes the header; bits of a field beyond its width are dropped.
func (h *BTH) put(b *[BTHLen]byte) {
	b[0] = byte(h.Opcode)
	b[1] = bit(h.SE)<<7 | bit(h.MigReq)<<6 | h.PadCnt&3<<4 | h.TVer&0x0f
	binary.BigEndian.PutUint16(b[2:], uint16(h.PKey))
	binary.BigEndian.PutUint32(b[4:], uint32(h.DestQP&ib.QPNMask)|
		uint32(bit(h.FECN)<<7|bit(h.BECN)<<6|h.Resv6&0x3f)<<24)
	binary.BigEndian.PutUint32(b[8:], h.PSN.Value()|uint32(bit(h.AckReq)<<7|h.Resv7&0x7f)<<24)
}

// bit returns 1 for true; the compiler makes it a single instruction.
func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}
