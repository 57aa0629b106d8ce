package flow

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// sender has a share, and counts how often it is woken.
type sender struct {
	Share
	at    clock.Instant // the timer of the share
	woken int
}

func (s *sender) Wake() { s.woken++ }

// advance fires the timer if it is due.
func (s *sender) advance(now clock.Instant) {
	if s.at <= now {
		s.at = clock.Never
		s.Timeout(now)
	}
}

// probeRig returns some senders to one peer whose window another one has filled for
// ever.
func probeRig(n int) (*peer, []*sender) {
	p := NewTable(4 * probeChunk).hold(netip.MustParseAddr("10.0.0.2"))
	p.buffer.limit, p.inFlight = minWindow, minWindow
	senders := make([]*sender, n)
	for i := range senders {
		s := &sender{at: clock.Never}
		s.Share = NewShare(s, ib.QPN(i+2), &s.at)
		s.peer, s.window = p, newWindow(p.buffer.most)
		s.steer(&s.window)
		senders[i] = s
	}
	return p, senders
}

const probeChunk = 64 << 10

// TestProbe shows that a QP with a long READ sends in the end, although others
// always leave it too little room: an offer of too little room does not restart
// its wait.
func TestProbe(t *testing.T) {
	p, senders := probeRig(1)
	s := senders[0]
	for now := clock.Instant(1); now < clock.Instant(2*probeTimeout); now = now.Add(time.Millisecond) {
		s.advance(now)
		if s.Admit(now, probeChunk, false) {
			if s.at != clock.Never || s.probing {
				t.Error("the request goes, and its wait is not over")
			}
			return
		}
		if s.at == clock.Never && !s.probing {
			t.Fatal("the request waits, and nothing says so")
		}
		p.inFlight -= minPacketCost // a packet of another QP is acknowledged
		p.wake()
		p.inFlight += minPacketCost // and the next one goes
	}
	t.Errorf("nothing is sent within %v", 2*probeTimeout)
}

// TestProbeOneAtATime shows that of many QPs that wait for more room than there
// is, one at a time may exceed the window: the next one when the previous has
// its answer, or has waited for it for long.
func TestProbeOneAtATime(t *testing.T) {
	_, senders := probeRig(8)
	gone, now := 0, clock.Instant(0)
	run := func(d time.Duration) (last *sender) {
		for end := now.Add(d); now < end; now = now.Add(time.Millisecond) {
			for _, s := range senders {
				s.advance(now)
				if s.cost == 0 && s.Admit(now, probeChunk, false) {
					s.Charge(probeChunk, 1)
					gone, last = gone+1, s
				}
			}
		}
		return last
	}
	first := run(proberTimeout / 2)
	if gone != 1 {
		t.Fatalf("%d requests went over the limit at once, want 1", gone)
	}
	first.Credit(now, 1, 1, PacketCost(1024))
	if run(2 * probeTimeout); gone != 2 {
		t.Errorf("%d requests went after the first was answered, want 2", gone)
	}
	if run(proberTimeout); gone != 3 {
		t.Errorf("%d requests went after the second had no answer for %v, want 3", gone, proberTimeout)
	}
}

// TestProberThatLeaves shows that a QP which exceeded the window, and then has
// nothing in flight for whatever reason, makes no other QP wait longer than it
// must anyway.
func TestProberThatLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		sent bool // before it leaves
		end  func(s *Share, now clock.Instant)
	}{
		{"its answer came", true, func(s *Share, now clock.Instant) { s.Credit(now, 1, 1, PacketCost(1024)) }},
		{"its packet landed", true, func(s *Share, _ clock.Instant) { s.Landed(1, 1) }},
		{"it goes back", true, func(s *Share, _ clock.Instant) { s.GoBack() }},
		{"it was reset", true, func(s *Share, _ clock.Instant) { s.Release() }},
		{"it was reset before it sent", false, func(s *Share, _ clock.Instant) { s.Release() }},
	} {
		p, senders := probeRig(2)
		first, next := senders[0], senders[1]
		now := clock.Instant(0)
		first.Admit(now, probeChunk, false)
		now = first.at
		first.Timeout(now)
		if c.sent && !first.Admit(now, probeChunk, false) {
			t.Fatalf("%s: the first QP is not let go", c.name)
		} else if c.sent {
			first.Charge(probeChunk, 1)
		}
		next.Admit(now, probeChunk, false)
		next.woken = 0
		p.inFlight -= minWindow // there is room, but no QP was told
		c.end(&first.Share, now.Add(time.Millisecond))
		p.inFlight += minWindow
		if next.woken == 0 {
			t.Errorf("%s: the next one is not told that there is room", c.name)
		}
		limit := now.Add(probeTimeout)
		if at := next.at; at > limit {
			t.Fatalf("%s: the next one waits until %v, want no later than %v", c.name, at, limit)
		}
		next.Timeout(limit)
		if !next.Admit(limit, probeChunk, false) {
			t.Errorf("%s: the next one has waited for %v and is not let go before %v", c.name, probeTimeout, next.at)
		}
	}
}

