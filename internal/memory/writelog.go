package memory

import (
	"sync/atomic"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// WriteLogLen is the number of writes that a WriteLog holds.
const WriteLogLen = 16384

// WriteLog holds the newest accesses by which adapters wrote to registered memory. A checker of programs
// reads it, also one in C: struct softhca_writes of capi/engine/engine.h has the same layout. Tables share
// a log; it allocates nothing.
type WriteLog struct {
	count atomic.Uint64
	last  [WriteLogLen]loggedWrite
}

// loggedWrite is a write. Its turn is the number of the write, from 1, and is stored last.
type loggedWrite struct {
	turn         atomic.Uint64
	addr, length uint64
}

// LogWrites records the table's writes in l from now on; nil records none.
func (t *Table) LogWrites(l *WriteLog) { t.writes = l }

// wrote records that memory is given out with the given rights.
func (t *Table) wrote(b []byte, need ib.Access) {
	const writes = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	if t.writes == nil || need&writes == 0 || len(b) == 0 {
		return
	}
	n := t.writes.count.Add(1)
	w := &t.writes.last[(n-1)%WriteLogLen]
	w.turn.Store(0)
	w.addr, w.length = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b))
	w.turn.Store(n)
}

// Count returns the number of writes so far.
func (l *WriteLog) Count() uint64 { return l.count.Load() }

// Wrote reports whether one of the writes since the first n may have changed a byte of b. It also reports
// true if the log no longer holds them all.
func (l *WriteLog) Wrote(n uint64, b []byte) bool {
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	end := l.count.Load()
	if end-n > WriteLogLen/2 {
		return true
	}
	for ; n != end; n++ {
		w := &l.last[n%WriteLogLen]
		if w.turn.Load() != n+1 || w.addr < start+uint64(len(b)) && start < w.addr+w.length {
			return true
		}
	}
	return false
}
