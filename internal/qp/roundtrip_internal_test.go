package qp

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// TestL1_RoundTrip shows what a round trip is learnt from, and after how long a
// requester probes.
func TestL1_RoundTrip(t *testing.T) {
	var rt roundTrip
	now := clock.Instant(1)
	psn := ib.NewPSN(1<<24 - 2)
	trip := func(d time.Duration) {
		rt.begin(psn, now)
		now = now.Add(d)
		psn = psn.Next()
		rt.end(psn, now)
	}
	want := func(what string, timeout, least time.Duration) {
		t.Helper()
		if got := rt.timeout(); got != timeout || rt.least != least {
			t.Errorf("%s: the timeout is %v and the least time %v, want %v and %v", what, got, rt.least, timeout, least)
		}
	}
	want("nothing is known", leastProbe, 0)
	trip(100 * time.Microsecond)
	want("the first: smoothed, and four times half of it", 300*time.Microsecond, 100*time.Microsecond)
	for range 100 {
		trip(100 * time.Microsecond)
	}
	want("without variance: no less than the least", leastProbe, 100*time.Microsecond)
	for range 100 {
		trip(time.Millisecond)
	}
	if got := rt.timeout(); got < 2*time.Millisecond-time.Microsecond || got > 2*time.Millisecond || rt.least != 100*time.Microsecond {
		t.Errorf("a longer path: the timeout is %v, want two round trips of 1 ms; the least time is %v", got, rt.least)
	}

	if trip(50 * time.Microsecond); rt.least != 50*time.Microsecond {
		t.Errorf("after a shorter round trip the least time is %v", rt.least)
	}

	rt = roundTrip{}
	trip(100 * time.Microsecond)
	rt.begin(psn, now)
	rt.begin(psn.Next(), now.Add(time.Hour))
	rt.end(psn, now.Add(time.Hour))
	want("what comes before the packet that is timed", 300*time.Microsecond, 100*time.Microsecond)
	rt.timing = false // it was sent again
	rt.end(psn.Add(2), now.Add(time.Hour))
	want("what was sent twice", 300*time.Microsecond, 100*time.Microsecond)

	rt.doubled = 3
	want("three probes without an answer", 2400*time.Microsecond, 100*time.Microsecond)
	rt.end(psn.Add(2), now)
	want("an answer", 300*time.Microsecond, 100*time.Microsecond)
	rt.begin(psn, now)
	rt.end(psn.Next(), now)
	if rt.least == 0 {
		t.Error("an answer within the resolution of the clock is taken for none")
	}
}
