package driver

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
)

// TestCloseWaitsForRoom shows that an adapter whose port is full when it closes still sends what is
// due, such as the DREP of a process that crashes, and that a port which stays full does not keep it.
func TestCloseWaitsForRoom(t *testing.T) {
	for _, times := range []int32{20, 1 << 30} {
		n := pipe.NewNetwork(pipe.Options{})
		a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
		a.connect(t, b, 0, 7)
		b.connect(t, a, 0, 7)
		a.port.blocks.Store(times)
		a.post(t, b, 64)
		a.do(t, func(now clock.Instant) { a.hca.Shard().Doorbell(now, a.qp) })
		if before := a.port.Stats().SentPackets; before != 0 {
			t.Fatalf("a full port sent %d packets", before)
		}
		if err := a.drv.Close(); err != nil {
			t.Fatal(err)
		}
		left, want := a.port.blocks.Load(), uint64(1)
		if times > 20 {
			want = 0
		}
		if sent := a.port.Stats().SentPackets; sent != want || (want == 1) != (left == 0) {
			t.Errorf("blocked %d times: the adapter sent %d packets before it closed, want %d", times, sent, want)
		}
		if err := a.drv.Drain(); !errors.Is(err, ib.ENODEV) {
			t.Errorf("a closed adapter drains with %v, want ENODEV", err)
		}
	}
}
