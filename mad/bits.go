package mad

import "encoding/binary"

const (
	mask2         = 1<<2 - 1
	mask3         = 1<<3 - 1
	mask4         = 1<<4 - 1
	mask5         = 1<<5 - 1
	mask6         = 1<<6 - 1
	mask24        = 1<<24 - 1
	flowLabelMask = 1<<20 - 1
)

// bit returns 1 for true.
func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

// word24 takes apart a word of 24 bits and 8 bits, which the CM messages are
// full of.
func word24(b []byte) (high uint32, low uint8) {
	v := binary.BigEndian.Uint32(b)
	return v >> 8, uint8(v)
}

// putWord24 writes such a word; bits of high above the 24th are dropped.
func putWord24(b []byte, high uint32, low uint8) {
	binary.BigEndian.PutUint32(b, high<<8|uint32(low))
}

// ids reads the two communication IDs that the data of all messages of a
// connection but REQ begins with.
func (m *MAD) ids() (local, remote uint32) {
	d := m.Data()
	return binary.BigEndian.Uint32(d[0:]), binary.BigEndian.Uint32(d[4:])
}

// putIDs clears the data of m, writes the communication IDs and returns the
// data.
func (m *MAD) putIDs(local, remote uint32) *[DataSize]byte {
	d := m.Data()
	clear(d[:])
	binary.BigEndian.PutUint32(d[0:], local)
	binary.BigEndian.PutUint32(d[4:], remote)
	return d
}
