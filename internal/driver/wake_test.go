package driver

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// TestWhoLetsGoWakesTheGoroutine shows when a thread that releases the shard
// wakes the goroutine, which sleeps until a packet arrives: if there is more to
// send than fitted into the thread's round, or if the port is full and no
// thread waits for room.
func TestWhoLetsGoWakesTheGoroutine(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7) // no timer runs, which would wake it too
	a.idle(t)
	d := a.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	check := func(what string, want bool) {
		t.Helper()
		if d.needsWake() != want {
			t.Errorf("%s: the goroutine is woken: %t, want %t", what, !want, want)
		}
	}
	check("nothing to do", false)
	for range 4 {
		_, err := a.qp.PostSend(ib.SendWR{
			Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: a.mr.Addr(), Length: 16 << 10, LKey: a.mr.LKey()}},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		})
		must.Do(t, err)
	}
	a.hca.Shard().RingDoorbell(a.qp)
	check("a doorbell, which who lets go answers", false)
	if !a.hca.Shard().Transmit(d.Now(), 1, fabric.NewBatch(8<<10, a.port.Caps())) {
		t.Fatal("64 KiB fit into a batch of 8 KiB")
	}
	check("more to send", true)
	d.first.blocked = true
	check("the port is full", true)
	d.first.writing = true
	check("the port is full, and the goroutine waits for room", false)
	d.first.blocked, d.first.writing = false, false
}

// TestWhoLetsGoMindsDeadlines shows that a thread which leaves a deadline behind
// wakes the goroutine, if that means to sleep beyond it, and only then: nothing
// else would fire the timer.
func TestWhoLetsGoMindsDeadlines(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 20, 7) // 4.3 s
	a.idle(t)
	d := a.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.asleep
	defer func() { d.asleep = was }()
	_, err := a.qp.PostSend(ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: a.mr.Addr(), Length: 64, LKey: a.mr.LKey()}},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	})
	must.Do(t, err)
	sh := a.hca.Shard()
	sh.RingDoorbell(a.qp)
	sh.Transmit(d.Now(), 1, fabric.NewBatch(8<<10, a.port.Caps())) // it is lost
	due := sh.Deadline()
	if due == clock.Never {
		t.Fatal("no timer runs")
	}
	for _, c := range []struct {
		until clock.Instant
		want  bool
	}{{clock.Never, true}, {due + 1, true}, {due, false}, {due - 1, false}} {
		d.asleep = c.until
		if got := d.needsWake(); got != c.want {
			t.Errorf("a timer is due at %d, and the goroutine sleeps until %d: it is woken: %t, want %t", due, c.until, got, c.want)
		}
	}
}
