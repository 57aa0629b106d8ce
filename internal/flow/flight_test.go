package flow

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// flightRig is a sender of packets of 1024 bytes that recovers selectively.
type flightRig struct {
	t *testing.T
	Recovery
	room, probe, landing clock.Instant
	woken                int
}

func (r *flightRig) Wake() { r.woken++ }

const flightPacket = 1024 + packetOverhead

// newFlightRig returns a sender that starts at PSN 0.
func newFlightRig(t *testing.T, p Policy) *flightRig {
	r := &flightRig{t: t, room: clock.Never, probe: clock.Never, landing: clock.Never}
	r.Recovery = NewRecovery(r, 2, Timers{&r.room, &r.probe, &r.landing})
	r.SetPolicy(p, flightPacket)
	r.Start(psn(0))
	r.Join(NewTable(1<<20), netip.MustParseAddr("10.0.0.2"))
	return r
}

var selective = Policy{Selective: true, Probes: true}

func psn(n uint32) ib.PSN { return ib.PSN{}.Add(n) }

// send sends n packets and returns the moves.
func (r *flightRig) send(now clock.Instant, n int) (m Move) {
	r.t.Helper()
	for range n {
		if !r.Sending() && !r.Admit(now, flightPacket) {
			r.t.Fatalf("packet %v does not fit the window", r.Next())
		}
		r.Charge(flightPacket, 1, false)
		m |= r.Sent(now, 1)
	}
	return m
}

func (r *flightRig) want(what string, una, next, fresh uint32) {
	r.t.Helper()
	if r.Una() != psn(una) || r.Next() != psn(next) || r.Fresh() != psn(fresh) {
		r.t.Errorf("%s: in flight %v, next %v, fresh %v; want %d, %d, %d", what, r.Una(), r.Next(), r.Fresh(), una, next, fresh)
	}
}

func (r *flightRig) wantMove(what string, got, want Move) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: move %06b, want %06b", what, got, want)
	}
}

var one = Oldest{N: 1}

// ms returns an instant.
func ms(n int) clock.Instant { return clock.Instant(0).Add(time.Duration(n) * time.Millisecond) }

// TestRepairOfOnePacket shows that one missing packet is repeated alone, that sending then goes on
// where it was, and that the peer counts as a selective-repeat peer when its answer acknowledges more.
func TestRepairOfOnePacket(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 10)
	r.wantMove("an acknowledgement", r.Acknowledged(ms(2), psn(3)), 0)
	r.wantMove("a report of a gap", r.Lost(ms(2), Told, one), Repeat)
	r.want("repair", 3, 3, 10)
	if !r.Asks() || r.woken == 0 {
		t.Error("the one packet of a repair requests an acknowledgement, and is to be sent at once")
	}
	r.wantMove("the repair is sent", r.send(ms(2), 1), Jump)
	r.want("after the repair", 3, 10, 10)
	if !r.Holding(ms(2)) {
		t.Error("new packets are sent before the peer's kind is known")
	}
	r.Acknowledged(ms(3), psn(10))
	if m, cause := r.Judge(ms(3), one); m != 0 {
		t.Errorf("everything is acknowledged: move %06b, %q", m, cause)
	}
	if r.Kind(ms(3)) != SelectiveRepeat || r.Holding(ms(3)) {
		t.Errorf("the peer had the packets behind the gap: kind %v, holding %v", r.Kind(ms(3)), r.Holding(ms(3)))
	}
}

// TestRepairOfAPeerThatDrops shows that the sender goes back when the answer acknowledges
// only what was repeated, and goes back at once at the next gap.
func TestRepairOfAPeerThatDrops(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 10)
	r.Acknowledged(ms(2), psn(3))
	r.Lost(ms(2), Told, one)
	r.send(ms(2), 1)
	r.Acknowledged(ms(3), psn(4))
	if m, _ := r.Judge(ms(3), one); m != Back {
		t.Errorf("the repair went no further: move %06b, want %06b", m, Back)
	}
	r.want("gone back", 4, 4, 10)
	if r.share.cost != 0 {
		t.Errorf("%d bytes count as in flight, of packets that will all be sent again", r.share.cost)
	}
	r.send(ms(3), 6)
	r.wantMove("another gap", r.Lost(ms(4), Told, one), Back)
}

