package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// layout reads the fields of a message from its bytes, or writes them there: a message states
// the place of each field once, as a constant, in bytes from the start of b. The compiler
// inlines most of its functions, so that a field costs a load or a store and no call.
type layout struct {
	b      []byte
	writes bool
}

// u8 reads or writes a byte.
func u8[T ~uint8](l layout, at int, v *T) {
	if l.writes {
		l.b[at] = uint8(*v)
	} else {
		*v = T(l.b[at])
	}
}

// u16 reads or writes two bytes.
func u16[T ~uint16](l layout, at int, v *T) {
	if l.writes {
		binary.BigEndian.PutUint16(l.b[at:], uint16(*v))
	} else {
		*v = T(binary.BigEndian.Uint16(l.b[at:]))
	}
}

// u32 reads or writes four bytes.
func u32[T ~uint32](l layout, at int, v *T) {
	if l.writes {
		binary.BigEndian.PutUint32(l.b[at:], uint32(*v))
	} else {
		*v = T(binary.BigEndian.Uint32(l.b[at:]))
	}
}

// u64 reads or writes eight bytes.
func u64[T ~uint64](l layout, at int, v *T) {
	if l.writes {
		binary.BigEndian.PutUint64(l.b[at:], uint64(*v))
	} else {
		*v = T(binary.BigEndian.Uint64(l.b[at:]))
	}
}

// u24 reads or writes three bytes. Writing drops the bits of the value that exceed them.
func u24[T ~uint32](l layout, at int, v *T) { part(l, at, 0, 24, v) }

// part reads or writes a number of some bits in the four bytes from at on, after the first
// bits of them. Writing drops the bits of the value that exceed the field. Messages use it for
// all fields in those four bytes: the processor is slow to load bytes of which it has stored
// only some.
func part[T ~uint8 | ~uint16 | ~uint32](l layout, at, first, bits int, v *T) {
	below, mask := 32-first-bits, uint32(1)<<bits-1
	word := binary.BigEndian.Uint32(l.b[at:])
	if l.writes {
		binary.BigEndian.PutUint32(l.b[at:], word&^(mask<<below)|uint32(*v)&mask<<below)
	} else {
		*v = T(word >> below & mask)
	}
}

// flag reads or writes one bit in the four bytes from at on, after the first bits of them.
func (l layout) flag(at, first int, v *bool) {
	var bit uint8
	if *v {
		bit = 1
	}
	if part(l, at, first, 1, &bit); !l.writes {
		*v = bit != 0
	}
}

// psn reads or writes a PSN.
func (l layout) psn(at int, v *ib.PSN) {
	n := v.Value()
	if u24(l, at, &n); !l.writes {
		*v = ib.NewPSN(n)
	}
}

// bytes reads or writes whole bytes.
func (l layout) bytes(at int, v []byte) {
	if l.writes {
		copy(l.b[at:], v)
	} else {
		copy(v, l.b[at:])
	}
}

// ids reads or writes the two communication IDs that the data of all messages of a connection
// but REQ begins with.
func (l layout) ids(local, remote *uint32) {
	u32(l, 0, local)
	u32(l, 4, remote)
}

// from returns the layout of what begins at a byte.
func (l layout) from(at int) layout { return layout{l.b[at:], l.writes} }

// reading returns the layout of the data of m, to read it.
func (m *MAD) reading() layout { return layout{b: m[HeaderSize:]} }

// writing clears the data of m, and returns its layout to write it.
func (m *MAD) writing() layout {
	clear(m[HeaderSize:])
	return layout{b: m[HeaderSize:], writes: true}
}
