package ident_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ident"
	"github.com/softhca/softhca/roce"
)

// sealed returns a run of segments of 64 bytes, the last of 32.
func sealed(t *testing.T, src, dst string, count int) *fabric.Run {
	t.Helper()
	p := fabric.Path{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SrcPort: 4791}
	b := fabric.NewBatch(1<<14, fabric.Caps{MaxSegments: 64, MaxRunBytes: 1 << 14})
	for i := range count {
		n := 64
		if i == count-1 {
			n = 32
		}
		seg, index := b.Append(&p, n)
		for k := range seg {
			seg[k] = byte(i + k)
		}
		roce.Seal(seg, roce.NewPrefix(p.Src, p.Dst, 4791, 4791, n).WithID(uint16(index)))
	}
	return &b.Pending()[0]
}

// has reports whether segment i of r carries the ICRC of an identification.
func has(r *fabric.Run, i int, id uint16) bool {
	seg := r.Segment(i)
	p := roce.NewPrefix(r.Path.Src, r.Path.Dst, 4791, 4791, len(seg))
	return roce.Check(seg, p.WithID(id))
}

func TestCutLeavesAProperRun(t *testing.T) {
	for _, addrs := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		for n := 1; n < 10; n++ {
			r := sealed(t, addrs[0], addrs[1], 10)
			ident.Cut(r, n)
			if r.Count != 10-n || len(r.Bytes) != 64*(9-n)+32 {
				t.Fatalf("%v: %d segments in %d bytes after cutting %d of 10", addrs, r.Count, len(r.Bytes), n)
			}
			for i := range r.Count {
				if !has(r, i, uint16(i)) {
					t.Errorf("%v: segment %d after cutting %d has not its ICRC", addrs, i, n)
				}
			}
			if n == 9 && r.Size != 32 {
				t.Errorf("size %d: the run is its last segment alone", r.Size)
			}
		}
	}
}

func TestMoveLeavesAloneWhatHasNoICRC(t *testing.T) {
	for _, n := range []int{1, 12, 15, 17, 63} {
		b := bytes.Repeat([]byte{7}, n)
		r := &fabric.Run{Path: fabric.Path{Src: netip.MustParseAddr("10.0.0.1")}, Bytes: bytes.Clone(b), Size: n, Count: 1}
		ident.Move(r, 0, 0, 9)
		if !bytes.Equal(r.Bytes, b) {
			t.Errorf("%d bytes, which are no packet, were changed", n)
		}
	}
}
