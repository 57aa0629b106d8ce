package qp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// challenged returns an RC queue pair that challenges NAKs before it believes
// them.
func challenged(t *testing.T) *rig.Solo {
	return rig.NewSolo(t, rig.SoloConfig{Type: ib.RC, Challenge: true})
}

// TestProbesThatCannotLeave shows that a probe counts only once it is sent: while the port
// accepts no packets, the peer's silence proves nothing.
func TestProbesThatCannotLeave(t *testing.T) {
	s := challenged(t)
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Deliver(s.Datagram(s.AckTo(rig.PSN, roce.NAKRemoteAccess)))
	for range 100 { // nothing is transmitted
		s.Now = s.Now.Add(time.Millisecond)
		s.HCA.Single().Advance(s.Now)
	}
	s.WantWCs("the port is blocked")
	s.WantState("the port is blocked", ib.RTS)
	if probes := s.Pass(11 * time.Millisecond); len(probes) < 3 {
		t.Errorf("%d packets after the port was opened, want three probes at least", len(probes))
	}
	s.WantWCs("the peer is silent", rig.WC(1, ib.WCRemAccessErr))

	s = challenged(t)
	silent := 0
	s.QP.Challenge(s.Now, func(clock.Instant, bool) { silent++ })
	for range 500 {
		s.Now = s.Now.Add(time.Millisecond)
		s.HCA.Single().Advance(s.Now)
	}
	if silent != 0 {
		t.Error("a peer that was not asked is taken for silent")
	}
	if probes := s.Pass(time.Second); len(probes) != 3 || silent != 1 {
		t.Errorf("%d probes after the port was opened, want 3; %d outcomes, want 1", len(probes), silent)
	}
}

// TestMSNOfStrangers: an ACK with a wrong MSN completes nothing once 255 in a row were
// right. Before that, it does.
func TestMSNOfStrangers(t *testing.T) {
	for _, c := range []struct {
		before int
		taken  bool
	}{{254, true}, {255, false}} {
		s := challenged(t)
		psn, msn := uint32(rig.PSN), ib.MSN(0)
		for range c.before {
			s.Send(s.WR(ib.WRRDMAWrite, 1, 0, 8))
			p := s.AckTo(psn, roce.ACKUnlimited)
			psn, msn = psn+1, msn+1
			p.AETH.MSN = msn
			s.Inject(p)
		}
		s.Poll()
		s.Send(s.WR(ib.WRRDMAWrite, 2, 0, 8))
		forged := s.AckTo(psn, roce.ACKUnlimited)
		forged.AETH.MSN = msn + 2
		for i, syn := range []roce.Syndrome{roce.NAKSequence, roce.RNRNAK(1), roce.NAKRemoteAccess} {
			if !c.taken {
				nak := forged
				nak.AETH.Syndrome, nak.AETH.MSN = syn, msn+ib.MSN(5000*(i+1))
				s.WantSilence("a NAK whose MSN does not fit", s.Inject(nak), ib.RTS)
			}
		}
		s.Inject(forged)
		if n := len(s.Poll()); (n == 1) != c.taken {
			t.Errorf("after %d answers that fitted, an ACK that does not completes %d requests", c.before, n)
		}
		if n := s.Counters().Drops[counters.DropMSN]; (n == 4) == c.taken {
			t.Errorf("%d answers are counted as not fitting", n)
		}
	}
}

