package packet

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// bareIf returns a Caps.Lend that lends no memory, and says which runs need no ICRC.
func bareIf(is func(*fabric.Run) bool) func(*fabric.Batch, int) []byte {
	return func(b *fabric.Batch, _ int) []byte {
		runs := b.Pending()
		r := &runs[len(runs)-1]
		r.Bare = is(r)
		return nil
	}
}

// bareRun returns a batch with a run of three packets without ICRC, of which the last is shorter.
func bareRun(t *testing.T, path *fabric.Path) *fabric.Batch {
	t.Helper()
	w := Writer{Counters: new(counters.Set)}
	b := fabric.NewBatch(4096, fabric.Caps{
		MaxSegments: 64, MaxRunBytes: 65000,
		Lend: bareIf(func(r *fabric.Run) bool { return r.Path == *path && r.Slot == 3 }),
	})
	b.Reset()
	for _, n := range []int{64, 64, 8} {
		w.Headers.BTH = roce.BTH{Opcode: roce.RCSendOnly, DestQP: 3<<16 | 9}
		seg, payload, id := w.Append(b, path, n)
		copy(payload, bytes.Repeat([]byte{0x5a}, n))
		copy(seg[len(seg)-roce.ICRCLen:], "left")
		w.Seal(1, 9, seg, Prefix(path, len(seg), id))
	}
	return b
}

func TestBareRun(t *testing.T) {
	for _, dst := range []string{"10.0.0.2", "fd00::2"} {
		path := &fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr(dst), SrcPort: 0xc000}
		if path.Dst.Is6() {
			path.Src = netip.MustParseAddr("fd00::1")
		}
		r := &bareRun(t, path).Pending()[0]
		if !r.Bare || r.Count != 3 {
			t.Fatalf("%s: the run has %d packets, bare: %v", dst, r.Count, r.Bare)
		}
		for i := range r.Count {
			seg := r.Segment(i)
			if tail := seg[len(seg)-roce.ICRCLen:]; !bytes.Equal(tail, make([]byte, roce.ICRCLen)) {
				t.Errorf("%s: packet %d ends with %x", dst, i, tail)
			}
		}
		// The receiver seals its copy if something above its port needs ICRCs.
		d := fabric.Datagram{
			Bytes: slices.Clone(r.Bytes), Stride: r.Size, Src: path.Src, Dst: path.Dst,
			SrcPort: path.SrcPort, DstPort: fabric.RoCEPort, IDKnown: path.Dst.Is4(), Bare: true,
		}
		theirs := d.Bytes
		buf := SealDatagram(&d, []byte("earlier"))
		if !bytes.Equal(theirs, r.Bytes) || string(buf[:7]) != "earlier" || d.Bare {
			t.Errorf("%s: SealDatagram changes memory that is not its own", dst)
		}
		SealRun(r)
		if r.Bare || !bytes.Equal(d.Bytes, r.Bytes) {
			t.Errorf("%s: both sides seal differently", dst)
		}
		var v Verifier
		v.Begin(&d)
		for i, off := 0, 0; off < len(d.Bytes); i++ {
			var seg []byte
			seg, off = d.Segment(off)
			if _, ok := v.Verify(&d, seg, i); !ok {
				t.Errorf("%s: packet %d has a wrong ICRC", dst, i)
			}
		}
	}
}

// A peer can write packets of any size into its memory.
func TestSealTiny(t *testing.T) {
	for n := range roce.MinSize + 1 {
		d := fabric.Datagram{Bytes: make([]byte, n), Src: netip.MustParseAddr("::1"), Dst: netip.MustParseAddr("::1"), Bare: true}
		if SealDatagram(&d, nil); len(d.Bytes) != n {
			t.Errorf("%d bytes become %d", n, len(d.Bytes))
		}
	}
}

// Only packets to slots for which Caps.Lend says so lack an ICRC.
func TestBareNeedsPermission(t *testing.T) {
	path := &fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc000}
	w := Writer{Counters: new(counters.Set)}
	b := fabric.NewBatch(4096, fabric.Caps{
		MaxSegments: 64, MaxRunBytes: 65000, Lend: bareIf(func(r *fabric.Run) bool { return r.Slot == 3 }),
	})
	for _, c := range []struct {
		op   roce.Opcode
		dest ib.QPN
		bare bool
	}{{roce.RCSendOnly, 3<<16 | 9, true}, {roce.RCSendOnly, 4<<16 | 9, false}, {roce.UDSendOnly, 1, false}, {roce.RCSendOnly, 3<<16 | 8, true}} {
		w.Headers.BTH = roce.BTH{Opcode: c.op, DestQP: c.dest}
		seg, _, id := w.Append(b, path, 8)
		w.Seal(1, 9, seg, Prefix(path, len(seg), id))
		if got := b.Bare(); got != c.bare || roce.Check(seg, Prefix(path, len(seg), id)) == c.bare {
			t.Errorf("to %#x: bare: %v, want %v", c.dest, got, c.bare)
		}
	}
}
