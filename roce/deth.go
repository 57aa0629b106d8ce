package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// DETH is the datagram extended header, of UD packets and RD requests
// (IBA 9.3.2).
//
//	+---------------------------------------------------------------+
//	|                             Q_Key                             |
//	+---------------+-----------------------------------------------+
//	|     Resv      |                   Source QP                   |
//	+---------------+-----------------------------------------------+
type DETH struct {
	QKey  ib.QKey
	Resv  uint8
	SrcQP ib.QPN
}

func (h *DETH) decode(b *[8]byte) {
	h.QKey = ib.QKey(binary.BigEndian.Uint32(b[:]))
	v := binary.BigEndian.Uint32(b[4:])
	h.Resv, h.SrcQP = uint8(v>>24), ib.QPN(v)&ib.QPNMask
}

func (h *DETH) put(b *[8]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.QKey))
	binary.BigEndian.PutUint32(b[4:], uint32(h.Resv)<<24|uint32(h.SrcQP&ib.QPNMask))
}
