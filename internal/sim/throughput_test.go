package sim

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestL1_LossCostsARoundTrip measures streams over a path of 10 Gb/s and 100 µs
// with the largest packets. Ideal is to send exactly what is lost once more, with
// the path never idle; a cumulative acknowledgement tells of one gap in a round
// trip, so of 5 % it tells too slowly.
func TestL1_LossCostsARoundTrip(t *testing.T) {
	for _, c := range []struct {
		code  ib.WROpcode
		loss  float64
		least float64 // of the ideal
	}{
		{ib.WRRDMAWrite, 0.001, 0.98}, {ib.WRRDMAWrite, 0.01, 0.95}, {ib.WRRDMAWrite, 0.05, 0.35},
		{ib.WRRDMARead, 0.001, 0.97}, {ib.WRRDMARead, 0.01, 0.88}, {ib.WRRDMARead, 0.05, 0.35},
	} {
		m := measurement{code: c.code, mtu: ib.MTU4096, bytes: 64 << 20}
		clean, err := m.run()
		if err != nil {
			t.Fatal(err)
		}
		m.loss = c.loss
		lossy, err := m.run()
		if err != nil {
			t.Fatal(err)
		}
		ideal := clean.gbps * (1 - c.loss)
		t.Logf("%v, %v of the packets lost: %.2f Gb/s, %.3f of the ideal %.2f, %d retries, %d timeouts", c.code, c.loss, lossy.gbps, lossy.gbps/ideal, ideal, lossy.retries, lossy.timeouts)
		if lossy.gbps < c.least*ideal || lossy.timeouts > 0 {
			t.Errorf("%v, %v of the packets lost: %.2f Gb/s and %d timeouts, want %v of %.2f and none", c.code, c.loss, lossy.gbps, lossy.timeouts, c.least, ideal)
		}
	}
}
