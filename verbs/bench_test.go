package verbs

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// benchWrite keeps depth WRITEs of n bytes outstanding over UDP on the
// loopback interface, between two adapters of one process, posted in lists.
func benchWrite(b *testing.B, n, depth, list int) {
	x := newEndpoint(b, Config{Addr: "127.0.82.1"}, ib.RC)
	y := newEndpoint(b, Config{Addr: "127.0.82.2"}, ib.RC)
	connect(b, x, y, nil)
	wr := SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []SGE{x.mr.SGE(0, uint32(n))},
		RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
	}
	wrs := make([]SendWR, list)
	for i := range wrs {
		wrs[i] = wr
	}
	wcs := make([]WC, 64)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	b.ResetTimer()
	posted, done := 0, 0
	for done < b.N {
		for posted < b.N && posted-done <= depth-list {
			if err := x.qp.PostSend(wrs...); err != nil {
				b.Fatal(err)
			}
			posted += list
		}
		k := x.cq.Poll(wcs)
		for _, wc := range wcs[:k] {
			if wc.Status != ib.WCSuccess {
				b.Fatal(wc.Status)
			}
		}
		done += k
	}
}

func BenchmarkWrite1MiB(b *testing.B) { benchWrite(b, 1<<20, 8, 1) }

func BenchmarkWrite64B(b *testing.B) { benchWrite(b, 64, 64, 1) }

func BenchmarkWrite64BList16(b *testing.B) { benchWrite(b, 64, 512, 16) }

func BenchmarkWrite64BList64(b *testing.B) { benchWrite(b, 64, 512, 64) }
