package fabric

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"pgregory.net/rapid"
)

var (
	pathA = Path{Src: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{127, 0, 0, 2}), SrcPort: 0xc000, HopLimit: 64}
	pathB = Path{Src: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{127, 0, 0, 3}), SrcPort: 0xc000, HopLimit: 64}
)

// shape is what a run looks like from outside.
type shape struct{ size, count, bytes int }

func shapes(b *Batch) (s []shape) {
	for _, r := range b.Pending() {
		s = append(s, shape{r.Size, r.Count, len(r.Bytes)})
	}
	return s
}

// segment is one Append of a test.
type segment struct {
	path  *Path
	n     int
	index int // the index that Append must return; -1 for no room
}

// TestAim appends segments for one process, then for another on the same path: each
// run is for one.
func TestAim(t *testing.T) {
	b := NewBatch(400, Caps{MaxSegments: 9, MaxRunBytes: 400})
	for _, to := range []ib.QPN{5, 6, 8<<16 | 1, 8<<16 | 2, 8 << 16, ib.QPNGSI, 8 << 16} {
		b.Aim(to)
		if seg, _ := b.Append(&pathA, 50); seg == nil {
			t.Fatal("the batch is too small")
		}
	}
	b.Unappend() // the run that was for 8
	b.Aim(8 << 16)
	b.Append(&pathA, 50)
	want := []shape{{50, 2, 100}, {50, 3, 150}, {50, 1, 50}, {50, 1, 50}}
	if got := shapes(b); !slices.Equal(got, want) {
		t.Errorf("runs are %v, want %v", got, want)
	}
}

// TestFinish shows that a finished batch takes no segments until it is sent. An empty batch cannot be
// finished: it is never sent, so it would never take segments again.
func TestFinish(t *testing.T) {
	b := NewBatch(400, Caps{MaxSegments: 9, MaxRunBytes: 400})
	b.Finish()
	if b.Room() != 400 {
		t.Fatalf("%d bytes of room in an empty batch, want 400", b.Room())
	}
	b.Append(&pathA, 50)
	b.Finish()
	if seg, _ := b.Append(&pathA, 50); seg != nil || b.Room() != 0 {
		t.Errorf("%d bytes of room in a finished batch", b.Room())
	}
	if b.Sent(1); b.Room() != 400 {
		t.Errorf("%d bytes of room after the batch was sent, want 400", b.Room())
	}
}

