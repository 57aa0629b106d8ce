package hca_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// packetKinds are what the data path benchmarks measure. Each message is one
// packet.
var packetKinds = []struct {
	name string
	op   ib.WROpcode
	n    int
}{
	{"WRITE/64", ib.WRRDMAWrite, 64},
	{"WRITE/4096", ib.WRRDMAWrite, 4096},
	{"SEND/64", ib.WRSend, 64},
	{"SEND/4096", ib.WRSend, 4096},
	{"READ/64", ib.WRRDMARead, 64},
	{"READ/4096", ib.WRRDMARead, 4096},
	{"FETCHADD", ib.WRAtomicFetchAdd, 8},
}

// burst is how many messages are under way together; READs and atomics are
// bounded by the depth of the connection.
func burst(op ib.WROpcode) int {
	if op == ib.WRRDMARead || op == ib.WRAtomicFetchAdd {
		return 4
	}
	return 16
}

// BenchmarkPacket moves messages of one packet and reports what each of the
// three parts of a queue pair takes of it: the requester (post and transmit),
// the responder (receive, execute and answer), and the completer (receive the
// answer, complete and poll). Allocations are those of all three.
func BenchmarkPacket(b *testing.B) {
	for _, k := range packetKinds {
		b.Run(k.name, func(b *testing.B) {
			f := rig.NewFlight(b, k.op, k.n)
			var requester, responder, completer time.Duration
			b.ReportAllocs()
			b.SetBytes(int64(k.n))
			b.ResetTimer()
			for left := b.N; left > 0; {
				n := min(left, burst(k.op))
				left -= n
				start := time.Now()
				f.Request(n)
				sent := time.Now()
				f.Arrive(0)
				f.Respond()
				answered := time.Now()
				f.Arrive(1)
				f.Complete(n)
				requester += sent.Sub(start)
				responder += answered.Sub(sent)
				completer += time.Since(answered)
			}
			for name, d := range map[string]time.Duration{
				"requester-ns/op": requester, "responder-ns/op": responder, "completer-ns/op": completer,
			} {
				b.ReportMetric(float64(d)/float64(b.N), name)
			}
		})
	}
}

// BenchmarkKeptResults makes READs one at a time over connections whose
// responder stores a varying number of results: stored results are never moved,
// so each READ costs the same.
func BenchmarkKeptResults(b *testing.B) {
	for _, depth := range []uint8{1, 16, 128} {
		b.Run(strconv.Itoa(int(depth)), func(b *testing.B) {
			f := rig.NewFlightOn(rig.NewDeep(b, depth, 0), ib.WRRDMARead, 8)
			for range 2 * int(depth) {
				f.Trip()
			}
			b.ReportAllocs()
			for b.Loop() {
				f.Trip()
			}
		})
	}
}

// manyQPs is how many connected queue pairs the memory of one is measured
// with, and maxQPBytes what one may take.
const (
	manyQPs    = 10000
	maxQPBytes = 16 << 10
)

// connectMany returns a side with n queue pairs in RTS, with the default queue
// sizes.
func connectMany(tb testing.TB, n int) (*rig.Side, []*qp.QP) {
	r := rig.New(tb, ib.RC, defaultCap)
	s := r.Sides[0]
	qps := make([]*qp.QP, n)
	for i := range qps {
		var err error
		qps[i], err = s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: defaultCap})
		rig.Must(tb, err)
		s.QP = qps[i]
		r.Walk(0, r.Attrs(0, ib.MTU4096), ib.RTS)
	}
	return s, qps
}

var defaultCap = ib.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}

// bytesPerQP returns what a connected queue pair takes of the heap, with its
// share of the adapter's tables.
func bytesPerQP(tb testing.TB, n int) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, qps := connectMany(tb, n)
	fixed := uint64(len(s.Buf)) * 2 // the buffers of the rig
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	runtime.KeepAlive(qps)
	return float64(after.HeapAlloc-before.HeapAlloc-fixed) / float64(n)
}

// TestQPMemory bounds the memory of a queue pair.
func TestQPMemory(t *testing.T) {
	if got := bytesPerQP(t, manyQPs); got > maxQPBytes {
		t.Errorf("a connected queue pair takes %.0f bytes, at most %d are allowed", got, maxQPBytes)
	}
}

// BenchmarkQPMemory prints the memory of each of 10,000 connected queue pairs
// and the time to make one and connect it.
func BenchmarkQPMemory(b *testing.B) {
	var size float64
	for b.Loop() {
		size = bytesPerQP(b, manyQPs)
	}
	b.ReportMetric(size, "B/QP")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N*manyQPs), "ns/QP")
}

// BenchmarkVerify checks the ICRCs of a datagram of 15 packets of 4 KiB, whose
// identifications the port shows, or hides: then they are derived, which reads
// each packet once, whatever they are.
func BenchmarkVerify(b *testing.B) {
	for _, c := range []struct {
		name  string
		known bool
		id    func(k int) uint16
	}{
		{"shown", true, func(k int) uint16 { return uint16(k) }},
		{"zero", false, func(int) uint16 { return 0 }},
		{"index", false, func(k int) uint16 { return uint16(k) }},
		{"counter", false, func(k int) uint16 { return uint16(40000 + k) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := rig.NewSolo(b, rig.SoloConfig{Type: ib.RC})
			var d fabric.Datagram
			var all []byte
			for k := range 15 {
				s.ID = c.id(k)
				d = s.Datagram(s.Packet(roce.RCRDMAWriteMiddle, uint32(k), make([]byte, 4096)))
				all = append(all, d.Bytes...)
			}
			d.Stride, d.Bytes, d.ID, d.IDKnown = len(d.Bytes), all, 0, c.known
			var v packet.Verifier
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				v.Begin(&d)
				for off, k := 0, 0; off < len(d.Bytes); k++ {
					var seg []byte
					seg, off = d.Segment(off)
					if _, ok := v.Verify(&d, seg, k); !ok {
						b.Fatal("an intact packet is refused")
					}
				}
			}
		})
	}
}
