package qp_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// TestE20_ResponsesToADeadQP shows that responses in ERR, RESET, RTR and to a
// destroyed queue pair are dropped.
func TestE20_ResponsesToADeadQP(t *testing.T) {
	for _, st := range []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.ERR} {
		s := rig.NewSolo(t, rig.SoloConfig{State: max(st, ib.INIT)})
		if st == ib.RESET {
			s.Modify(ib.RESET)
		}
		for _, p := range []roce.Packet{
			s.AckTo(0x200, roce.ACKUnlimited), s.AckTo(0x200, roce.NAKInvalidRequest), s.AckTo(0x200, roce.RNRNAK(1)),
			s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, nil), s.Answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil),
		} {
			s.WantSilence("a response in "+st.String(), s.Inject(p), st)
		}
		if n := s.Counters().Drops[counters.DropState]; n != 5 {
			t.Errorf("5 responses in %v: %d dropped", st, n)
		}
	}
}

// TestE23_OldAndGhostACKs shows that an ACK for completed requests and an ACK
// for a PSN never sent have no effect.
func TestE23_OldAndGhostACKs(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8))
	s.Inject(s.AckTo(0x200, roce.ACKUnlimited))
	s.WantWCs("the first", rig.WC(1, ib.WCSuccess))
	for _, psn := range []uint32{0x200, 0x1ff, 0x100, 0x202, 0x203, 0x1000, 0x200 + 1<<23, 0xffffff} {
		for _, syn := range []roce.Syndrome{roce.ACKUnlimited, roce.NAKSequence, roce.NAKRemoteAccess, roce.RNRNAK(1)} {
			s.WantSilence("an old or a ghost ACK", s.Inject(s.AckTo(psn, syn)), ib.RTS)
		}
	}
	if c := s.Counters(); c.Drops[counters.DropGhost] == 0 || c.Drops[counters.DropDuplicate] == 0 {
		t.Errorf("dropped as ghosts %d, as old %d", c.Drops[counters.DropGhost], c.Drops[counters.DropDuplicate])
	}
}

// TestE28_ResponseCannotBeStored shows LOC_PROT_ERR for a READ and an atomic
// whose local memory has a bad lkey or may not be written.
func TestE28_ResponseCannotBeStored(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp} {
		for _, readOnly := range []bool{false, true} {
			c := rig.SoloConfig{}
			if readOnly {
				c.MRAccess = ib.AccessRemoteRead
			}
			s := rig.NewSolo(t, c)
			wr := s.WR(op, 1, 0, 8)
			if !readOnly {
				wr.SGList[0].LKey++
			}
			s.Send(wr, s.WR(ib.WRSend, 2, 0, 8))
			rsp := s.Answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil)
			if op == ib.WRRDMARead {
				rsp = s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8))
			}
			s.Inject(rsp)
			s.WantWCs("data that cannot be stored", rig.WC(1, ib.WCLocProtErr), rig.WC(2, ib.WCWRFlushErr))
			s.WantState("data that cannot be stored", ib.ERR)
		}
	}
}

// TestE18_FlushIntoAFullCQ shows that a flush in SQE that overflows the CQ,
// and so ends in ERR and another flush, still ends each work request once.
func TestE18_FlushIntoAFullCQ(t *testing.T) {
	for _, typ := range []ib.QPType{ib.UC, ib.UD} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: typ, CQE: 3})
		bad := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: 1, Length: 8, LKey: 1}}, AH: s.AH()}
		s.Send(bad, bad, bad, bad, bad, bad)
		s.WantState("a flush that overflows the CQ", ib.ERR)
		if c := s.Counters(); c.ReqCQEError != 1 || c.CQEFlush != 5 || c.CQEOverflow != 3 {
			t.Errorf("%v: 6 sends ended with %d errors and %d flushes, %d lost; want 1, 5 and 3",
				typ, c.ReqCQEError, c.CQEFlush, c.CQEOverflow)
		}
		s.Send(bad)
		if c := s.Counters(); c.CQEFlush != 6 {
			t.Errorf("%v: a send posted in ERR: %d flushes, want 6", typ, c.CQEFlush)
		}
	}
}

// TestE21_LateAckAfterLocalError shows that a work request whose retransmission
// failed locally completes if the peer acknowledges it later, and that the ACK
// completes no other request.
func TestE21_LateAckAfterLocalError(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{HCA: inOrder()})
	r, err := s.PD.RegMR(memory.RegionConfig{Buf: make([]byte, 64), IOVA: 1 << 33, Access: ib.AccessLocalWrite})
	rig.Must(t, err)
	other := ib.SGE{Addr: r.Addr(), Length: 64, LKey: r.LKey()}
	s.Send(
		ib.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: []ib.SGE{s.SGE(0, 64)}},
		ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{other}},
	)
	rig.Must(t, s.PD.DeregMR(r))
	s.WantPackets("the timeout, with the second region gone", s.Pass(ib.AckTimeout(14)+time.Millisecond), rig.Req(roce.RCSendOnly, rig.PSN))
	s.Inject(s.Packet(roce.RCAcknowledge, rig.PSN+1, nil))
	s.WantWCs("an acknowledgement of both", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	s.WantState("an acknowledgement of both", ib.RTS)
	s.WantPackets("the next send", s.Send(ib.SendWR{WRID: 3, Opcode: ib.WRSend, SGList: []ib.SGE{s.SGE(0, 64)}}), rig.Req(roce.RCSendOnly, rig.PSN+2))
}

// TestE14_NAKAtTheStartOfARead shows that a fatal NAK that names the first PSN
// of a READ whose responses have begun, as Linux sends it when the region is
// deregistered meanwhile, fails the READ.
func TestE14_NAKAtTheStartOfARead(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(ib.SendWR{WRID: 1, Opcode: ib.WRRDMARead, SGList: []ib.SGE{s.SGE(0, 1024)}})
	nak := s.Packet(roce.RCAcknowledge, rig.PSN, nil)
	nak.AETH.Syndrome = roce.NAKSequence
	s.Inject(s.Packet(roce.RCRDMAReadResponseFirst, rig.PSN, bytes.Repeat([]byte{7}, 256)), nak)
	s.WantSilence("an old sequence NAK", nil, ib.RTS)
	nak.AETH.Syndrome = roce.NAKRemoteAccess
	s.Inject(nak)
	s.WantWCs("NAK remote access error in the middle of a READ", rig.WC(1, ib.WCRemAccessErr))
	s.WantState("NAK remote access error in the middle of a READ", ib.ERR)
}
