package explain

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// TestProbesAreNoRequests adds to captures with and without a NAK the probes by which the requester
// examines whether the peer is alive, and its answers: the verdict and the findings stay as they
// were.
func TestProbesAreNoRequests(t *testing.T) {
	for _, c := range []struct {
		name  string
		alive bool
	}{
		{"errs_bad_rkey_write", false}, {"errs_bad_rkey_write_multi", false}, {"errs_bad_rkey_read", false}, {"errs_bad_rkey_atomic", false},
		{"errs_send", true}, {"errs_write_imm", true},
	} {
		want := load(t, c.name).explain()
		s := load(t, c.name)
		var first, last roce.Packet
		for i := range s.frames {
			f := &s.frames[i]
			var p roce.Packet
			if f.from() != client || p.Parse(f.data[headers:]) != roce.FaultNone || p.Info.Service != roce.ServiceRC || p.Info.Flags&roce.FlagResponse != 0 {
				continue
			}
			if last = p; first.BTH.DestQP == 0 {
				first = p
			}
		}
		if first.BTH.DestQP == 0 {
			t.Fatalf("%s has no request of the client", c.name)
		}
		var us ib.QPN // the client's, from the peer's answers
		for i := range s.frames {
			var p roce.Packet
			if f := &s.frames[i]; f.from() == server && p.Parse(f.data[headers:]) == roce.FaultNone && p.Info.Flags&roce.FlagResponse != 0 {
				us = p.BTH.DestQP
			}
		}
		for range 3 {
			s.add(client, 3333*time.Microsecond, &roce.Packet{BTH: ack(bth(roce.RCRDMAWriteOnly, first.BTH.DestQP, first.BTH.PSN.Prev().Value()))})
			if c.alive {
				s.add(server, 50*time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, us, last.BTH.PSN.Value()), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(1)}})
			}
		}
		got := s.explain()
		if got.Verdict.Outcome != want.Verdict.Outcome || len(got.Findings) != len(want.Findings) {
			t.Errorf("%s: with probes %v and %d findings, without %v and %d", c.name, got.Verdict.Outcome, len(got.Findings), want.Verdict.Outcome, len(want.Findings))
		}
		for i := range min(len(got.Findings), len(want.Findings)) {
			if g, w := got.Findings[i], want.Findings[i]; g.Rule != w.Rule || g.Detail != w.Detail {
				t.Errorf("%s: finding %q (%s), want %q (%s)", c.name, g.Rule, g.Detail, w.Rule, w.Detail)
			}
		}
	}
}

// ack returns a header that asks for an acknowledgement.
func ack(h roce.BTH) roce.BTH {
	h.AckReq = true
	return h
}
