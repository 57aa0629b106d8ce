package flow

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// trips measures a round trip repeatedly.
type trips struct {
	*testing.T
	RoundTrip
	now clock.Instant
	una ib.PSN
}

// take has a packet acknowledged after a time.
func (t *trips) take(d time.Duration) {
	t.Begin(t.una, t.now)
	t.now = t.now.Add(d)
	t.una = t.una.Next()
	t.End(t.una, t.now)
}

func (t *trips) want(what string, timeout, least time.Duration) {
	t.Helper()
	if got := t.Timeout(false); got != timeout || t.least != least {
		t.Errorf("%s: the timeout is %v and the least time %v, want %v and %v", what, got, t.least, timeout, least)
	}
}

// TestL1_RoundTrip shows which packets measure the round trip, and when a
// requester probes.
func TestL1_RoundTrip(t *testing.T) {
	rt := trips{T: t, now: 1, una: ib.NewPSN(1<<24 - 2)}
	rt.want("nothing is known", firstProbe, 0)
	rt.take(time.Millisecond)
	rt.want("the first: smoothed, and four times half of it", 3*time.Millisecond, time.Millisecond)
	for range 100 {
		rt.take(time.Millisecond)
	}
	if got := rt.Timeout(false); got != 2*time.Millisecond {
		t.Errorf("without variance: the timeout is %v, want two round trips of 1 ms", got)
	}
	for range 100 {
		rt.take(100 * time.Microsecond)
	}
	rt.want("a shorter path: no less than the least", leastProbe, 100*time.Microsecond)

	rt = trips{T: t, now: 1}
	rt.take(time.Millisecond)
	rt.Begin(rt.una, rt.now)
	rt.Begin(rt.una.Next(), rt.now.Add(time.Hour))
	rt.End(rt.una, rt.now.Add(time.Hour))
	rt.want("what comes before the packet that is timed", 3*time.Millisecond, time.Millisecond)
	rt.timing = false // it was sent again
	rt.End(rt.una.Add(2), rt.now.Add(time.Hour))
	rt.want("what was sent twice", 3*time.Millisecond, time.Millisecond)

	rt.doubled = 3
	rt.want("three probes without an answer", 24*time.Millisecond, time.Millisecond)
	rt.End(rt.una.Add(2), rt.now)
	rt.want("an answer", 3*time.Millisecond, time.Millisecond)
	rt = trips{T: t, now: 1}
	if rt.take(0); rt.least == 0 {
		t.Error("an answer within the resolution of the clock is taken for none")
	}
}

// TestL1_LatePeer shows that the requester waits longer for a peer that was
// late, up to a bound, and less again when it has long been punctual.
func TestL1_LatePeer(t *testing.T) {
	rt := trips{T: t, now: 1}
	rt.take(100 * time.Microsecond)
	for range 10 {
		rt.Spurious()
	}
	rt.want("late ten times", leastProbe<<lateDouble, 100*time.Microsecond)
	for range calmTrips - 1 {
		rt.take(100 * time.Microsecond)
	}
	rt.want("not yet in time for long enough", leastProbe<<lateDouble, 100*time.Microsecond)
	rt.take(100 * time.Microsecond)
	rt.want("in time for long", leastProbe<<(lateDouble-1), 100*time.Microsecond)
	for range calmTrips - 1 {
		rt.take(100 * time.Microsecond)
	}
	rt.Spurious()
	rt.take(100 * time.Microsecond)
	rt.want("late again in the meantime", leastProbe<<lateDouble, 100*time.Microsecond)
	for range 10 * calmTrips {
		rt.take(100 * time.Microsecond)
	}
	rt.want("never late any more", leastProbe, 100*time.Microsecond)
	if got := rt.Timeout(true); got != leastProbe/4 {
		t.Errorf("when the peer has just said that something is missing, the timeout is %v, want %v", got, leastProbe/4)
	}
}
