package hca

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/roce"
)

// TestFullSocketBufferCostsNoTimeout shows that the window finds its size by
// itself: the receiver takes no more than a small socket buffer holds of each
// burst, and the sender goes on after sequence NAKs. Only the end of the
// transfer, which nothing follows, may need the retry timer.
func TestFullSocketBufferCostsNoTimeout(t *testing.T) {
	for _, buffer := range []int{32 << 10, 64 << 10, 100 << 10} {
		for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
			t.Run(fmt.Sprintf("%d bytes, mtu %d", buffer, mtu.Bytes()), func(t *testing.T) {
				overflow(t, mtu, buffer)
			})
		}
	}
}

func overflow(t *testing.T, mtu ib.MTU, buffer int) {
	r := newRig(t, ib.RC, rigCap).connect(mtu)
	var at clock.Instant
	held, lost := 0, 0
	r.drop = func(from int, p *roce.Packet) bool {
		if from == 1 {
			return false
		}
		if at != r.now { // the receiver has read what was there
			at, held = r.now, 0
		}
		if held += max(len(p.Payload)+128, 512); held > buffer {
			lost++
			return true
		}
		return false
	}
	a, b := r.side[0], r.side[1]
	fill(a.buf, 5)
	for i := range 4 {
		r.post(0, ib.SendWR{
			WRID: uint64(i), Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.sge(i<<20, 1<<20)},
			RemoteAddr: b.mr.Addr() + uint64(i)<<20, RKey: b.mr.RKey(),
		})
	}
	done := 0
	r.run(time.Minute, func() bool {
		done += len(r.poll(0))
		return done == 4
	})
	c := a.hca.Counters()
	if done != 4 || !bytes.Equal(a.buf, b.buf) {
		t.Fatalf("%d of 4 WRITEs are done; the memory is equal: %v", done, bytes.Equal(a.buf, b.buf))
	}
	if lost == 0 {
		t.Fatal("the buffer never overflowed: the test shows nothing")
	}
	if c.LocalAckTimeoutErr > 1 {
		t.Errorf("%d timeouts, %d sequence NAKs, %d packets lost, %d sent again", c.LocalAckTimeoutErr, c.RcvdSeqErr, lost, c.RetransPkts)
	}
	t.Logf("%d timeouts, %d sequence NAKs, %d packets lost, %d sent again", c.LocalAckTimeoutErr, c.RcvdSeqErr, lost, c.RetransPkts)
}
