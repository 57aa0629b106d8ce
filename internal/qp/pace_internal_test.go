package qp

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// TestV17_Pacer sends whenever the pacer allows it, with random delays: no
// interval has more than the rate plus a burst, and if no delay is longer than a
// burst takes, the stream nearly reaches the rate.
func TestV17_Pacer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := uint64(rapid.SampledFrom([]int{1e4, 1e7, 1e9, 25e8, 1e10, 56_250e6, 99_999e6}).Draw(t, "bits per second"))
		p := newPacer(rate, uint64(rapid.SampledFrom([]int{0, 1, 4096, 1 << 20}).Draw(t, "burst")))
		size := rapid.IntRange(60, 4200).Draw(t, "size")
		lateness := rapid.Int64Range(0, int64(p.burst)).Draw(t, "lateness")
		begin := clock.Instant(time.Hour)
		p.next = begin
		now, sent := begin, 0
		for range 2000 {
			if !p.allows(now) {
				if last := p.next - 1; p.allows(last) {
					t.Fatal("it is ready before its time")
				}
				now = p.next.Add(time.Duration(rapid.Int64Range(0, lateness).Draw(t, "late")))
			}
			if !p.allows(now) {
				t.Fatalf("it is not ready at %v, its own time", p.next)
			}
			p.sent(now, size)
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
	p := newPacer(8e9, 10_000) // a byte each nanosecond
	now := clock.Instant(time.Second)
	n := 0
	for ; p.allows(now); n++ {
		if last := p.last(now, 1000); last != (n == 10) {
			t.Errorf("packet %d: no other may follow is %v", n, last)
		}
		p.sent(now, 1000)
	}
	if n != 11 || p.next != now+1000 {
		t.Errorf("%d packets go at once, the next after %v", n, p.next.Sub(now))
	}
	p.set(newPacer(8e6, 0))
	if p.allows(now) {
		t.Error("another rate forgets what was sent")
	}
	p.set(pacer{})
	if !p.allows(now) || p.last(now, 1<<20) {
		t.Error("without a rate it waits")
	}
}

// TestV17_PortRate shows that a rate which the port does not exceed paces
// nothing.
func TestV17_PortRate(t *testing.T) {
	env := Env{Limits: ModifyLimits{PortMbps: 40_000}}
	for name, want := range map[string]uint64{"2.5": 25e8, "30": 3e10, "40": 0, "100": 0, "max": 0} {
		r, err := ib.ParseRate(name)
		if err != nil {
			t.Fatal(err)
		}
		if p := env.staticPacer(r); p.rate != want {
			t.Errorf("%s Gb/s on a port of 40 paces at %d b/s, want %d", name, p.rate, want)
		}
	}
}
