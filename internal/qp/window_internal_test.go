package qp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// probeRig is some QPs that share the window to one peer, which another has
// filled for ever.
func probeRig(n int) (*Window, []*QP) {
	env := &Env{Wake: func(*QP) {}}
	w := NewWindowTable(4 * probeChunk).hold(netip.MustParseAddr("10.0.0.2"))
	w.limit, w.inFlight = minWindow, minWindow
	qps := make([]*QP, n)
	for i := range qps {
		q := &QP{ep: endpoint{env: env, typ: ib.RC, mtu: 1024}}
		q.req = requester{ep: &q.ep, qp: q, share: share{qp: q, window: w}}
		q.ep.timers.stopAll()
		qps[i] = q
	}
	return w, qps
}

const probeChunk = 64 << 10

// TestProbe shows that a QP with a long READ, which others leave less room
// than it needs each time that there is some, sends in the end: being offered
// too little does not start its wait anew.
func TestProbe(t *testing.T) {
	w, qps := probeRig(1)
	q := qps[0]
	for now := clock.Instant(1); now < clock.Instant(2*probeTimeout); now = now.Add(time.Millisecond) {
		if q.Deadline() <= now {
			q.Advance(now)
		}
		if q.req.share.admit(now, probeChunk, false, false) {
			if q.Deadline() != clock.Never || q.req.share.probing {
				t.Error("the request goes, and its wait is not over")
			}
			return
		}
		if q.Deadline() == clock.Never && !q.req.share.probing {
			t.Fatal("the request waits, and nothing says so")
		}
		w.inFlight -= minPacketCost // somebody's packet is acknowledged
		w.wake()
		w.inFlight += minPacketCost // and the next one goes
	}
	t.Errorf("nothing is sent within %v", 2*probeTimeout)
}

// TestProbeOneAtATime shows that of many QPs that wait for more room than
// there is, one at a time goes without: the next when that one has its answer,
// or has waited for it for long.
func TestProbeOneAtATime(t *testing.T) {
	_, qps := probeRig(8)
	gone, now := 0, clock.Instant(0)
	run := func(d time.Duration) (last *QP) {
		for end := now.Add(d); now < end; now = now.Add(time.Millisecond) {
			for _, q := range qps {
				if q.Deadline() <= now {
					q.Advance(now)
				}
				if s := &q.req.share; s.cost == 0 && s.admit(now, probeChunk, false, false) {
					s.charge(probeChunk)
					gone, last = gone+1, q
				}
			}
		}
		return last
	}
	first := run(proberTimeout / 2)
	if gone != 1 {
		t.Fatalf("%d requests went over the limit at once, want 1", gone)
	}
	first.req.share.credit(1, 1, packetCost(1024))
	if run(2 * probeTimeout); gone != 2 {
		t.Errorf("%d requests went after the first was answered, want 2", gone)
	}
	if run(proberTimeout); gone != 3 {
		t.Errorf("%d requests went after the second had no answer for %v, want 3", gone, proberTimeout)
	}
}