func TestCoalescing(t *testing.T) {
	tos := pathA
	tos.TClass = 8
	caps := Caps{MaxSegments: 3, MaxRunBytes: 250}
	for _, c := range []struct {
		why  string
		caps Caps
		segs []segment
		want []shape
	}{
		{"equal sizes join", caps, []segment{{&pathA, 50, 0}, {&pathA, 50, 1}}, []shape{{50, 2, 100}}},
		{"a shorter segment joins and closes", caps,
			[]segment{{&pathA, 50, 0}, {&pathA, 20, 1}, {&pathA, 20, 0}, {&pathA, 20, 1}}, []shape{{50, 2, 70}, {20, 2, 40}}},
		{"a closed run takes not even its own size", caps,
			[]segment{{&pathA, 50, 0}, {&pathA, 20, 1}, {&pathA, 50, 0}}, []shape{{50, 2, 70}, {50, 1, 50}}},
		{"a longer segment begins a run", caps, []segment{{&pathA, 20, 0}, {&pathA, 50, 0}}, []shape{{20, 1, 20}, {50, 1, 50}}},
		{"another destination begins a run", caps,
			[]segment{{&pathA, 50, 0}, {&pathB, 50, 0}, {&pathA, 50, 0}}, []shape{{50, 1, 50}, {50, 1, 50}, {50, 1, 50}}},
		{"another traffic class begins a run", caps, []segment{{&pathA, 50, 0}, {&tos, 50, 0}}, []shape{{50, 1, 50}, {50, 1, 50}}},
		{"a run has at most MaxSegments", caps,
			[]segment{{&pathA, 9, 0}, {&pathA, 9, 1}, {&pathA, 9, 2}, {&pathA, 9, 0}}, []shape{{9, 3, 27}, {9, 1, 9}}},
		{"a run has at most MaxRunBytes", caps,
			[]segment{{&pathA, 125, 0}, {&pathA, 125, 1}, {&pathA, 125, 0}}, []shape{{125, 2, 250}, {125, 1, 125}}},
		{"without offload every segment is a run", Caps{MaxSegments: 1, MaxRunBytes: 250},
			[]segment{{&pathA, 9, 0}, {&pathA, 9, 0}}, []shape{{9, 1, 9}, {9, 1, 9}}},
		{"a port that says nothing gets runs of one", Caps{}, []segment{{&pathA, 9, 0}, {&pathA, 9, 0}}, []shape{{9, 1, 9}, {9, 1, 9}}},
		{"what has no room is refused", caps, []segment{{&pathA, 200, 0}, {&pathA, 300, -1}, {&pathB, 200, 0}}, []shape{{200, 1, 200}, {200, 1, 200}}},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := NewBatch(400, c.caps)
			for i, s := range c.segs {
				seg, index := b.Append(s.path, s.n)
				if s.index < 0 && seg != nil || s.index >= 0 && (len(seg) != s.n || cap(seg) != s.n || index != s.index) {
					t.Errorf("segment %d of %d bytes: got %d bytes (capacity %d) with index %d, want index %d", i, s.n, len(seg), cap(seg), index, s.index)
				}
			}
			got := shapes(b)
			if len(got) != len(c.want) {
				t.Fatalf("runs are %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("runs are %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestFullOfRuns(t *testing.T) {
	b := NewBatch(4096, Caps{MaxSegments: 1, MaxRunBytes: 4096})
	for i := range batchRuns {
		if seg, _ := b.Append(&pathA, 4); seg == nil {
			t.Fatalf("no room for run %d", i)
		}
	}
	if seg, _ := b.Append(&pathA, 4); seg != nil || b.Room() != 0 {
		t.Errorf("run %d is accepted, room %d", batchRuns, b.Room())
	}
	if n := packets(b); n != batchRuns {
		t.Errorf("%d packets, want %d", n, batchRuns)
	}
}

// packets returns the number of segments that are pending.
func packets(b *Batch) (n int) {
	for _, run := range b.Pending() {
		n += run.Count
	}
	return n
}

func TestSent(t *testing.T) {
	b := NewBatch(100, Caps{MaxSegments: 8, MaxRunBytes: 100})
	for _, p := range []*Path{&pathA, &pathB, &pathB} {
		b.Append(p, 10)
	}
	b.Sent(1)
	if got := b.Pending(); len(got) != 1 || got[0].Path != pathB || got[0].Count != 2 || b.Room() != 70 {
		t.Errorf("after one of two runs: %+v pending, room %d", got, b.Room())
	}
	// A run that is pending still grows; one that was sent does not.
	if _, index := b.Append(&pathB, 10); index != 2 {
		t.Errorf("the pending run took the segment as index %d, want 2", index)
	}
	b.Sent(0)
	if len(b.Pending()) != 1 {
		t.Error("sending nothing changed what is pending")
	}
	b.Sent(1)
	if len(b.Pending()) != 0 || b.Room() != 100 {
		t.Errorf("all is sent: %d pending, room %d", len(b.Pending()), b.Room())
	}
	b.Append(&pathB, 10)
	b.Append(&pathB, 5)
	b.Reset()
	if _, index := b.Append(&pathB, 5); index != 0 || packets(b) != 1 || b.Room() != 95 {
		t.Errorf("after a reset: index %d, %d packets, room %d", index, packets(b), b.Room())
	}
}

// TestNoJoinAfterSent checks that a segment does not join a run that the port
// already has.
func TestNoJoinAfterSent(t *testing.T) {
	b := NewBatch(100, Caps{MaxSegments: 8, MaxRunBytes: 100})
	b.Append(&pathA, 10)
	b.Append(&pathB, 10)
	b.Sent(1)
	if _, index := b.Append(&pathA, 10); index != 0 {
		t.Errorf("the segment joined a run, as index %d", index)
	}
	if got := b.Pending(); len(got) != 2 || got[1].Path != pathA {
		t.Errorf("%d runs are pending, want two", len(got))
	}
}

// TestBatchKeepsSegments fills batches at random and finds every byte again,
// in order and on its way, whatever was coalesced.
func TestBatchKeepsSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		caps := Caps{MaxSegments: rapid.IntRange(0, 5).Draw(t, "segments"), MaxRunBytes: rapid.IntRange(0, 60).Draw(t, "run bytes")}
		b := NewBatch(200, caps)
		type sent struct {
			path Path
			data []byte
		}
		var want []sent
		for i := range rapid.IntRange(0, 40).Draw(t, "count") {
			p := rapid.SampledFrom([]*Path{&pathA, &pathB}).Draw(t, "path")
			n := rapid.IntRange(1, 20).Draw(t, "size")
			seg, _ := b.Append(p, n)
			if seg == nil {
				continue
			}
			for j := range seg {
				seg[j] = byte(i)
			}
			want = append(want, sent{*p, bytes.Clone(seg)})
		}
		if packets(b) != len(want) {
			t.Fatalf("%d packets, want %d", packets(b), len(want))
		}
		for _, r := range b.Pending() {
			if r.Count > max(caps.MaxSegments, 1) || r.Count > 1 && len(r.Bytes) > caps.MaxRunBytes {
				t.Fatalf("a run of %d segments and %d bytes is over %+v", r.Count, len(r.Bytes), caps)
			}
			for i := range r.Count {
				if len(want) == 0 || r.Path != want[0].path || !bytes.Equal(r.Segment(i), want[0].data) {
					t.Fatalf("segment %d of a run is %v on %v, want %v", i, r.Segment(i), r.Path, want)
				}
				want = want[1:]
			}
		}
		if len(want) != 0 {
			t.Fatalf("%d segments are in no run", len(want))
		}
	})
}

func TestBatchNoAllocation(t *testing.T) {
	b := NewBatch(1<<16, Caps{MaxSegments: 64, MaxRunBytes: 65000})
	if n := testing.AllocsPerRun(100, func() {
		for range 32 {
			b.Append(&pathA, 96)
			b.Append(&pathB, 64)
		}
		b.Sent(len(b.Pending()))
	}); n != 0 {
		t.Errorf("filling a batch costs %v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	batch := NewBatch(1<<16, Caps{MaxSegments: 64, MaxRunBytes: 65000})
	b.ReportAllocs()
	for b.Loop() {
		if seg, _ := batch.Append(&pathA, 96); seg == nil {
			batch.Reset()
		}
	}
}
