package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// TestV18_ResyncOfAStranger sends RESYNCs ahead of the expected PSN from the peer's
// address, from its port and from others.
func TestV18_ResyncOfAStranger(t *testing.T) {
	for _, c := range []struct {
		what  string
		known bool // a request has come before
		other bool // from another port
		ahead uint32
		taken bool
	}{
		{"before anybody knows the port", false, true, 5, true},
		{"from the port of the peer", true, false, 5, true},
		{"from another port", true, true, 5, false},
		{"from another port, at the expected PSN", true, true, 0, true},
		{"from the port of the peer, and far ahead", true, false, resyncReach, false},
		{"from the port of the peer, as far ahead as can be", true, false, resyncReach - 1, true},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: ib.RD})
		psn := uint32(rig.PeerPSN)
		if c.known {
			s.WantPackets(c.what+": a request before", s.Inject(s.Packet(roce.RDRDMAWriteOnly, psn, nil)),
				rig.Sig(roce.RDAcknowledge, psn, roce.ACKUnlimited))
			psn++
		}
		d := s.Datagram(s.Packet(roce.RDResync, psn+c.ahead, nil))
		if c.other {
			d.SrcPort++
		}
		s.Deliver(s.Resealed(d))
		want := psn
		if c.taken {
			want = psn + c.ahead + 1
		}
		if got := s.EEC.Query().RQPSN; got != ib.NewPSN(want) {
			t.Errorf("%s: after a RESYNC %d ahead of %#x the expected PSN is %v", c.what, c.ahead, psn, got)
		}
	}
}