// TestL1_OneLosesAlone distinguishes losses of one queue pair from losses of many.
// The former shrink only its own window; a full buffer, in which each of a hundred
// queue pairs loses some packets, shrinks the window of all together.
func TestL1_OneLosesAlone(t *testing.T) {
	const limit = 1 << 20
	start := func(n int) (*peer, []*Share) {
		p, senders := probeRig(n)
		p.buffer, p.inFlight = lossLimit{limit: limit, most: limit}, 0
		shares := make([]*Share, n)
		for i, s := range senders {
			shares[i] = &s.Share
			shares[i].window = newWindow(limit)
			shares[i].steer(&shares[i].window)
		}
		return p, shares
	}
	// Each sends n packets in turn; of some every fourth is lost.
	send := func(shares []*Share, n int, lossy func(i int) bool) {
		for k := range n {
			for i, s := range shares {
				s.Charge(minPacketCost, 1)
				if lossy(i) && k%4 == 3 {
					s.Lost(1)
				} else if k%100 == 99 { // chance
					s.Lost(1)
				}
				s.uncharge(minPacketCost)
			}
		}
	}
	p, s := start(2)
	send(s, 2000, func(i int) bool { return i == 0 })
	if p.buffer.limit != limit || s[1].window.Window() != limit {
		t.Errorf("one of two queue pairs loses a quarter: both together may have %d bytes in flight, and the other %d, want %d", p.buffer.limit, s[1].window.Window(), limit)
	}
	if got := s[0].window.Window(); got > limit/8 {
		t.Errorf("a queue pair that loses a quarter may have %d bytes in flight, want no more than %d", got, limit/8)
	}
	p, s = start(2)
	send(s, 2000, func(int) bool { return true })
	if p.buffer.limit > limit/8 {
		t.Errorf("both queue pairs lose a quarter and may have %d bytes in flight together, want no more than %d", p.buffer.limit, limit/8)
	}
	p, s = start(100)
	send(s, 16, func(int) bool { return true })
	if p.buffer.limit > limit/2 {
		t.Errorf("each of a hundred queue pairs loses four of 16 packets: together they may have %d bytes in flight, want no more than %d", p.buffer.limit, limit/2)
	}
	if got := s[0].window.Window(); got != limit {
		t.Errorf("a queue pair has lost four packets, and its window is %d bytes, want %d", got, limit)
	}

	// For a go-back-N peer everything is retransmitted.
	p, s = start(2)
	for range 3 {
		s[0].LostAll()
	}
	if p.buffer.limit != limit || s[0].window.Window() > limit/4 {
		t.Errorf("one queue pair sends everything again three times: all together may have %d bytes in flight, want %d, and it %d, want no more than %d", p.buffer.limit, limit, s[0].window.Window(), limit/4)
	}
	if s[1].LostAll(); p.buffer.limit != limit/2 {
		t.Errorf("then another one does: all together may have %d bytes in flight, want %d", p.buffer.limit, limit/2)
	}
}

// TestL1_OwnWindow shows that a queue pair with a small window of its own waits
// only for itself: it joins no queue, continues when one of its packets is
// acknowledged, and never waits with nothing in flight.
func TestL1_OwnWindow(t *testing.T) {
	p, senders := probeRig(2)
	p.buffer.limit, p.inFlight = 64<<10, 0
	s := senders[0]
	s.window.loss.limit = minWindow
	s.steer(&s.window)
	n := 0
	for ; s.Admit(0, 1152, false) && n < 100; n++ {
		s.Charge(1152, 1)
	}
	if want := (minWindow + 1151) / 1152; n != want {
		t.Errorf("%d packets of 1152 bytes are in flight in a window of %d, want %d", n, minWindow, want)
	}
	if s.waiting || len(p.waiters) != 0 || s.at != clock.Never {
		t.Error("a queue pair that has filled its own window waits for others")
	}
	if !senders[1].Share.Admit(0, 1152, false) {
		t.Error("another one has no room")
	}
	if s.Landed(1, uint32(n)); s.woken != 1 || !s.Admit(0, 1152, false) {
		t.Errorf("a packet landed: the queue pair was woken %d times, and has room: %v", s.woken, s.Admit(0, 1152, false))
	}
	s.GoBack()
	s.window.loss.limit = 1
	s.steer(&s.window)
	if !s.Admit(0, probeChunk, false) {
		t.Error("nothing is in flight, and a request waits for its own window")
	}
}

// TestL1_WindowOfANewPath shows that a window reduced by losses is reset on a new
// path, even to the same address.
func TestL1_WindowOfANewPath(t *testing.T) {
	_, senders := probeRig(1)
	s, peers := &senders[0].Share, NewTable(probeChunk)
	s.Join(peers, s.peer.dst)
	s.window.loss.limit = minWindow
	s.steer(&s.window)
	if s.Join(peers, s.peer.dst); s.window.Window() != probeChunk || s.own != probeChunk {
		t.Errorf("the window of a new path is %d bytes, want %d", s.own, probeChunk)
	}
}
