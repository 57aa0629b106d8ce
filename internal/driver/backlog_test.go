package driver

import (
	"testing"

	"github.com/softhca/softhca/internal/clock"
)

// TestDueTimersWaitForWhatArrived shows how often the port is read before a due
// timer fires: again as long as packets arrive, because one may be the packet
// that the timer waits for, and no more.
func TestDueTimersWaitForWhatArrived(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 20, 7) // and b, in RESET, answers nothing
	a.post(t, b, 8)
	reads := 0
	count := func() { reads++ }
	a.do(t, func(clock.Instant) {
		a.port.onRecv.Store(&count)
		defer a.port.onRecv.Store(nil)
		due := a.hca.Shard().Deadline()
		if due == clock.Never {
			t.Fatal("no timer runs")
		}
		if n, now := a.drv.receive(due); n != 0 || now != due {
			t.Errorf("%d datagrams came, the time is %v; want none at %v", n, now, due)
		}
		if after := a.hca.Shard().Deadline(); after <= due {
			t.Errorf("the timer of %v did not fire: %v", due, after)
		}
	})
	if reads != 1 {
		t.Errorf("the port was read %d times though nothing came, want 1", reads)
	}
}
