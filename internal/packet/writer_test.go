package packet

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// TestWriter fills a batch with packets of every length up to 9 bytes and
// parses what is in it: headers, payload, pad, ICRC, count and record. A batch
// that is full takes nothing and nothing is counted.
func TestWriter(t *testing.T) {
	var records []trace.Record
	w := Writer{Counters: new(counters.Set), Trace: func(r *trace.Record) { records = append(records, *r) }}
	path := &fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc000}
	b := fabric.NewBatch(4096, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65000})
	for i := range b.Room() {
		fill := bytes.Repeat([]byte{0xa5}, b.Room())
		seg, _ := b.Append(path, len(fill))
		copy(seg, fill) // what was in the batch before
		b.Unappend()
		n := i % 10
		w.Headers.BTH = roce.BTH{Opcode: roce.UDSendOnly, DestQP: slotOf(i)<<16 | 9, PSN: ib.NewPSN(uint32(i))}
		w.Headers.DETH = roce.DETH{QKey: 1, SrcQP: 9}
		seg, payload, id := w.Append(b, path, n)
		if seg == nil {
			if w.Counters.SentPkts != uint64(i) || len(records) != i || i == 0 {
				t.Errorf("%d packets fit, %d are counted, %d recorded", i, w.Counters.SentPkts, len(records))
			}
			seeSlots(t, b)
			return
		}
		copy(payload, "something")
		w.Seal(5, 9, seg, Prefix(path, len(seg), id))
		var p roce.Packet
		if f := p.Parse(seg); f != roce.FaultNone || p.BTH != w.Headers.BTH || p.DETH != w.Headers.DETH || string(p.Payload) != "something"[:n] {
			t.Fatalf("%d bytes: %v, %+v", n, f, p)
		}
		pad := seg[len(seg)-roce.ICRCLen-int(p.BTH.PadCnt) : len(seg)-roce.ICRCLen]
		if !roce.Check(seg, Prefix(path, len(seg), id)) || len(bytes.Trim(pad, "\x00")) != 0 {
			t.Errorf("%d bytes: a wrong ICRC, or a pad of %x", n, pad)
		}
		r := records[i]
		if r.Kind != trace.PacketOut || r.At != 5 || r.QPN != 9 || r.PSN != p.BTH.PSN || r.Len != len(seg) || !bytes.HasPrefix(r.Header[:], seg[:roce.BTHLen]) {
			t.Errorf("%d bytes: the record is %+v", n, r)
		}
	}
	t.Error("the batch is never full")
}

// slotOf returns the slot that the packet of a number is for: three in a row.
func slotOf(i int) ib.QPN { return ib.QPN(i / 3 % 2) }

// seeSlots checks that every run is for one slot, and that some have several
// packets.
func seeSlots(t *testing.T, b *fabric.Batch) {
	t.Helper()
	most := 0
	for _, r := range b.Pending() {
		most = max(most, r.Count)
		for i := range r.Count {
			if got, want := r.Segment(i)[5], r.Segment(0)[5]; got != want {
				t.Fatalf("a run is for slots %d and %d", want, got)
			}
		}
	}
	if most < 2 {
		t.Error("no run has several packets")
	}
}

// TestRecordTellsContexts seals a packet of each service with a reused record:
// that of an EE context has its number, and no field of the previous packet
// remains.
func TestRecordTellsContexts(t *testing.T) {
	var got trace.Record
	w := Writer{Counters: new(counters.Set), Trace: func(r *trace.Record) { got = *r }}
	path := &fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc000}
	b := fabric.NewBatch(4096, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65000})
	for i, op := range []roce.Opcode{roce.RDSendOnly, roce.RCSendOnly, roce.UCSendOnly, roce.UDSendOnly, roce.RDAcknowledge} {
		w.Headers = roce.Packet{BTH: roce.BTH{Opcode: op, DestQP: 9, PSN: ib.NewPSN(uint32(i))}}
		seg, payload, id := w.Append(b, path, 0)
		if len(payload) != 0 {
			t.Fatalf("%v: a payload of %d bytes", op, len(payload))
		}
		w.Seal(7, 8, seg, Prefix(path, len(seg), id))
		want := trace.Record{At: 7, Kind: trace.PacketOut, QPN: 8, EEC: op.Service() == roce.ServiceRD, PSN: ib.NewPSN(uint32(i)), Len: len(seg)}
		copy(want.Header[:], seg)
		if got != want {
			t.Errorf("%v: the record is %+v, want %+v", op, got, want)
		}
	}
}
