package observe

import (
	"math"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/restrack"
)

// TestW1_Quantiles interpolates quantiles of histograms, some of which a writer has damaged.
func TestW1_Quantiles(t *testing.T) {
	var h Histogram
	if d, ok := h.Quantile(0.5); ok || d != 0 {
		t.Errorf("nothing has the median %v", d)
	}
	h[restrack.Bucket(3*time.Microsecond)] = 100 // 2.048 to 4.096 µs
	for p, want := range map[float64]time.Duration{0: 2048, 0.25: 2560, 0.5: 3072, 1: 4096, 2: 4096, -1: 2048} {
		if d, ok := h.Quantile(p); !ok || d != want {
			t.Errorf("quantile %v is %v, want %v", p, d, want)
		}
	}
	h[0], h[restrack.LatencyBuckets-1] = 100, 1
	last := restrack.BucketBound(restrack.LatencyBuckets - 2)
	for p, want := range map[float64]time.Duration{0.001: 1, 0.25: 129, 0.999: last, 1: last} {
		if d, ok := h.Quantile(p); !ok || d != want {
			t.Errorf("of three buckets quantile %v is %v, want %v", p, d, want)
		}
	}
	for i := range h {
		h[i] = math.MaxUint64
	}
	if d, ok := h.Quantile(0.99); !ok || d <= 0 || d > last {
		t.Errorf("of full buckets quantile 0.99 is %v", d)
	}
}

// TestW1_Changes subtracts the counters of two reads, and takes a queue pair with less of them for
// a new one.
func TestW1_Changes(t *testing.T) {
	is, was := QP{Type: ib.RC}, QP{Type: ib.RC}
	was.SentMessages, was.SentBytes, was.Latency[3] = 10, 1000, 9
	is.SentMessages, is.SentBytes, is.Latency[3], is.RcvdMessages, is.Timeouts = 30, 5000, 10, 4, 1
	c := is.Change(&was, 2*time.Second)
	if c.SentRate() != 10 || c.SentBits() != 16000 || c.RcvdRate() != 2 || c.Timeouts != 1 || c.Latency.Total() != 1 {
		t.Errorf("the change is %+v", c)
	}
	for _, before := range []*QP{nil, {Type: ib.UD}, {Type: ib.RC, QPCounts: restrack.QPCounts{SentMessages: 31}}} {
		if c := is.Change(before, time.Second); c.SentMessages != 30 || c.Latency[3] != 10 {
			t.Errorf("a new queue pair sent %d messages, want 30", c.SentMessages)
		}
	}
	if PerSecond(5, 0) != 0 || PerSecond(5, -1) != 0 {
		t.Error("there is a rate without time")
	}
	a, b := &Adapter{At: time.Unix(10, 0)}, &Adapter{At: time.Unix(12, 0)}
	b.Counters.SentPkts, b.Counters.Drops[counters.NumDrops-1], b.Port.SentBytes, b.Port.Near[fabric.NearPeers] = 7, 8, 9, 10
	b.Port.Near[fabric.NearSent] = 11
	d := b.Change(a)
	if d.Elapsed != 2*time.Second || d.Counters.SentPkts != 7 || d.Counters.Drops[counters.NumDrops-1] != 8 || d.Port.SentBytes != 9 || d.Port.Near[fabric.NearSent] != 11 || d.Port.Near[fabric.NearPeers] != 0 {
		t.Errorf("the change of the adapter is %+v", d)
	}
	if !a.Same(b) || a.Same(&Adapter{PID: 1}) || a.Same(&Adapter{Started: time.Unix(1, 0)}) {
		t.Error("adapters are confused")
	}
}
