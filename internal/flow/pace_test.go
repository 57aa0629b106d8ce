package flow

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/internal/clock"
)

// TestV17_Pacer sends whenever the pacer allows it, with random delays: no
// interval has more than the rate plus a burst, and if no delay is longer than a
// burst takes, the stream nearly reaches the rate.
func TestV17_Pacer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := uint64(rapid.SampledFrom([]int{1e4, 1e7, 1e9, 25e8, 1e10, 56_250e6, 99_999e6}).Draw(t, "bits per second"))
		p := NewPacer(rate, uint64(rapid.SampledFrom([]int{0, 1, 4096, 1 << 20}).Draw(t, "burst")))
		size := rapid.IntRange(60, 4200).Draw(t, "size")
		lateness := rapid.Int64Range(0, int64(p.burst)).Draw(t, "lateness")
		begin := clock.Instant(time.Hour)
		p.next = begin
		now, sent := begin, 0
		for range 2000 {
			if !p.Allows(now) {
				if last := p.next - 1; p.Allows(last) {
					t.Fatal("it is ready before its time")
				}
				now = p.next.Add(time.Duration(rapid.Int64Range(0, lateness).Draw(t, "late")))
			}
			if !p.Allows(now) {
				t.Fatalf("it is not ready at %v, its own time", p.next)
			}
			p.Sent(now, size)
			sent += size
			took := now.Sub(begin) + p.burst
			if most := float64(rate)/8*(took+1).Seconds() + float64(size) + 1; float64(sent) > most {
				t.Fatalf("%d bytes are sent in %v at %d b/s, with a burst of %v", sent, took, rate, p.burst)
			}
		}
		due := float64(rate) / 8 * now.Sub(begin).Seconds()
		if float64(sent) < 0.999*due-float64(rate)/8*p.burst.Seconds() {
			t.Fatalf("%d bytes are sent of %.0f that the rate allows", sent, due)
		}
	})
}

// TestV17_PacerCatchesUp shows that after a pause one burst may be sent, and
// then the rate applies.
func TestV17_PacerCatchesUp(t *testing.T) {
	p := NewPacer(8e9, 10_000) // a byte each nanosecond
	now := clock.Instant(time.Second)
	n := 0
	for ; p.Allows(now); n++ {
		if last := p.Last(now, 1000); last != (n == 10) {
			t.Errorf("packet %d: no other may follow is %v", n, last)
		}
		p.Sent(now, 1000)
	}
	if n != 11 || p.next != now+1000 {
		t.Errorf("%d packets go at once, the next after %v", n, p.next.Sub(now))
	}
	p.Set(NewPacer(8e6, 0))
	if p.Allows(now) {
		t.Error("another rate forgets what was sent")
	}
	p.Set(Pacer{})
	if !p.Allows(now) || p.Last(now, 1<<20) {
		t.Error("without a rate it waits")
	}
}