// TestChallengeEnds shows what a challenge reports to its caller, and when: the peer's answer after
// the second probe, the silence of a peer, the end of the queue pair; and that one challenge is
// made at a time.
func TestChallengeEnds(t *testing.T) {
	type outcome struct {
		at    clock.Instant
		alive bool
	}
	start := func(s *rig.Solo) *[]outcome {
		var heard []outcome
		begun := s.Now
		if !s.QP.Challenge(s.Now, func(now clock.Instant, alive bool) { heard = append(heard, outcome{now - begun, alive}) }) {
			t.Fatal("the queue pair cannot be challenged")
		}
		if s.QP.Challenge(s.Now, func(clock.Instant, bool) { t.Error("a second challenge has an outcome") }) {
			t.Error("a queue pair is challenged twice at a time")
		}
		return &heard
	}
	want := func(what string, heard *[]outcome, o outcome) {
		t.Helper()
		if len(*heard) != 1 || (*heard)[0] != o {
			t.Errorf("%s: heard %v, want %v", what, *heard, o)
		}
	}

	s := challenged(t)
	heard := start(s)
	s.WantPackets("the first probe", s.Out(), rig.Req(roce.RCRDMAWriteOnly, rig.PSN-1))
	s.Pass(40 * time.Millisecond)
	s.Inject(s.AckTo(rig.PSN-1, roce.ACKUnlimited))
	want("the peer answers", heard, outcome{clock.Instant(40 * time.Millisecond), true})
	s.WantSilence("it is over", s.Pass(time.Second), ib.RTS)

	heard = start(s)
	s.Pass(time.Second)
	want("the peer is silent", heard, outcome{clock.Instant(99_999_999), false})
	s.WantState("silence ends no connection by itself", ib.RTS)

	heard = start(s)
	s.Pass(time.Millisecond)
	s.Modify(ib.ERR)
	s.Pass(time.Second)
	want("the queue pair stops", heard, outcome{clock.Instant(time.Millisecond), false})
	if s.QP.Challenge(s.Now, nil) {
		t.Error("a queue pair in ERR is challenged")
	}
	for _, typ := range []ib.QPType{ib.UC, ib.UD} {
		if rig.NewSolo(t, rig.SoloConfig{Type: typ, Challenge: true}).QP.Challenge(0, nil) {
			t.Errorf("a queue pair of %v is challenged", typ)
		}
	}
}

// TestClaimsDoNotWaitForEachOther challenges a NAK and then, 1 ms before the verdict, the
// connection: the NAK is believed in its time, and the queue pair's end ends the other challenge.
func TestClaimsDoNotWaitForEachOther(t *testing.T) {
	s := challenged(t)
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Inject(s.AckTo(rig.PSN, roce.NAKRemoteAccess))
	var outcomes []bool
	s.Pass(9 * time.Millisecond) // three probes have left
	s.QP.Challenge(s.Now, func(_ clock.Instant, alive bool) { outcomes = append(outcomes, alive) })
	s.Pass(1500 * time.Microsecond)
	s.WantWCs("after 10.5 ms", rig.WC(1, ib.WCRemAccessErr))
	s.Pass(time.Second)
	if !slices.Equal(outcomes, []bool{false}) {
		t.Errorf("the connection manager hears %v, want one report of a peer that is not alive", outcomes)
	}
}

// TestProbesBehindREADs: while a READ is being answered, a probe has the PSN before it. A peer such
// as Linux rxe acknowledges only up to the last request that was no READ; its answer refutes the
// NAK too.
func TestProbesBehindREADs(t *testing.T) {
	s := challenged(t)
	s.Send(s.WR(ib.WRRDMARead, 1, 0, 600))
	first := s.Answer(roce.RCRDMAReadResponseFirst, rig.PSN, roce.ACKUnlimited, make([]byte, 256))
	first.AETH.MSN = 1
	s.Inject(first)
	nak := s.AckTo(rig.PSN+1, roce.NAKRemoteAccess)
	nak.AETH.MSN = 1
	s.WantPackets("the first probe", s.Inject(nak), rig.Req(roce.RCRDMAWriteOnly, rig.PSN-1))
	s.Pass(4 * time.Millisecond)
	old := s.AckTo(rig.PSN-3, roce.ACKUnlimited)
	old.AETH.MSN = 1
	s.Inject(old)
	s.Pass(20 * time.Millisecond)
	s.WantWCs("the peer answers")
	s.WantState("the peer answers", ib.RTS)
	if c := s.Counters(); c.Challenges != 1 || c.ChallengesRefuted != 1 {
		t.Errorf("%d challenges, %d refuted", c.Challenges, c.ChallengesRefuted)
	}
}

// TestRefusedAnswersProveNothing: an invalid answer does not refute a NAK.
func TestRefusedAnswersProveNothing(t *testing.T) {
	s := challenged(t)
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Inject(s.AckTo(rig.PSN, roce.NAKRemoteAccess))
	for range 5 {
		s.Pass(2 * time.Millisecond)
		s.Inject(s.Answer(roce.RCRDMAReadResponseMiddle, rig.PSN, 0, make([]byte, 256)))
	}
	s.Pass(2 * time.Millisecond)
	s.WantWCs("no answer of the peer", rig.WC(1, ib.WCRemAccessErr))
}