// TestQuickAnswerToARepair shows that an answer which comes sooner than a round trip is taken for that
// to an earlier copy, but not if the peer has refused that copy.
func TestQuickAnswerToARepair(t *testing.T) {
	for what, c := range map[string]struct {
		lost func(r *flightRig)
		want Move
	}{
		"told":      {func(r *flightRig) { r.Lost(ms(5), Told, one) }, 0},
		"not ready": {func(r *flightRig) { r.Refused(ms(5), one) }, Back},
	} {
		r := newFlightRig(t, selective)
		r.send(ms(1), 1)
		r.Acknowledged(ms(3), psn(1))
		r.rtt.Sample(2 * time.Millisecond)
		r.learn(ms(3), SelectiveRepeat)
		r.send(ms(3), 9)
		c.lost(r)
		r.send(ms(5), 1)
		r.Acknowledged(ms(6), psn(2))
		if m, _ := r.Judge(ms(6), one); m != c.want {
			t.Errorf("%s: an answer after half a round trip: move %06b, want %06b", what, m, c.want)
		}
	}
}

// TestOvertakenRepair shows that packets to be repeated are skipped when they are acknowledged.
func TestOvertakenRepair(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 10)
	r.Lost(ms(2), Gap, Oldest{N: 4, Data: true})
	r.wantMove("the first of four", r.send(ms(2), 1), 0)
	r.wantMove("two of four are acknowledged", r.Acknowledged(ms(2), psn(2)), Skip)
	r.want("two of four", 2, 2, 10)
	r.wantMove("all four are acknowledged", r.Acknowledged(ms(2), psn(5)), Skip|Jump)
	r.want("all four", 5, 10, 10)
	if r.Waiting() || r.Sending() {
		t.Error("nothing is left to repair")
	}
}

// TestMovesOfARepairInARepair shows that a repair in the middle of another one goes on where the
// first would have.
func TestMovesOfARepairInARepair(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 10)
	r.wantMove("four are missing", r.Lost(ms(2), Gap, Oldest{N: 4, Data: true}), Repeat)
	r.send(ms(2), 2)
	r.wantMove("timeout", r.Timeout(ms(3), one), Repeat|Anew)
	r.want("timeout", 0, 0, 10)
	r.wantMove("the probe is sent", r.send(ms(3), 1), Jump)
	r.want("after the probe", 0, 10, 10)
}

// TestProbeOfASilentPeer shows when a probe goes, and that nothing new follows while the peer
// answers none.
func TestProbeOfASilentPeer(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 2)
	if r.probe != ms(1).Add(firstProbe) {
		t.Fatalf("the first probe is due at %v, want %v after the packet", r.probe, firstProbe)
	}
	at := r.probe
	if m, cause := r.Probe(at, one, true); m != 0 || cause != "" {
		t.Errorf("a sender that must not send probes: move %06b, %q", m, cause)
	}
	m, _ := r.Probe(at, one, false)
	r.wantMove("a probe", m, Repeat|Ask)
	if !r.Asks() {
		t.Error("a probe requests no acknowledgement")
	}
	r.send(at, 1)
	if !r.Holding(at) {
		t.Error("new packets follow though the peer never answered")
	}
	if wait := r.probe.Sub(at); wait != 2*firstProbe {
		t.Errorf("the second probe waits %v, want twice as long as the first", wait)
	}
	r.Acknowledged(at.Add(time.Millisecond), psn(1))
	if r.Holding(at.Add(time.Millisecond)) {
		t.Error("the peer answers, and nothing new is sent")
	}
	for _, p := range []Policy{{Selective: true}, {Probes: true}} {
		r := newFlightRig(t, p)
		if r.send(ms(1), 1); r.probe != clock.Never {
			t.Errorf("a sender with %+v waits for a probe", p)
		}
	}
}

