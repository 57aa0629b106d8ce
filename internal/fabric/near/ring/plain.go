//go:build !ringmodel

package ring

import "unsafe"

// Plain returns a Memory for a ring of size bytes, a power of two of at least 4 KiB, and the View of
// its peer. Both are ordinary memory of this process, words, instead of a memfd: for both ends in one
// process. A simulator writes to words what a hostile owner would.
//
// The records are not mapped twice. The room for a copy after their end is there: a record that
// begins near the end of the ring continues in it, and is read from there.
func Plain(size int) (m *Memory, v *View, words []uint64) {
	if size < minSize || size > maxSize || size&(size-1) != 0 {
		panic("ring: the size is no power of two within the bounds")
	}
	const data = sleepingAt + 2*line
	words = make([]uint64, (data+2*size)/8)
	s, r := shared{unsafe.Pointer(&words[0])}, region{data, uint64(size)}
	return &Memory{owned{s}, r, -1}, &View{s, r}, words
}
