package qp_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// TestE10_E14_E16_FatalNAK shows what each NAK makes of the work request at
// its PSN, of those before and of those after.
func TestE10_E14_E16_FatalNAK(t *testing.T) {
	for _, c := range []struct {
		syndrome roce.Syndrome
		status   ib.WCStatus
	}{
		{roce.NAKInvalidRequest, ib.WCRemInvReqErr}, {roce.NAKRemoteAccess, ib.WCRemAccessErr}, {roce.NAKRemoteOperational, ib.WCRemOpErr},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{})
		s.Recv(10, 9)
		s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRRDMARead, 2, 0, 300), s.WR(ib.WRSend, 3, 0, 8))
		s.Inject(s.AckTo(0x201, c.syndrome))
		what := c.syndrome.String()
		s.WantWCs(what, rig.WC(1, ib.WCSuccess), rig.WC(2, c.status), rig.WC(3, ib.WCWRFlushErr), rig.WC(10, ib.WCWRFlushErr))
		s.WantEvents(what, ib.EventQPFatal)
		s.WantSilence(what, s.Pass(time.Hour), ib.ERR)
	}
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	for _, syn := range []roce.Syndrome{0x40, 0x5f, 0x64, 0x7f, 0x80, 0xff} {
		s.WantSilence("a reserved syndrome", s.Inject(s.AckTo(0x200, syn)), ib.RTS)
	}
}

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

// TestE22_CumulativeACK shows that an ACK completes all before it, up to a
// READ or atomic without an answer, which is asked for again.
func TestE22_CumulativeACK(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 600), s.WR(ib.WRRDMAWrite, 2, 0, 8), s.WR(ib.WRRDMARead, 3, 4096, 300), s.WR(ib.WRSend, 4, 0, 8))
	s.WantPackets("an ACK in the middle of a message", s.Inject(s.AckTo(0x200, roce.ACKUnlimited)))
	s.WantWCs("an ACK in the middle of a message")
	got := s.Inject(s.AckTo(0x206, roce.ACKUnlimited))
	s.WantPackets("an ACK past a READ", got, rig.Req(roce.RCRDMAReadRequest, 0x204), rig.Req(roce.RCSendOnly, 0x206))
	s.WantWCs("an ACK past a READ", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	s.WantPackets("another of them", s.Inject(s.AckTo(0x206, roce.ACKUnlimited)))
	if n := s.Counters().ImpliedNAKSeqErr; n != 1 {
		t.Errorf("two ACKs past one READ count as %d implied NAKs", n)
	}
	s.Inject(s.Answer(roce.RCRDMAReadResponseFirst, 0x204, roce.ACKUnlimited, make([]byte, 256)),
		s.Answer(roce.RCRDMAReadResponseLast, 0x205, roce.ACKUnlimited, make([]byte, 44)), s.AckTo(0x206, roce.ACKUnlimited))
	s.WantWCs("the data and the ACK", rig.WC(3, ib.WCSuccess), rig.WC(4, ib.WCSuccess))
}

// TestE22_ResponseAcknowledges shows that a READ response or an atomic's
// answer acknowledges what was sent before.
func TestE22_ResponseAcknowledges(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	cas := s.WR(ib.WRAtomicCmpAndSwp, 2, 64, 8)
	cas.CompareAdd, cas.Swap = 0x1111, 0x2222
	got := s.Send(s.WR(ib.WRSend, 1, 0, 8), cas)
	if a := got[1].AtomicETH; a.Compare != 0x1111 || a.SwapAdd != 0x2222 || a.VA != 0x1000 || a.RKey != 0x77 {
		t.Errorf("the COMPARE&SWAP carries %+v", a)
	}
	p := s.Answer(roce.RCAtomicAcknowledge, 0x201, roce.ACKUnlimited, nil)
	p.AtomicAck = 0x0102030405060708
	s.Inject(p)
	s.WantWCs("both", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	if v := binary.NativeEndian.Uint64(s.Buf[64:]); v != p.AtomicAck {
		t.Errorf("the result is stored as %#x, want it as a number of the host", v)
	}
}

// TestE23_OldAndGhostACKs shows that neither an ACK for what is done nor one
// for what was never sent has an effect.
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

// TestE24_E26_E28_BadResponses shows the status of the oldest work request
// when the peer answers with what does not fit.
func TestE24_E26_E28_BadResponses(t *testing.T) {
	full := make([]byte, 256)
	for _, c := range []struct {
		what   string
		op     ib.WROpcode
		n      int
		status ib.WCStatus
		ps     func(*rig.Solo) []roce.Packet
	}{
		{"READ response to a SEND", ib.WRSend, 8, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:8])}
		}},
		{"atomic answer to a READ", ib.WRRDMARead, 8, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil)}
		}},
		{"READ response to an atomic", ib.WRAtomicFetchAdd, 8, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:8])}
		}},
		{"READ response with a NAK in it", ib.WRRDMARead, 8, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.NAKRemoteAccess, full[:8])}
		}},
		{"atomic answer with a NAK in it", ib.WRAtomicFetchAdd, 8, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCAtomicAcknowledge, 0x200, roce.RNRNAK(1), nil)}
		}},
		{"FIRST after FIRST", ib.WRRDMARead, 700, ib.WCBadRespErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.Answer(roce.RCRDMAReadResponseFirst, 0x201, roce.ACKUnlimited, full)}
		}},
		{"too short", ib.WRRDMARead, 8, ib.WCLocLenErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:7])}
		}},
		{"too long", ib.WRRDMARead, 8, ib.WCLocLenErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:9])}
		}},
		{"FIRST not of the MTU", ib.WRRDMARead, 700, ib.WCLocLenErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full[:200])}
		}},
		{"LAST before the end", ib.WRRDMARead, 700, ib.WCLocLenErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.Answer(roce.RCRDMAReadResponseLast, 0x201, roce.ACKUnlimited, full)}
		}},
		{"MIDDLE at the end", ib.WRRDMARead, 512, ib.WCLocLenErr, func(s *rig.Solo) []roce.Packet {
			return []roce.Packet{s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.Answer(roce.RCRDMAReadResponseMiddle, 0x201, 0, full)}
		}},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{})
		s.Recv(10, 9)
		s.Send(s.WR(c.op, 1, 0, c.n), s.WR(ib.WRSend, 2, 0, 8))
		s.Inject(c.ps(s)...)
		s.WantWCs(c.what, rig.WC(1, c.status), rig.WC(2, ib.WCWRFlushErr), rig.WC(10, ib.WCWRFlushErr))
		s.WantEvents(c.what, ib.EventQPFatal)
		s.WantState(c.what, ib.ERR)
	}
}

