package qp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// TestFlowPatience shows that a QP with a long READ, which others leave less
// room than it needs each time that there is some, sends in the end: being
// offered too little does not start its wait anew.
func TestFlowPatience(t *testing.T) {
	const chunk = 64 << 10
	env := &Env{Settings: Settings{WindowBytes: 4 * chunk}, Wake: func(*QP) {}}
	f := NewFlowTable(env.Settings.WindowBytes).hold(netip.MustParseAddr("10.0.0.2"))
	f.limit = minWindow
	f.inFlight = minWindow // of others
	q := &QP{env: env, typ: ib.RC, mtu: 1024, flow: f}
	q.timers.stopAll()
	for env.Now = 1; env.Now < clock.Instant(2*flowPatience); env.Now = env.Now.Add(time.Millisecond) {
		if q.Deadline() <= env.Now {
			q.Advance(env.Now)
		}
		if q.admitFlow(chunk) {
			if q.Deadline() != clock.Never || q.flowHolds() {
				t.Error("the request goes, and its wait is not over")
			}
			return
		}
		if !q.flowHolds() {
			t.Fatal("the request waits, and nothing says so")
		}
		f.inFlight -= minPacketCost // somebody's packet is acknowledged
		f.wake(env.Wake)
		f.inFlight += minPacketCost // and the next one goes
	}
	t.Errorf("nothing is sent within %v", 2*flowPatience)
}

// TestOverdueOneAtATime shows that of many QPs that wait for more room than
// there is, one at a time goes without: the next when that one has its answer,
// or has waited for it for long.
func TestOverdueOneAtATime(t *testing.T) {
	const chunk = 64 << 10
	env := &Env{Settings: Settings{WindowBytes: 4 * chunk}, Wake: func(*QP) {}}
	f := NewFlowTable(env.Settings.WindowBytes).hold(netip.MustParseAddr("10.0.0.2"))
	f.limit = minWindow
	f.inFlight = minWindow // of another, for ever
	qps := make([]*QP, 8)
	for i := range qps {
		qps[i] = &QP{env: env, typ: ib.RC, mtu: 1024, flow: f}
		qps[i].timers.stopAll()
	}
	gone := 0
	run := func(d time.Duration) (last *QP) {
		for end := env.Now.Add(d); env.Now < end; env.Now = env.Now.Add(time.Millisecond) {
			for _, q := range qps {
				if q.Deadline() <= env.Now {
					q.Advance(env.Now)
				}
				if q.inFlow.cost == 0 && q.admitFlow(chunk) {
					q.charge(chunk)
					gone, last = gone+1, q
				}
			}
		}
		return last
	}
	first := run(overPatience / 2)
	if gone != 1 {
		t.Fatalf("%d requests went over the limit at once, want 1", gone)
	}
	first.credited(1, 1)
	if run(2 * flowPatience); gone != 2 {
		t.Errorf("%d requests went after the first was answered, want 2", gone)
	}
	if run(overPatience); gone != 3 {
		t.Errorf("%d requests went after the second had no answer for %v, want 3", gone, overPatience)
	}
}
