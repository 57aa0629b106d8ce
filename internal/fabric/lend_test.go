package fabric

import (
	"bytes"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// lender is a port that lends its memory, each run its own part.
type lender struct {
	memory []byte
	used   int
	most   int // bytes for a run; 0: nothing is lent
	asked  int // for the last run, at most
}

func (l *lender) lend(b *Batch, most int) []byte {
	runs := b.Pending()
	r := &runs[len(runs)-1]
	r.Bare, l.asked = true, most
	n := min(l.most, most, len(l.memory)-l.used)
	if n < r.Size {
		return nil
	}
	l.used += n
	return l.memory[l.used-n : l.used]
}

// holds reports whether bytes are in the memory of the port.
func (l *lender) holds(b []byte) bool {
	at := uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&l.memory[0]))
	return at < uintptr(len(l.memory))
}

func lending(most int) (*Batch, *lender) {
	l := &lender{memory: make([]byte, 4096), most: most}
	return NewBatch(1000, Caps{MaxSegments: 8, MaxRunBytes: 400, Lend: l.lend}), l
}

// put appends a segment that is full of a byte.
func (b *Batch) put(t *testing.T, p *Path, n int, fill byte) (index int) {
	t.Helper()
	seg, index := b.Append(p, n)
	if len(seg) != n || cap(seg) != n {
		t.Fatalf("a segment of %d bytes has %d, capacity %d", n, len(seg), cap(seg))
	}
	copy(seg, bytes.Repeat([]byte{fill}, n))
	return index
}

// TestLentRun builds runs in memory of the port: they grow to the end of that memory, and shrink. The
// batch has as much room left as if it used its own.
func TestLentRun(t *testing.T) {
	b, l := lending(250)
	for i := range 3 {
		if index := b.put(t, &pathA, 100, byte(i)); index != i%2 {
			t.Errorf("segment %d has index %d, want %d: the memory of a run has 250 bytes", i, index, i%2)
		}
	}
	if l.asked != 400 {
		t.Errorf("the port was asked for %d bytes, want those of a run", l.asked)
	}
	b.Unappend()
	b.put(t, &pathA, 50, 3)
	b.put(t, &pathA, 50, 4)
	b.Unappend()
	if r := b.Pending(); len(r) != 2 || !bytes.Equal(r[1].Bytes, bytes.Repeat([]byte{3}, 50)) || r[1].Count != 1 || !r[1].Lent || !l.holds(r[1].Bytes) {
		t.Errorf("after Unappend: %+v", r)
	}
	if b.Room() != 750 {
		t.Errorf("room for %d bytes, want 750", b.Room())
	}
	b.Reset()
	for range 2 {
		b.put(t, &pathA, 250, 0)
		b.put(t, &pathB, 250, 0)
		b.Unappend()
	}
	if b.Room() != 500 || len(b.Pending()) != 2 {
		t.Errorf("room for %d bytes after %d runs of 250, want 500", b.Room(), len(b.Pending()))
	}
	b.put(t, &pathB, 300, 0) // more than the port lends
	if r := b.Pending()[2]; r.Lent || !r.Bare || l.holds(r.Bytes) || l.asked != 400 {
		t.Errorf("a run for which the port has no memory: lent: %v, bare: %v", r.Lent, r.Bare)
	}
	b.put(t, &pathA, 100, 0)
	if l.asked != 200 {
		t.Errorf("the port was asked for %d bytes, want the rest of the batch", l.asked)
	}
}

// TestOwn takes a lent run back. It has the same bytes, and still grows, without damage to others.
func TestOwn(t *testing.T) {
	b, l := lending(400)
	b.put(t, &pathA, 100, 1)
	b.put(t, &pathB, 100, 2)
	b.put(t, &pathB, 100, 3)
	b.put(t, &pathA, 100, 4)
	for _, i := range []int{1, 0, 2} {
		b.Own(&b.Pending()[i])
	}
	l.most = 0
	clear(l.memory)
	b.put(t, &pathA, 100, 5)
	want := [][]byte{{1}, {2, 3}, {4, 5}}
	for i, r := range b.Pending() {
		var w []byte
		for _, x := range want[i] {
			w = append(w, bytes.Repeat([]byte{x}, 100)...)
		}
		if r.Lent || l.holds(r.Bytes) || r.Count != len(want[i]) || !bytes.Equal(r.Bytes, w) {
			t.Errorf("run %d, of %d segments, begins with %v: lent: %v", i, r.Count, r.Bytes[:2], r.Lent)
		}
	}
}

// TestLentAtRandom compares a batch that lends with one that does not: they accept the same
// segments, and have the same bytes in the same order.
func TestLentAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &lender{memory: make([]byte, 4096)}
		caps := Caps{MaxSegments: rapid.IntRange(0, 5).Draw(t, "segments"), MaxRunBytes: rapid.IntRange(0, 60).Draw(t, "run bytes")}
		plain := NewBatch(200, caps)
		caps.Lend = l.lend
		b := NewBatch(200, caps)
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			l.most = rapid.IntRange(0, 80).Draw(t, "lent")
			p, n := rapid.SampledFrom([]*Path{&pathA, &pathB}).Draw(t, "path"), rapid.IntRange(1, 30).Draw(t, "size")
			x, _ := b.Append(p, n)
			y, _ := plain.Append(p, n)
			if len(b.runs) == cap(b.runs) || len(x) != len(y) {
				t.Fatalf("a segment of %d bytes has %d in a batch that lends, %d in one that does not", n, len(x), len(y))
			}
			copy(x, bytes.Repeat([]byte{byte(i)}, n))
			copy(y, bytes.Repeat([]byte{byte(i)}, n))
			switch what := rapid.IntRange(0, 9).Draw(t, "then"); {
			case what == 0 && x != nil:
				b.Unappend()
				plain.Unappend()
			case what == 1 && len(b.Pending()) > 0:
				b.Own(&b.Pending()[rapid.IntRange(0, len(b.Pending())-1).Draw(t, "run")])
			}
			if b.Room() != plain.Room() {
				t.Fatalf("room for %d bytes in a batch that lends, %d in one that does not", b.Room(), plain.Room())
			}
		}
		var all, want []byte
		for _, r := range b.Pending() {
			all = append(all, r.Bytes...)
			if r.Lent != l.holds(r.Bytes) || len(r.Bytes) > max(r.Count*r.Size, 1) || (r.Count-1)*r.Size >= len(r.Bytes) {
				t.Fatalf("a run of %d segments of %d bytes has %d bytes; lent: %v", r.Count, r.Size, len(r.Bytes), r.Lent)
			}
		}
		for _, r := range plain.Pending() {
			want = append(want, r.Bytes...)
		}
		if !bytes.Equal(all, want) {
			t.Fatalf("the batch has the bytes %v, want %v", all, want)
		}
	})
}

func TestLendNoAllocation(t *testing.T) {
	b, l := lending(400)
	if n := testing.AllocsPerRun(100, func() {
		l.used = 0
		for range 4 {
			b.Append(&pathA, 96)
			b.Append(&pathB, 64)
		}
		b.Own(&b.Pending()[0])
		b.Sent(len(b.Pending()))
	}); n != 0 {
		t.Errorf("filling a batch costs %v allocations", n)
	}
}
