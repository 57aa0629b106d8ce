package qp_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// enough is more packets with a segment index than the policy needs before it
// demands one.
const enough = 300

// otherID is an identification that is no segment index.
const otherID = 50000

// hidden is an adapter whose port does not show identifications.
type hidden struct{ *rig.Solo }

// hide seals a packet with an identification that the port does not show.
func (s hidden) hide(p roce.Packet, id uint16) fabric.Datagram {
	s.ID = id
	d := s.Datagram(p)
	d.ID, d.IDKnown = 0, false
	return d
}

// taken delivers a packet with a hidden identification and reports whether it
// was accepted. A refused packet must have no effect.
func (s hidden) taken(p roce.Packet, id uint16) bool {
	s.T.Helper()
	before := s.Counters()
	s.Deliver(s.hide(p, id))
	answers, after := s.Out(), s.Counters()
	if after.Drops[counters.DropICRC] == before.Drops[counters.DropICRC] {
		return true
	}
	if len(answers) > 0 || after.RxWriteRequests != before.RxWriteRequests {
		s.T.Errorf("%v: a packet that counts as damaged is executed or answered: %+v", s.QP.Type(), answers)
	}
	return false
}

// wants delivers a packet with a hidden identification and checks whether it is
// accepted.
func (s hidden) wants(what string, taken bool, p roce.Packet, id uint16) {
	s.T.Helper()
	if s.taken(p, id) != taken {
		s.T.Fatalf("%v, %s: identification %d is taken: %v", s.QP.Type(), what, id, !taken)
	}
}

// nth returns WRITE number i of the peer's.
func (s hidden) nth(i int) roce.Packet {
	op := roce.RCRDMAWriteOnly
	if s.QP.Type() == ib.UC {
		op = roce.UCRDMAWriteOnly
	}
	return s.Packet(op, rig.PeerPSN+uint32(i), make([]byte, 8))
}

// teach delivers n WRITEs from number i on, with segment indices.
func (s hidden) teach(i, n int) (next int) {
	s.T.Helper()
	for k := range n {
		s.wants("in sequence", true, s.nth(i+k), uint16(k%64))
	}
	return i + n
}

// TestIPIDOfRequests shows that an RC or UC peer that numbers its segments must
// keep to that at the expected PSN, that it loses one packet when it changes,
// and that RESET clears what was learnt.
func TestIPIDOfRequests(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC} {
		s := hidden{rig.NewSolo(t, rig.SoloConfig{Type: typ})}
		n := s.teach(0, enough)
		s.wants("a damaged packet", false, s.nth(n), otherID)
		s.wants("sent again by a peer that has changed", true, s.nth(n), otherID)
		n = s.teach(n+1, enough)
		s.wants("a damaged packet", false, s.nth(n), otherID)
		n = s.teach(n, enough)
		s.Modify(ib.RESET)
		s.Walk(ib.RTS)
		s.wants("a new connection", true, s.nth(0), otherID)
		if s.QP.State() != ib.RTS || n == 0 {
			t.Errorf("%v: the queue pair is in %v", typ, s.QP.State())
		}
	}
}

// TestIPIDOfResponses shows the same for answers to requests in flight: a
// refused acknowledgement is accepted when it is repeated.
func TestIPIDOfResponses(t *testing.T) {
	s := hidden{rig.NewSolo(t, rig.SoloConfig{Type: ib.RC})}
	ack := func(i int) roce.Packet { return s.Packet(roce.RCAcknowledge, rig.PSN+uint32(i), nil) }
	for i := range enough {
		s.Send(s.WR(ib.WRRDMAWrite, uint64(i), 0, 8))
		s.wants("an acknowledgement", true, ack(i), uint16(i%64))
	}
	if n := len(s.Poll()); n != enough {
		t.Fatalf("%d of %d WRITEs are acknowledged", n, enough)
	}
	s.Send(s.WR(ib.WRRDMAWrite, enough, 0, 8))
	s.wants("a damaged acknowledgement", false, ack(enough), otherID)
	s.WantWCs("after it")
	s.wants("one that came again", true, ack(enough), otherID)
	s.WantWCs("after that", rig.WC(enough, ib.WCSuccess))
}

// TestIPIDOfStrangers shows that the policy neither learns from nor judges
// packets that are not at the expected PSN and answer nothing: a duplicate is
// answered, because otherwise a peer that has changed would repeat it until it
// gives up.
func TestIPIDOfStrangers(t *testing.T) {
	s := hidden{rig.NewSolo(t, rig.SoloConfig{Type: ib.RC})}
	strangers := []roce.Packet{
		s.nth(-1), s.nth(1 << 20), s.Packet(roce.RCAcknowledge, rig.PSN, nil), s.Packet(roce.RCAcknowledge, rig.PSN-1, nil),
	}
	for range enough {
		for _, p := range strangers {
			s.wants("a stranger's", true, p, 1)
		}
	}
	s.wants("the peer's first", true, s.nth(0), otherID)
	n := s.teach(1, enough)
	for _, p := range strangers {
		s.wants("a stranger's", true, p, otherID)
	}
	before := s.Counters().DuplicateRequest
	s.wants("a duplicate", true, s.nth(n-1), otherID)
	if s.Counters().DuplicateRequest != before+1 {
		t.Error("a duplicate does not count as one")
	}
	s.wants("a damaged packet", false, s.nth(n), otherID)
}

// TestIPIDOfUCStrangers shows that a stranger who moves a UC queue pair to his
// own PSNs cannot teach it anything that harms the peer.
func TestIPIDOfUCStrangers(t *testing.T) {
	s := hidden{rig.NewSolo(t, rig.SoloConfig{Type: ib.UC})}
	for i := range 10 {
		for k := range enough {
			s.wants("a stranger's", true, s.nth(1<<20+1000*i+k), 0)
		}
		s.wants("the peer's", true, s.nth(2*i), otherID)
		s.wants("the peer's next", true, s.nth(2*i+1), otherID)
	}
}

// TestIPIDIsNotLearntFromDatagrams shows that the policy does not apply to UD
// and QP1, to which any host may send.
func TestIPIDIsNotLearntFromDatagrams(t *testing.T) {
	for _, typ := range []ib.QPType{ib.UD, ib.GSI} {
		s := hidden{rig.NewSolo(t, rig.SoloConfig{Type: typ, HCA: hca.Config{Privileged: true}})}
		p := s.Packet(roce.UDSendOnly, rig.PeerPSN, nil)
		for range enough {
			s.wants("a datagram", true, p, 0)
		}
		s.wants("another", true, p, otherID)
	}
}
