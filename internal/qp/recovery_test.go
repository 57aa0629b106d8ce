package qp_test

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// TestL2_HostileGaps opens gaps on many queue pairs, fills what they may keep, and
// never closes them. An honest connection beside them keeps what it needs all the
// same.
func TestL2_HostileGaps(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{MTU: ib.MTU4096})
	honest := s.QP
	payload := make([]byte, 4096)
	for range 20 {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap})
		rig.Must(t, err)
		s.QP = q
		s.Walk(ib.RTS)
		for i := range uint32(1200) {
			s.Deliver(s.Datagram(s.Packet(roce.RCRDMAWriteMiddle, rig.PeerPSN+1+i, payload)))
		}
	}
	if c := s.HCA.Counters(); c.EarlyKept < 5000 || c.EarlyRefused < 5000 {
		t.Fatalf("20 hostile queue pairs have %d packets kept and %d refused: no bound was reached", c.EarlyKept, c.EarlyRefused)
	}
	s.QP = honest
	before := s.HCA.Counters()
	const n = 64 // which are a window
	for i := range payload {
		payload[i] = byte(i)
	}
	first := s.Packet(roce.RCRDMAWriteFirst, rig.PeerPSN, payload)
	first.RETH.Length = rig.Bytes / 4096 * 4096
	var rest []roce.Packet
	for i := range uint32(rig.Bytes/4096 - 2) {
		rest = append(rest, s.Packet(roce.RCRDMAWriteMiddle, rig.PeerPSN+1+i, payload))
	}
	rest = append(rest, s.Packet(roce.RCRDMAWriteLast, rig.PeerPSN+rig.Bytes/4096-1, payload))
	for i := len(rest); i < n; i++ {
		rest = append(rest, s.Packet(roce.RCRDMAWriteOnly, rig.PeerPSN+1+uint32(i), payload))
	}
	for _, p := range rest {
		s.Deliver(s.Datagram(p))
	}
	c := s.HCA.Counters()
	if kept := c.EarlyKept - before.EarlyKept; kept != n || c.EarlyRefused != before.EarlyRefused {
		t.Errorf("%d of the %d packets of an honest peer are kept", kept, n)
	}
	s.Out() // a NAK for each gap
	s.WantPackets("the gap closes", s.Inject(first), rig.Ack(roce.ACKUnlimited, rig.PeerPSN+n))
	if !bytes.Equal(s.Buf[rig.Bytes-4096:], payload) {
		t.Error("the end of the message is not in memory")
	}
}

// TestL2_StrangersAreNotKept shows that what is kept beyond a gap is executed only
// if it came from the port that the packet came from which closed the gap: a PSN
// within reach is easier to guess than the one that is expected.
func TestL2_StrangersAreNotKept(t *testing.T) {
	at := func(s *rig.Solo, psn uint32, b byte, port uint16) {
		t.Helper()
		p := s.Packet(roce.RCRDMAWriteOnly, psn, []byte{b, 0, 0, 0})
		p.RETH.VA += uint64(psn - rig.PeerPSN)
		raw := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
		p.Build(raw)
		d := s.Sealed(raw)
		if port != 0 {
			d.SrcPort = port
			roce.Seal(raw, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(raw)).WithID(d.ID))
		}
		s.Deliver(d)
	}
	const stranger = 4791
	// Nobody has been heard of: what a stranger sends is kept, and goes when the
	// peer's first packet shows who the peer is.
	s := rig.NewSolo(t, rig.SoloConfig{})
	at(s, rig.PeerPSN+1, 'x', stranger)
	at(s, rig.PeerPSN+1, '1', 0)
	at(s, rig.PeerPSN, '0', 0)
	if got := s.Buf[0]; got != '0' {
		t.Errorf("the peer's packet left %q in memory", got)
	}
	if got := s.Buf[1]; got != 0 {
		t.Errorf("a stranger's packet, or none of the peer's, left %q in memory", got)
	}
	at(s, rig.PeerPSN+1, '1', 0)
	// From then on nothing of a stranger is kept.
	at(s, rig.PeerPSN+3, 'x', stranger)
	at(s, rig.PeerPSN+3, '3', 0)
	at(s, rig.PeerPSN+2, '2', 0)
	if got := string(s.Buf[:4]); got != "0123" {
		t.Errorf("in memory is %q, want what the peer has sent", got)
	}
}
