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
func probeRig(n int) (*peer, []*QP) {
	env := &Env{Wake: func(*QP) {}}
	w := NewPeerTable(4 * probeChunk).hold(netip.MustParseAddr("10.0.0.2"))
	w.limit, w.inFlight = minWindow, minWindow
	qps := make([]*QP, n)
	for i := range qps {
		q := &QP{ep: endpoint{env: env, typ: ib.RC, mtu: 1024}}
		q.req = requester{ep: &q.ep, qp: q, share: share{qp: q, peer: w}}
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
		if q.req.share.admit(now, probeChunk, false) {
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
				if s := &q.req.share; s.cost == 0 && s.admit(now, probeChunk, false) {
					s.charge(probeChunk, 1)
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

// TestL1_LossIsNoFullBuffer shows which losses make a window smaller: those of
// one packet in a hundred do not, those of a quarter do, since that much overflows
// a buffer. Where everything is sent again after each, the second within a window
// does. And a window shrinks a little, down to a batch, to make a queue shorter.
func TestL1_LossIsNoFullBuffer(t *testing.T) {
	const limit, batch = 256 << 10, 64 << 10
	start := func() (*peer, *share) {
		w, qps := probeRig(1)
		w.limit, w.most, w.inFlight = limit, limit, 0
		return w, &qps[0].req.share
	}
	send := func(s *share, n, lost int) {
		for i := range n {
			s.charge(minPacketCost, 1)
			if i%(n/max(lost, 1)) == 0 && lost > 0 {
				s.lost(1)
			}
			s.credit(1, 1, minPacketCost)
		}
	}
	w, s := start()
	if send(s, 100000, 1000); w.limit != limit {
		t.Errorf("one packet of a hundred is lost, and the window is %d bytes, want %d", w.limit, limit)
	}
	if send(s, 512, 128); w.limit > limit*5/8 {
		t.Errorf("a quarter of the packets is lost, and the window is %d bytes, want no more than %d", w.limit, limit*5/8)
	}
	for range 100 {
		send(s, 512, 128)
	}
	if w.limit < minWindow || w.limit > 2*minWindow {
		t.Errorf("a quarter of the packets is lost for long, and the window is %d bytes, want %d", w.limit, minWindow)
	}

	w, s = start()
	for range 10 {
		send(s, limit/minPacketCost, 0)
		s.lostAll()
	}
	if w.limit != limit {
		t.Errorf("everything was sent again once in a window, which is %d bytes, want %d", w.limit, limit)
	}
	send(s, limit/minPacketCost/2, 0)
	if s.lostAll(); w.limit != limit/2 {
		t.Errorf("everything was sent again twice within a window, which is %d bytes, want %d", w.limit, limit/2)
	}

	w, s = start()
	if s.crowded(batch); w.limit != limit-limit/8 {
		t.Errorf("once crowded, the window is %d bytes, want %d", w.limit, limit-limit/8)
	}
	for range 100 {
		s.crowded(batch)
	}
	if w.limit != batch {
		t.Errorf("crowded for long, the window is %d bytes, want %d", w.limit, batch)
	}
	w.limit = minWindow
	if s.crowded(batch); w.limit != minWindow {
		t.Errorf("crowded, a window of less than a batch is %d bytes, want %d", w.limit, minWindow)
	}
}
