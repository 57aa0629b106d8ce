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

// peerSlot is the slot of the peer's QPNs.
const peerSlot = uint8(rig.PeerQPN >> 16)

// TestForgedPackets delivers packets that come from the network although some processes at the peer's
// address do not send that way. Those in the name of such a process are dropped, others are not.
func TestForgedPackets(t *testing.T) {
	for _, c := range []struct {
		typ    ib.QPType
		op     roce.Opcode
		from   ib.QPN // of a datagram; 0: the peer's
		barred uint8
		drops  bool
	}{
		{typ: ib.RC, op: roce.RCSendOnly, barred: peerSlot, drops: true},
		{typ: ib.RC, op: roce.RCSendOnly, barred: peerSlot + 1},
		{typ: ib.RC, op: roce.RCAcknowledge, barred: peerSlot, drops: true},
		{typ: ib.RC, op: roce.RCSendOnly, barred: 0},
		{typ: ib.UC, op: roce.UCSendOnly, barred: peerSlot, drops: true},
		{typ: ib.UC, op: roce.UCSendOnly, barred: 0},
		{typ: ib.UD, op: roce.UDSendOnly, barred: peerSlot, drops: true},
		{typ: ib.UD, op: roce.UDSendOnly, barred: peerSlot - 1},
		{typ: ib.UD, op: roce.UDSendOnly, from: 3<<16 | 9, barred: 3, drops: true},
		{typ: ib.UD, op: roce.UDSendOnly, from: 3<<16 | 9, barred: peerSlot},
		{typ: ib.UD, op: roce.UDSendOnly, from: ib.QPNGSI, barred: 0},
		{typ: ib.RD, op: roce.RDSendOnly, barred: peerSlot, drops: true},
		{typ: ib.RD, op: roce.RDSendOnly, barred: 0},
		{typ: ib.GSI, op: roce.UDSendOnly, from: ib.QPNGSI, barred: 0},
		{typ: ib.GSI, op: roce.UDSendOnly, barred: peerSlot},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: c.typ, HCA: hca.Config{Privileged: true}})
		p := s.Packet(c.op, rig.PeerPSN, make([]byte, 4))
		if c.op == roce.RCAcknowledge {
			p.Payload = nil
		}
		if c.from != 0 {
			p.DETH.SrcQP = c.from
		}
		if c.typ == ib.GSI {
			p.BTH.DestQP = ib.QPNGSI
		}
		d := s.Datagram(p)
		d.Barred = new(fabric.Slots)
		d.Barred.Add(c.barred)
		s.Deliver(d)
		n := s.Counters()
		want := [2]uint64{0, 1}
		if c.drops {
			want = [2]uint64{1, 0}
		}
		if got := [2]uint64{n.Drops[counters.DropForged], n.RcvdPkts}; got != want {
			t.Errorf("%v %v from %v, slot %#x barred: %d dropped and %d received, want %d and %d", c.typ, c.op, c.from, c.barred, got[0], got[1], want[0], want[1])
		}
	}
}
