//go:build !ringmodel

package ring

import "unsafe"

// Plain is ordinary memory of a process in place of a memfd, for a simulator that runs both ends
// of a ring. The records are not mapped twice: a record that begins near the end of the ring
// continues after it, where there is room, and is read from there.
type Plain struct {
	Memory *Memory
	View   *View    // for the peer
	Words  []uint64 // all of it; whoever writes here acts as a hostile owner
}

// NewPlain returns memory for a ring of size bytes, a power of two and at least 4 KiB. It panics if
// it is not.
func NewPlain(size int) *Plain {
	if size < minSize || size > maxSize || size&(size-1) != 0 {
		panic("ring: the size is no power of two within the bounds")
	}
	const data = sleepingAt + 2*line
	words := make([]uint64, (data+2*size)/8)
	s, r := shared{unsafe.Pointer(&words[0])}, region{data, uint64(size)}
	return &Plain{&Memory{owned{s}, r, -1}, &View{s, r}, words}
}

// Contains reports whether the bytes of a record are in this memory.
func (p *Plain) Contains(record []byte) bool {
	at := uintptr(unsafe.Pointer(&record[0])) - uintptr(unsafe.Pointer(&p.Words[0]))
	return at < uintptr(8*len(p.Words))
}
