package sim

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
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
		{ib.WRRDMAWrite, 0.001, 0.98}, {ib.WRRDMAWrite, 0.01, 0.95}, {ib.WRRDMAWrite, 0.05, 0.42},
		{ib.WRRDMARead, 0.001, 0.97}, {ib.WRRDMARead, 0.01, 0.95}, {ib.WRRDMARead, 0.05, 0.42},
	} {
		m := measurement{code: c.code, mtu: ib.MTU4096, bytes: 64 << 20}
		clean, err := m.run()
		must.Do(t, err)
		m.loss = c.loss
		lossy, err := m.run()
		must.Do(t, err)
		ideal := clean.gbps * (1 - c.loss)
		t.Logf("%v, %v of the packets lost: %.2f Gb/s, %.3f of the ideal %.2f, %d retries, %d timeouts", c.code, c.loss, lossy.gbps, lossy.gbps/ideal, ideal, lossy.retries, lossy.timeouts)
		if lossy.gbps < c.least*ideal || lossy.timeouts > 0 {
			t.Errorf("%v, %v of the packets lost: %.2f Gb/s and %d timeouts, want %v of %.2f and none", c.code, c.loss, lossy.gbps, lossy.timeouts, c.least, ideal)
		}
	}
}

// TestL1_QueueStaysShort streams over a path of 1 Gb/s and 100 µs, which 13 KiB fill,
// from a window of 256 KiB: the queue before the path never exceeds the burst of a
// late peer, and the path is never idle.
func TestL1_QueueStaysShort(t *testing.T) {
	const bytes, settled, bound = 32 << 20, 4 << 20, 1200 * time.Microsecond
	for _, code := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		m := measurement{code: code, mtu: ib.MTU4096}
		w, e := m.start()
		w.ports.rate = 1e9
		from := e.node // of the data
		if code == ib.WRRDMARead {
			from = e.peer.node
		}
		begin, done, waits := w.Now, 0, time.Duration(0)
		for w.Violation == nil && done < bytes {
			for len(e.sq) < measureDepth && e.transfer(code) {
			}
			before := w.Completions
			for w.Completions == before && w.Step(w, begin.Add(measureLimit)) {
				if done > settled {
					waits = max(waits, from.busy.Sub(w.Now))
				}
			}
			done += int(w.Completions-before) * measureSize
			e.node.poll(e.sendQ, len(w.wcs))
		}
		if w.Violation != nil {
			t.Fatal(w.Violation)
		}
		gbps := float64(done) * 8 / w.Now.Sub(begin).Seconds() / 1e9
		t.Logf("%v: %.3f Gb/s, a packet waits up to %v", code, gbps, waits)
		if gbps < 0.96 || waits > bound {
			t.Errorf("%v: %.3f Gb/s and a packet waits up to %v, want 0.96 and no more than %v", code, gbps, waits, bound)
		}
	}
}