// TestE26_MissingResponse shows that a gap in the responses of a READ is asked
// for at once, that both forms of an answer from the middle are taken, and
// that late copies do no harm.
func TestE26_MissingResponse(t *testing.T) {
	data := make([]byte, 700)
	rig.Fill(data, 26)
	for what, op := range map[string]roce.Opcode{"goes on with MIDDLE": roce.RCRDMAReadResponseMiddle, "begins anew with FIRST": roce.RCRDMAReadResponseFirst} {
		s := rig.NewSolo(t, rig.SoloConfig{})
		s.Send(s.WR(ib.WRRDMARead, 1, 4096, 700))
		got := s.Inject(s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, data[:256]),
			s.Answer(roce.RCRDMAReadResponseLast, 0x202, roce.ACKUnlimited, data[512:]))
		s.WantPackets(what, got, rig.Req(roce.RCRDMAReadRequest, 0x201))
		s.Inject(s.Answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, make([]byte, 256)), // a late copy
			s.Answer(op, 0x201, roce.ACKUnlimited, data[256:512]), s.Answer(roce.RCRDMAReadResponseLast, 0x202, roce.ACKUnlimited, data[512:]))
		s.WantWCs(what, rig.WC(1, ib.WCSuccess))
		if !bytes.Equal(s.Buf[4096:4796], data) {
			t.Errorf("%s: the READ returned other bytes", what)
		}
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

// TestE27_SendCQOverflow shows that a full send CQ ends like a full receive
// CQ: CQ_ERR, then QP_FATAL.
func TestE27_SendCQOverflow(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{CQE: 2})
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8), s.WR(ib.WRSend, 3, 0, 8), s.WR(ib.WRSend, 4, 0, 8))
	s.Inject(s.AckTo(0x203, roce.ACKUnlimited))
	s.WantEvents("four completions into a CQ of two", ib.EventCQErr, ib.EventQPFatal)
	s.WantState("four completions into a CQ of two", ib.ERR)
	s.WantWCs("what was there stays", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	if n := s.Counters().CQEOverflow; n != 2 {
		t.Errorf("%d completions are counted as lost, want 2", n)
	}
}

// TestE18_FlushIntoAFullCQ shows that a flush in SQE that overflows the CQ,
// and so ends in ERR and another flush, still ends each work request once.
func TestE18_FlushIntoAFullCQ(t *testing.T) {
	for _, typ := range []ib.QPType{ib.UC, ib.UD} {
		s := rig.NewSolo(t, rig.SoloConfig{Type: typ, CQE: 2})
		bad := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: 1, Length: 8, LKey: 1}}, AH: s.AH()}
		s.Send(bad, bad, bad, bad, bad, bad)
		s.WantState("a flush that overflows the CQ", ib.ERR)
		if c := s.Counters(); c.ReqCQEError != 1 || c.CQEFlush != 5 || c.CQEOverflow != 4 {
			t.Errorf("%v: 6 sends ended with %d errors and %d flushes, %d lost; want 1, 5 and 4",
				typ, c.ReqCQEError, c.CQEFlush, c.CQEOverflow)
		}
		s.Send(bad)
		if c := s.Counters(); c.CQEFlush != 6 {
			t.Errorf("%v: a send posted in ERR: %d flushes, want 6", typ, c.CQEFlush)
		}
	}
}

// TestE21_LateAckAfterLocalError shows that a work request whose
// retransmission failed here, and which the peer then acknowledges after all,
// is complete, and that nothing else is taken for it.
func TestE21_LateAckAfterLocalError(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
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

// TestE14_NAKAtTheStartOfARead shows that a fatal NAK that names the first
// PSN of a READ whose responses have begun, as Linux sends it when the region
// goes meanwhile, fails the READ.
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
