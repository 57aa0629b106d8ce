package roce

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// AETH is the acknowledge extended header (IBA 9.3.5).
//
//	+---------------+-----------------------------------------------+
//	|   Syndrome    |                      MSN                      |
//	+---------------+-----------------------------------------------+
type AETH struct {
	Syndrome Syndrome
	MSN      ib.MSN
}

func (h *AETH) decode(b *[4]byte) {
	v := binary.BigEndian.Uint32(b[:])
	h.Syndrome, h.MSN = Syndrome(v>>24), ib.MSN(v&mask24)
}

func (h *AETH) put(b *[4]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Syndrome)<<24|uint32(h.MSN)&mask24)
}
