package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// layout goes through the fields of a message in the order of their bits. It reads each field
// from the bytes, or writes it there: so a message states the places of its fields once.
type layout struct {
	b      []byte
	at     int // bits passed
	writes bool
}

// number reads or writes a number of some bits. Writing drops the bits of the value that
// exceed the field.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](l *layout, bits int, v *T) {
	if n := l.next(bits, uint64(*v)); !l.writes {
		*v = T(n)
	}
}

// next reads the next bits, or writes v there.
func (l *layout) next(bits int, v uint64) uint64 {
	first := min(l.at/8, len(l.b)-8)
	window := (*[8]byte)(l.b[first:])
	word, mask, below := binary.BigEndian.Uint64(window[:]), uint64(1)<<bits-1, 64-(l.at-8*first)-bits
	l.at += bits
	if l.writes {
		binary.BigEndian.PutUint64(window[:], word&^(mask<<below)|v&mask<<below)
	}
	return word >> below & mask
}

// reserved passes bits that are ignored, and sent as zero.
func (l *layout) reserved(bits int) {
	var none uint32
	number(l, bits, &none)
}

// flag reads or writes one bit.
func (l *layout) flag(v *bool) {
	var bit uint8
	if *v {
		bit = 1
	}
	if number(l, 1, &bit); !l.writes {
		*v = bit != 0
	}
}

// psn reads or writes a PSN.
func (l *layout) psn(v *ib.PSN) {
	n := v.Value()
	if number(l, 24, &n); !l.writes {
		*v = ib.NewPSN(n)
	}
}

// bytes reads or writes whole bytes.
func (l *layout) bytes(v []byte) {
	in := l.b[l.at/8:][:len(v)]
	l.at += 8 * len(v)
	if l.writes {
		copy(in, v)
	} else {
		copy(v, in)
	}
}

// ids reads or writes the two communication IDs that the data of all messages of a connection
// but REQ begins with.
func (l *layout) ids(local, remote *uint32) {
	number(l, 32, local)
	number(l, 32, remote)
}

// reading returns the layout of the data of m, to read it.
func (m *MAD) reading() *layout { return &layout{b: m[HeaderSize:]} }

// writing clears the data of m, and returns its layout to write it.
func (m *MAD) writing() *layout {
	clear(m[HeaderSize:])
	return &layout{b: m[HeaderSize:], writes: true}
}
