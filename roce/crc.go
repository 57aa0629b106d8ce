package roce

import (
	"encoding/binary"
	"hash/crc32"
)

// bulkCutoff is the length in bytes from which hash/crc32, which has machine
// code for long inputs, beats the loop here. For short ones its call through
// a function variable costs more than the work, and makes arrays on the stack
// escape. That machine code handles multiples of bulkUnit bytes. hash/crc32
// would process the rest, such as the last bytes of a READ response with an
// AETH, byte by byte; update uses the loop here.
const (
	bulkCutoff = 64
	bulkUnit   = 16
)

// slicing contains, in row i, the CRC register after each byte and i more zero bytes. A step takes as
// many bytes as it uses rows. A step depends on the register of the previous step, but its own lookups
// do not depend on each other: fewer, larger steps take less time.
var slicing = makeSlicing()

func makeSlicing() (t [16][256]uint32) {
	t[0] = *crc32.IEEETable
	for b := range 256 {
		for i := 1; i < len(t); i++ {
			prev := t[i-1][b]
			t[i][b] = prev>>8 ^ t[0][byte(prev)]
		}
	}
	return t
}

// after returns the CRC register after the bytes of w, a little-endian word, and 4*words more zero
// bytes.
func after(w uint32, words int) uint32 {
	t := (*[4][256]uint32)(slicing[4*words:])
	return t[3][byte(w)] ^ t[2][byte(w>>8)] ^ t[1][byte(w>>16)] ^ t[0][w>>24]
}

// step12 takes a BTH into the CRC register. Byte 4, with FECN and BECN, counts as 0xff.
func step12(reg uint32, b *[BTHLen]byte) uint32 {
	le := binary.LittleEndian
	return after(reg^le.Uint32(b[:]), 2) ^ after(le.Uint32(b[4:])|0xff, 1) ^ after(le.Uint32(b[8:]), 0)
}

// step4 takes four bytes, given as a little-endian word, into the CRC
// register. With a word of zero it multiplies the register by x^32.
func step4(reg, word uint32) uint32 { return after(reg^word, 0) }

// update takes bytes into the CRC register, which is the complement of what
// hash/crc32 calls a CRC.
func update(reg uint32, b []byte) uint32 {
	if len(b) >= bulkCutoff {
		n := len(b) &^ (bulkUnit - 1)
		reg = ^crc32.Update(^reg, crc32.IEEETable, b[:n])
		b = b[n:]
	}
	return updateShort(reg, b)
}

// updateShort is update for few bytes; b does not escape.
func updateShort(reg uint32, b []byte) uint32 {
	le := binary.LittleEndian
	for ; len(b) >= 16; b = b[16:] {
		reg = after(reg^le.Uint32(b), 3) ^ after(le.Uint32(b[4:]), 2) ^ after(le.Uint32(b[8:]), 1) ^ after(le.Uint32(b[12:]), 0)
	}
	if len(b) >= 8 {
		reg = after(reg^le.Uint32(b), 1) ^ after(le.Uint32(b[4:]), 0)
		b = b[8:]
	}
	if len(b) >= 4 {
		reg = step4(reg, le.Uint32(b))
		b = b[4:]
	}
	for _, c := range b {
		reg = reg>>8 ^ slicing[0][byte(reg)^c]
	}
	return reg
}
