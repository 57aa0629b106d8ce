package testagent

import "encoding/binary"

// patternWord returns the 8 bytes of a pattern from position 8*word, little
// endian: the generator splitmix64, which both sides can start at any position.
func patternWord(seed, word uint64) uint64 {
	z := seed + (word+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// PatternByte returns the byte of a pattern at a position.
func PatternByte(seed, at uint64) byte {
	return byte(patternWord(seed, at/8) >> (8 * (at % 8)))
}

// FillPattern fills buf with a pattern from position at, as Fill does in the
// program.
func FillPattern(buf []byte, seed, at uint64) {
	for len(buf) > 0 && at%8 != 0 {
		buf[0] = PatternByte(seed, at)
		buf, at = buf[1:], at+1
	}
	for len(buf) >= 8 {
		binary.LittleEndian.PutUint64(buf, patternWord(seed, at/8))
		buf, at = buf[8:], at+8
	}
	for i := range buf {
		buf[i] = PatternByte(seed, at+uint64(i))
	}
}

// FirstMismatch returns the index of the first byte of buf that differs from
// the pattern, -1 if there is none.
func FirstMismatch(buf []byte, seed, at uint64) int {
	for i := 0; i < len(buf); i++ {
		if p := at + uint64(i); p%8 == 0 && len(buf)-i >= 8 && binary.LittleEndian.Uint64(buf[i:]) == patternWord(seed, p/8) {
			i += 7
			continue
		}
		if buf[i] != PatternByte(seed, at+uint64(i)) {
			return i
		}
	}
	return -1
}
