package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestChunkIsAQuarterOfTheWindow shows that the responses to one READ request
// take about a quarter of the largest window, and that a request asks for at
// least one packet.
func TestChunkIsAQuarterOfTheWindow(t *testing.T) {
	for _, c := range []struct{ window, mtu, want int }{
		{256 << 10, 1024, 56}, {256 << 10, 4096, 15}, {1 << 20, 256, 512}, {8 << 10, 4096, 1},
	} {
		if got := newChunkSize(c.window, c.mtu); got != chunkSize(c.want) {
			t.Errorf("with a window of %d bytes and a path MTU of %d a READ request asks for %d packets, want %d", c.window, c.mtu, got, c.want)
		}
	}
}

// TestReadIsCutIntoRequests cuts READs of all lengths: their requests are one
// chunk long, except the last, which is between half a chunk plus a packet and
// one and a half chunks; a shorter READ is one request.
func TestReadIsCutIntoRequests(t *testing.T) {
	for size := uint32(1); size <= 16; size++ {
		c := chunkSize(size)
		for n := uint32(1); n <= 4*size; n++ {
			w := &begunWR{first: ib.NewPSN(1<<24 - 3)}
			w.last = w.first.Add(n - 1)
			requests := uint32(0)
			for p := w.first; p.Diff(w.last) <= 0; requests++ {
				first, last := c.at(w, p)
				got := last.Distance(first) + 1
				for q := first; q.Diff(last) <= 0; q = q.Next() {
					if a, b := c.at(w, q); a != first || b != last {
						t.Fatalf("a READ of %d packets in chunks of %d: packet %d is in another request than those beside it", n, size, q.Distance(w.first))
					}
				}
				ends := last == w.last
				if first != p || !ends && got != size || got > size+size/2 || ends && requests > 0 && got <= size/2 {
					t.Fatalf("a READ of %d packets in chunks of %d: a request of %d", n, size, got)
				}
				p = last.Next()
			}
			if got := c.requests(w); got != requests {
				t.Errorf("a READ of %d packets in chunks of %d is said to be %d requests, and is %d", n, size, got, requests)
			}
		}
	}
}
