package flow

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// TestRetryCounts shows that retries in a row are bounded, and that progress allows all again.
func TestRetryCounts(t *testing.T) {
	timer, rnr := clock.Never, clock.Never
	r := NewRetry(&timer, &rnr)
	if r.Count() {
		t.Error("a retry without any allowed")
	}
	r.SetRetries(2)
	r.SetRNRRetries(1)
	for i, want := range []bool{true, true, false} {
		if got := r.Count(); got != want {
			t.Errorf("retry %d of 2: %v, want %v", i+1, got, want)
		}
	}
	if !r.Repeated() || r.Exhausted(false, false) {
		t.Error("a further report of the same loss is no retry")
	}
	if !r.Progress(ms(1), false) || r.Repeated() || !r.Count() {
		t.Error("progress does not allow the retries again")
	}
	if !r.Refused(ms(1), time.Millisecond) || !r.Waiting() || rnr != ms(2) || timer != clock.Never {
		t.Errorf("an RNR retry of 1: waiting %v until %v, timer at %v", r.Waiting(), rnr, timer)
	}
	if r.Exhausted(true, false) {
		t.Error("an RNR NAK during the wait counts")
	}
	if !r.Ready(ms(2)) || r.Ready(ms(2)) {
		t.Error("the wait ends once")
	}
	if !r.Exhausted(true, false) || r.Exhausted(true, true) || r.Refused(ms(3), time.Millisecond) {
		t.Error("a second RNR retry in a row")
	}
	r.SetRNRRetries(ib.RNRInfiniteRetry)
	for range 20 {
		if !r.Refused(ms(3), time.Millisecond) {
			t.Fatal("RNR retries without a limit end")
		}
	}
}

// TestRetryTimer shows when the retry timer runs: from the first packet, again from each
// acknowledgement while packets are outstanding, and never with a timeout of 0.
func TestRetryTimer(t *testing.T) {
	timer, rnr := clock.Never, clock.Never
	r := NewRetry(&timer, &rnr)
	if r.Sent(ms(1)); timer != clock.Never {
		t.Errorf("the timer runs out at %v, without a timeout", timer)
	}
	r.SetTimeout(10*time.Millisecond, 0)
	r.Sent(ms(1))
	if r.Sent(ms(2)); timer != ms(11) {
		t.Errorf("the timer runs out at %v, want 10 ms after the first packet", timer)
	}
	if r.Progress(ms(3), true); timer != ms(13) {
		t.Errorf("the timer runs out at %v, want 10 ms after the acknowledgement", timer)
	}
	if r.Progress(ms(4), false); timer != clock.Never {
		t.Errorf("the timer runs out at %v, with nothing outstanding", timer)
	}
	r.SetRNRRetries(3)
	r.Refused(ms(5), time.Millisecond)
	if r.Progress(ms(5), true) || timer != clock.Never {
		t.Error("progress during an RNR wait starts the timer")
	}
	if r.Restart(ms(5)) {
		t.Error("another path ends the RNR wait")
	}
	r.Stop()
	if !r.Restart(ms(6)) || timer != ms(16) || !r.Repeated() {
		t.Errorf("on another path the timer runs out at %v", timer)
	}
	if r.Reset(); r.Count() || r.Repeated() {
		t.Error("a reset leaves retries")
	}
}

// TestRetryTimerSpeedup makes the retry timer shorter after it has expired, until there is progress.
func TestRetryTimerSpeedup(t *testing.T) {
	timer, rnr := clock.Never, clock.Never
	r := NewRetry(&timer, &rnr)
	r.SetTimeout(5*time.Second, 50)
	r.SetRetries(7)
	want := func(why string, at clock.Instant) {
		t.Helper()
		if timer != at {
			t.Errorf("%s: the timer runs out at %v, want %v", why, timer, at)
		}
	}
	r.Sent(ms(0))
	want("at first", ms(5000))
	r.Count()
	r.Start(ms(1))
	want("after a NAK", ms(5001))
	r.Expired()
	r.Start(ms(5001))
	want("after it has expired", ms(5101))
	r.Progress(ms(5102), true)
	want("after an acknowledgement", ms(10102))
	r.Expired()
	r.Stop()
	r.Start(ms(0))
	want("when nothing is in flight", ms(5000))
	r.SetTimeout(100*time.Millisecond, 50)
	r.Expired()
	r.Start(ms(0))
	want("with a short timeout", ms(20))
	r.SetTimeout(10*time.Millisecond, 50)
	r.Start(ms(0))
	want("with a shorter timeout than the least", ms(10))
	r.SetTimeout(10*time.Second, 0)
	r.Start(ms(0))
	want("without speedup", ms(10000))
}
