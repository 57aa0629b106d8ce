//go:build !portable && !ringmodel

package ring

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// end is one of two peers: its memory, its mapping of the other's, and its ends of both rings.
type end struct {
	own  *Memory
	view *View
	p    *Producer
	c    *Consumer
}

// pair returns two peers in this process, with rings of size bytes.
func pair(t testing.TB, size int) (a, b *end) {
	t.Helper()
	a, b = new(end), new(end)
	for _, e := range []*end{a, b} {
		var err error
		e.own, err = Create(size)
		must.Do(t, err)
		t.Cleanup(func() { must.Do(t, e.own.Close()) })
	}
	a.meet(t, b)
	b.meet(t, a)
	return a, b
}

// meet attaches the memory of a peer.
func (e *end) meet(t testing.TB, peer *end) {
	t.Helper()
	var err error
	e.view, err = Attach(copyOf(t, peer.own.FD()))
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, e.view.Close()) })
	e.p, e.c = NewProducer(e.own, e.view), NewConsumer(e.own, e.view)
}

// copyOf returns a descriptor of the same file, as a peer receives it.
func copyOf(t testing.TB, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	must.Do(t, err)
	return fd
}

// write commits a record of count packets of stride bytes, whose bytes all are fill.
func (e *end) write(t testing.TB, stride, count int, fill byte) {
	t.Helper()
	b := e.p.Reserve(stride*count, stride*count)
	if b == nil {
		t.Fatalf("no room for %d packets of %d bytes", count, stride)
	}
	for i := range b {
		b[i] = fill
	}
	e.p.Commit(len(b), stride, count, uint64(fill))
}

// read reads the next record, which write has written.
func (e *end) read(t testing.TB, stride, count int, fill byte) {
	t.Helper()
	var r Record
	if !e.c.Next(&r) {
		t.Fatalf("no record (%v), want %d packets of %d bytes", e.c.Err(), count, stride)
	}
	if len(r.Bytes) != stride*count || r.Stride != stride || r.Count != count || r.Tag != uint64(fill) {
		t.Fatalf("a record of %d bytes, %d packets of %d, tag %d; want %d packets of %d, tag %d", len(r.Bytes), r.Count, r.Stride, r.Tag, count, stride, fill)
	}
	for i, x := range r.Bytes {
		if x != fill {
			t.Fatalf("byte %d of a record is %d, want %d", i, x, fill)
		}
	}
}

// none checks that there is no record and that the consumer has the error.
func (e *end) none(t testing.TB, err error) {
	t.Helper()
	var r Record
	if e.c.Next(&r) {
		t.Fatalf("a record of %d bytes, want none", len(r.Bytes))
	}
	if e.c.Err() != err {
		t.Fatalf("the consumer's error is %v, want %v", e.c.Err(), err)
	}
}
