package packet

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// Writer writes the packets of a shard into batches. All senders of the shard
// share it and build one packet at a time, from Headers to Seal.
type Writer struct {
	Headers  roce.Packet // of the packet being built; filled by the caller
	Counters *counters.Set
	Trace    trace.Tracer // nil for none
	Rare     bool         // the tracer gets neither packets nor completions with success

	bare bool         // the packet being built needs no ICRC
	rec  trace.Record // scratch
}

// Append writes Headers at the end of the batch, followed by room for n bytes
// of payload and padding. It returns the segment and its payload, both valid
// until the next call of the batch or its port, except Unappend, and the
// segment's identification; nil if the batch is full. Then fill the payload and
// Seal, or remove the segment with the batch's Unappend.
func (w *Writer) Append(b *fabric.Batch, path *fabric.Path, n int) (seg, payload []byte, id int) {
	p := &w.Headers
	b.Aim(p.BTH.DestQP)
	seg, id = b.Append(path, roce.Size(p.BTH.Opcode, n))
	if seg == nil {
		return nil, nil, 0
	}
	w.bare = b.Bare()
	p.BTH.PadCnt = uint8(roce.Pad(n))
	h := p.PutHeaders(seg)
	payload = seg[h : h+n]
	clear(seg[h+n : len(seg)-roce.ICRCLen])
	return seg, payload, id
}

// Prefix returns the ICRC prefix of a segment on a path.
func Prefix(path *fabric.Path, size, id int) roce.Prefix {
	return roce.NewPrefix(path.Src, path.Dst, path.SrcPort, fabric.RoCEPort, size).WithID(uint16(id))
}

// Seal writes the ICRC of the segment that Append returned last, or zeros if the segment needs none.
// It counts the packet and records it for the QP, or the EE context, that sends it.
func (w *Writer) Seal(now clock.Instant, from ib.QPN, seg []byte, pre roce.Prefix) {
	if w.bare {
		clear(seg[len(seg)-roce.ICRCLen:])
	} else {
		roce.Seal(seg, pre)
	}
	w.Counters.SentPkts++
	if w.Trace != nil && !w.Rare {
		r := trace.Record{Kind: trace.PacketOut, PSN: w.Headers.BTH.PSN, Len: len(seg)}
		r.EEC = w.Headers.BTH.Opcode.Service() == roce.ServiceRD
		copy(r.Header[:], seg)
		w.Record(now, from, r)
	}
}

// Record passes a record about a QP or EE context to the tracer. The caller has checked that
// there is a tracer, which keeps the cost out of the data path.
func (w *Writer) Record(now clock.Instant, n ib.QPN, r trace.Record) {
	r.At, r.QPN = now, n
	w.rec = r
	w.Trace(&w.rec)
}