// TestFlightGoesBack shows that a sender that does not repair selectively goes back at every
// loss.
func TestFlightGoesBack(t *testing.T) {
	for what, lost := range map[string]func(r *flightRig) Move{
		"told":           func(r *flightRig) Move { return r.Lost(ms(2), Told, one) },
		"timeout":        func(r *flightRig) Move { return r.Timeout(ms(2), one) },
		"doubt":          func(r *flightRig) Move { return r.Again(ms(2), one) },
		"not ready":      func(r *flightRig) Move { return r.Refused(ms(2), one) },
		"migration":      func(r *flightRig) Move { return r.Rejoin(NewTable(1<<20), netip.MustParseAddr("10.0.0.3")) },
		"missing answer": func(r *flightRig) Move { return r.Lost(ms(2), Gap, Oldest{N: 3, Data: true}) },
	} {
		r := newFlightRig(t, Policy{})
		r.send(ms(1), 5)
		r.wantMove(what, lost(r), Back)
		r.want(what, 0, 0, 5)
		if !r.Outstanding() || r.share.cost != 0 {
			t.Errorf("%s: %d bytes count as in flight", what, r.share.cost)
		}
	}
}

// TestCut shows when the missing part of an answer is asked for alone: of a peer that keeps, and only
// after an answer to the whole request has arrived.
func TestCut(t *testing.T) {
	r := newFlightRig(t, selective)
	r.send(ms(1), 10) // a READ of ten packets
	if r.Lost(ms(2), Gap, Oldest{N: 3, Data: true, Bound: true}); r.Cut(ms(2), 10, psn(0), psn(9)) != 10 {
		t.Error("a part is asked of a peer of which nothing is known")
	}
	r.learn(ms(2), SelectiveRepeat)
	if n := r.Cut(ms(2), 10, psn(0), psn(9)); n != 3 || !r.Parts() {
		t.Errorf("%d packets are asked for, want the 3 that are missing", n)
	}
	if r.Answered(psn(8)); !r.Parts() {
		t.Error("answers may end anywhere until all have arrived")
	}
	if r.Answered(psn(9)); r.Parts() {
		t.Error("all answers have arrived")
	}
	r.bound(false)
	if n := r.Cut(ms(2), 10, psn(0), psn(9)); n != 10 {
		t.Errorf("%d packets are asked for, though nothing shows that the peer has the request", n)
	}
	r.bound(true)
	if r.whole = true; r.Cut(ms(2), 10, psn(0), psn(9)) != 10 {
		t.Error("a part is asked of a peer that left such a request unanswered")
	}
}

func (r *flightRig) bound(yes bool) { r.repair.bound = yes }

// TestRoundsOfReads shows that a window of a single READ grows again. A round of a READ ends with its
// last response: when the first response arrives, nothing of the READ has been delivered yet, and
// there is no other READ that could show how fast the peer is.
func TestRoundsOfReads(t *testing.T) {
	const (
		packets = 128                   // of a READ: more than a burst
		way     = 5 * time.Microsecond  // of a packet to the peer
		each    = 200 * time.Nanosecond // of a response
	)
	r := newFlightRig(t, selective)
	r.share.peer.buffer.limit = 1 << 20 // the peer's buffer is no limit
	now, ready, most := clock.Instant(0), clock.Instant(0), 0
	var begins []clock.Instant // when the peer can begin with each READ in flight
	for done := range 200 {
		if done == 10 { // the peer did not run for some time
			r.share.window.rate = burstBytes
			r.share.own = r.share.window.Window()
		}
		for r.Admit(now, packets*flightPacket) {
			r.Charge(packets*flightPacket, packets, true)
			r.Sent(now, packets)
			begins = append(begins, now.Add(way))
		}
		if most = len(begins); most == 0 {
			t.Fatalf("after %d READs none may follow", done)
		}
		ready, begins = max(begins[0], ready), begins[1:]
		for range packets {
			ready = ready.Add(each)
			now = ready.Add(way)
			r.Acknowledged(now, r.Una().Add(1))
		}
	}
	if most < 3 {
		t.Errorf("%d READs are in flight in the end, and the peer waits; the window is %d bytes", most, r.share.own)
	}
}
