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

// slicing holds, in row i, what each byte leaves in the CRC register after i
// more zero bytes: eight rows take eight bytes at a step.
var slicing = makeSlicing()

func makeSlicing() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for b := range 256 {
		for i := 1; i < 8; i++ {
			prev := t[i-1][b]
			t[i][b] = prev>>8 ^ t[0][byte(prev)]
		}
	}
	return t
}

// step8 takes eight bytes, given as two little-endian words, into the CRC
// register.
func step8(reg, lo, hi uint32) uint32 {
	t := &slicing
	lo ^= reg
	return t[7][byte(lo)] ^ t[6][byte(lo>>8)] ^ t[5][byte(lo>>16)] ^ t[4][lo>>24] ^
		t[3][byte(hi)] ^ t[2][byte(hi>>8)] ^ t[1][byte(hi>>16)] ^ t[0][hi>>24]
}

// step4 takes four bytes, given as a little-endian word, into the CRC
// register. With a word of zero it multiplies the register by x^32.
func step4(reg, word uint32) uint32 {
	t := &slicing
	word ^= reg
	return t[3][byte(word)] ^ t[2][byte(word>>8)] ^ t[1][byte(word>>16)] ^ t[0][word>>24]
}

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
	for len(b) >= 8 {
		reg = step8(reg, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
	}
	if len(b) >= 4 {
		reg = step4(reg, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for _, c := range b {
		reg = reg>>8 ^ slicing[0][byte(reg)^c]
	}
	return reg
}
