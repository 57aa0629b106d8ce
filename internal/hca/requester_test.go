package hca

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/roce"
)

// wr returns a work request of n bytes at byte off of the region.
func (s *solo) wr(op ib.WROpcode, id uint64, off, n int) ib.SendWR {
	return ib.SendWR{
		WRID: id, Opcode: op, SGList: []ib.SGE{s.sge(off, n)}, RemoteAddr: 0x1000, RKey: 0x77,
		AH: s.ah(), RemoteQPN: soloPeerQPN, RemoteQKey: soloQKey,
	}
}

// answer returns a response to the adapter's PSN psn.
func (s *solo) answer(op roce.Opcode, psn uint32, syn roce.Syndrome, payload []byte) roce.Packet {
	p := s.packet(op, psn, payload)
	p.AETH.Syndrome = syn
	return p
}

// ackTo returns an ACKNOWLEDGE.
func (s *solo) ackTo(psn uint32, syn roce.Syndrome) roce.Packet {
	return s.answer(roce.RCAcknowledge, psn, syn, nil)
}

// soloTimeout is the retry timer of a solo (code 14), and tick a moment.
const (
	soloTimeout = 4096 << 14
	tick        = time.Microsecond
)

// TestE1_NothingIsSent shows that nothing leaves in a state that sends
// nothing, and nothing of a queue pair that is gone.
func TestE1_NothingIsSent(t *testing.T) {
	for what, end := range map[string]func(*solo){
		"RESET":     func(s *solo) { s.modify(ib.RESET) },
		"ERR":       func(s *solo) { s.modify(ib.ERR) },
		"destroyed": func(s *solo) { s.hca.DestroyQP(s.pd, s.qp) },
	} {
		s := newSolo(t, soloConfig{})
		_, err := s.qp.PostSend(s.wr(ib.WRSend, 1, 0, 2000), s.wr(ib.WRRDMARead, 2, 4096, 2000))
		must(t, err)
		s.deliver(s.datagram(s.read(soloPeerPSN, 100))) // a response is owed too
		s.hca.Shard().RingDoorbell(s.qp)
		end(s)
		s.wantPackets(what, s.pass(time.Minute))
	}
}

// TestE2_Q22_OperationTheTypeLacks shows that posting refuses it at once, so
// that nothing is queued, and that what is only known when it is sent, a UD
// handle that has gone, completes with LOC_QP_OP_ERR.
func TestE2_Q22_OperationTheTypeLacks(t *testing.T) {
	for _, c := range []struct {
		typ   ib.QPType
		op    ib.WROpcode
		errno ib.Errno
	}{
		{ib.UC, ib.WRRDMARead, ib.EINVAL}, {ib.UC, ib.WRAtomicCmpAndSwp, ib.EINVAL}, {ib.UC, ib.WRSendWithInv, ib.EINVAL},
		{ib.UD, ib.WRRDMAWrite, ib.EINVAL}, {ib.UD, ib.WRRDMARead, ib.EINVAL}, {ib.UD, ib.WRAtomicFetchAdd, ib.EINVAL},
		{ib.RC, ib.WRBindMW, ib.EOPNOTSUPP}, {ib.RC, ib.WRTSO, ib.EOPNOTSUPP}, {ib.RC, ib.WRFlush, ib.EOPNOTSUPP},
		{ib.RC, ib.WRAtomicWrite, ib.EOPNOTSUPP}, {ib.RC, 200, ib.EOPNOTSUPP},
	} {
		s := newSolo(t, soloConfig{typ: c.typ})
		n, err := s.qp.PostSend(s.wr(c.op, 1, 0, 8))
		if n != 0 || !errors.Is(err, c.errno) {
			t.Errorf("%v on %v is posted: %d, %v; want %v", c.op, c.typ, n, err, c.errno)
		}
	}
	s := newSolo(t, soloConfig{typ: ib.UD})
	wr := s.wr(ib.WRSend, 1, 0, 8)
	must(t, s.pd.DestroyAH(wr.AH))
	s.wantPackets("a handle that has gone", s.send(wr, s.wr(ib.WRSend, 2, 0, 8)))
	s.wantWCs("a handle that has gone", wc{1, ib.WCLocQPOpErr}, wc{2, ib.WCWRFlushErr})
}

// TestE3_Q18_Q19_BadLocalMemory shows LOC_PROT_ERR for every fault of the gather
// list, after what was sent before is acknowledged, and the end of the queue
// pair; for a message of several packets wherever the fault is.
func TestE3_Q18_Q19_BadLocalMemory(t *testing.T) {
	for what, sge := range map[string]func(*solo) []ib.SGE{
		"no such key":        func(s *solo) []ib.SGE { return []ib.SGE{{Addr: s.mr.Addr(), Length: 9, LKey: s.mr.LKey() + 1}} },
		"past the end":       func(s *solo) []ib.SGE { return []ib.SGE{s.sge(soloBytes-8, 9)} },
		"the second element": func(s *solo) []ib.SGE { return []ib.SGE{s.sge(0, 9), {Addr: 1, Length: 1, LKey: 1}} },
		"the third packet":   func(s *solo) []ib.SGE { return []ib.SGE{s.sge(soloBytes-600, 700)} },
	} {
		s := newSolo(t, soloConfig{})
		s.recv(10, 9)
		bad := s.wr(ib.WRSend, 2, 0, 0)
		bad.SGList = sge(s)
		got := s.send(s.wr(ib.WRRDMAWrite, 1, 0, 10), bad, s.wr(ib.WRSend, 3, 0, 10))
		if len(got) == 0 || got[0].BTH.Opcode != roce.RCRDMAWriteOnly {
			t.Fatalf("%s: what comes before is not sent: %v", what, got)
		}
		s.wantWCs(what + ": the one before has no answer yet")
		s.inject(s.ackTo(soloPSN, roce.ACKUnlimited))
		s.wantWCs(what, wc{1, ib.WCSuccess}, wc{2, ib.WCLocProtErr}, wc{3, ib.WCWRFlushErr}, wc{10, ib.WCWRFlushErr})
		s.wantEvents(what, ib.EventQPFatal)
		s.wantState(what, ib.ERR)
	}
}

// TestE4_Retransmission shows that sending again starts at the PSN that is
// missing, with the opcode, the address and the bytes of that place.
func TestE4_Retransmission(t *testing.T) {
	s := newSolo(t, soloConfig{})
	fill(s.buf, 4)
	whole := s.send(s.wr(ib.WRRDMAWrite, 1, 0, 900), s.wr(ib.WRRDMARead, 2, 8192, 1000), s.wr(ib.WRSend, 3, 100, 10))
	s.wantPackets("three work requests", whole,
		req(roce.RCRDMAWriteFirst, 0x200), req(roce.RCRDMAWriteMiddle, 0x201), req(roce.RCRDMAWriteMiddle, 0x202), req(roce.RCRDMAWriteLast, 0x203),
		req(roce.RCRDMAReadRequest, 0x204), req(roce.RCSendOnly, 0x208))
	got := s.inject(s.ackTo(0x202, roce.NAKSequence))
	s.wantPackets("NAK for the third packet of the WRITE", got,
		req(roce.RCRDMAWriteMiddle, 0x202), req(roce.RCRDMAWriteLast, 0x203), req(roce.RCRDMAReadRequest, 0x204), req(roce.RCSendOnly, 0x208))
	if len(got) == 4 && (!bytes.Equal(got[0].Payload, s.buf[512:768]) || !bytes.Equal(got[1].Payload, s.buf[768:900])) {
		t.Error("the packets sent again hold other bytes")
	}
	s.inject(s.ackTo(0x203, roce.ACKUnlimited), s.answer(roce.RCRDMAReadResponseFirst, 0x204, roce.ACKUnlimited, s.buf[:256]))
	s.wantWCs("the WRITE", wc{1, ib.WCSuccess})
	got = s.pass(soloTimeout + tick)
	s.wantPackets("the timer: the READ goes on where its data ended", got, req(roce.RCRDMAReadRequest, 0x205), req(roce.RCSendOnly, 0x208))
	if len(got) == 2 && (got[0].RETH.VA != 0x1100 || got[0].RETH.Length != 744) {
		t.Errorf("the READ is resumed at %#x for %d bytes, want 0x1100 and 744", got[0].RETH.VA, got[0].RETH.Length)
	}
	if c := s.counters(); c.RetransPkts != 6 || c.CompleterRetryErr != 2 || c.LocalAckTimeoutErr != 1 || c.RcvdSeqErr != 1 {
		t.Errorf("6 packets in 2 retries, 1 by timer and 1 by NAK, count as %d, %d, %d, %d",
			c.RetransPkts, c.CompleterRetryErr, c.LocalAckTimeoutErr, c.RcvdSeqErr)
	}
}

// TestE5_RetryTimer shows when the timer runs: from the first packet that is
// not acknowledged, anew with each progress, not when nothing is outstanding
// and not with a timeout of 0.
func TestE5_RetryTimer(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 300))
	s.wantPackets("just before it fires", s.pass(soloTimeout-tick))
	s.inject(s.ackTo(0x200, roce.ACKUnlimited))
	s.wantPackets("progress starts it anew", s.pass(soloTimeout-tick))
	s.wantPackets("it fires", s.pass(tick), req(roce.RCSendLast, 0x201))
	s.inject(s.ackTo(0x201, roce.ACKUnlimited))
	s.wantPackets("nothing is outstanding", s.pass(time.Hour))
	s = newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.Timeout = 0 }})
	s.send(s.wr(ib.WRSend, 1, 0, 300))
	s.wantPackets("timeout 0 is never", s.pass(time.Hour*24*365))
}

// TestE8_RetryCount shows that retry_cnt n means n+1 transmissions, 7 is no
// more than that, and what follows: RETRY_EXC_ERR for the oldest, the rest
// flushed in order.
func TestE8_RetryCount(t *testing.T) {
	for n := range uint8(8) {
		s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.RetryCnt = n }})
		s.recv(10, 9, 9)
		sent := len(s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8)))
		sent += len(s.pass(time.Hour))
		if sent != 2*(int(n)+1) {
			t.Errorf("retry_cnt %d: %d packets, want each of 2 sent %d times", n, sent, n+1)
		}
		s.wantWCs("retries exceeded", wc{1, ib.WCRetryExcErr}, wc{2, ib.WCWRFlushErr}, wc{10, ib.WCWRFlushErr}, wc{11, ib.WCWRFlushErr})
		s.wantEvents("retries exceeded", ib.EventQPFatal)
		s.wantState("retries exceeded", ib.ERR)
		if c := s.counters(); c.RetryExceededErr != 1 {
			t.Errorf("RETRY_EXC_ERR counts as %d", c.RetryExceededErr)
		}
	}
}

// TestE8_ProgressReloadsTheCount shows that only retries in a row count.
func TestE8_ProgressReloadsTheCount(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.RetryCnt = 1 }})
	s.send(s.wr(ib.WRSend, 1, 0, 5*256))
	for i := range uint32(4) {
		s.pass(soloTimeout + tick)
		s.wantState("one retry is allowed each time", ib.RTS)
		s.inject(s.ackTo(0x200+i, roce.ACKUnlimited))
	}
	s.pass(time.Hour)
	s.wantState("without progress", ib.ERR)
}

// TestE8_NAKSequence shows that all before the NAK is acknowledged, that the
// rest is sent at once, and that a second NAK for the same starts nothing.
func TestE8_NAKSequence(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRRDMAWrite, 2, 0, 8), s.wr(ib.WRSend, 3, 0, 8))
	s.wantPackets("a NAK for the third", s.inject(s.ackTo(0x202, roce.NAKSequence)), req(roce.RCSendOnly, 0x202))
	s.wantWCs("the two before", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	s.wantPackets("the same NAK again", s.inject(s.ackTo(0x202, roce.NAKSequence)))
	s.inject(s.ackTo(0x202, roce.ACKUnlimited))
	s.wantWCs("the third", wc{3, ib.WCSuccess})
}

// TestE12_E25_RNR shows the requester's side: the time is waited in full, the
// PSN of the NAK is sent again, rnr_retry counts, 7 is for ever, and the
// retry count is left alone.
func TestE12_E25_RNR(t *testing.T) {
	for n := range uint8(8) {
		s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.RNRRetry, a.RetryCnt, a.Timeout = n, 0, 1 }})
		s.send(s.wr(ib.WRSend, 1, 0, 300), s.wr(ib.WRSend, 2, 0, 8))
		naks := uint32(0)
		for code := uint8(0); code < 20 && s.qp.State() == ib.RTS; code++ {
			s.wantPackets("the NAK", s.inject(s.ackTo(0x200, roce.RNRNAK(code))))
			naks++
			if s.qp.State() != ib.RTS {
				break
			}
			wait := ib.RNRTimer(code)
			s.wantPackets("just before the time is over", s.pass(wait-tick/10))
			s.wantPackets("the time is over", s.pass(tick/10), req(roce.RCSendFirst, 0x200), req(roce.RCSendLast, 0x201), req(roce.RCSendOnly, 0x202))
		}
		if n == ib.RNRInfiniteRetry {
			if naks != 20 || s.qp.State() != ib.RTS {
				t.Errorf("rnr_retry 7 ends in %v after %d NAKs", s.qp.State(), naks)
			}
			continue
		}
		if naks != uint32(n)+1 {
			t.Errorf("rnr_retry %d: %d transmissions, want %d", n, naks, n+1)
		}
		s.wantWCs("RNR retries exceeded", wc{1, ib.WCRNRRetryExcErr}, wc{2, ib.WCWRFlushErr})
		s.wantEvents("RNR retries exceeded", ib.EventQPFatal)
	}
}

// TestE25_NAKWhileWaiting shows that a sequence NAK after an RNR NAK, as Linux
// sends it, neither ends the wait nor costs a retry.
func TestE25_NAKWhileWaiting(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.RetryCnt = 0 }})
	s.send(s.wr(ib.WRSend, 1, 0, 300))
	s.wantPackets("both NAKs", s.inject(s.ackTo(0x200, roce.RNRNAK(20)), s.ackTo(0x200, roce.NAKSequence)))
	s.wantPackets("the wait goes on", s.pass(ib.RNRTimer(20)-tick))
	s.wantPackets("the wait is over", s.pass(tick), req(roce.RCSendFirst, 0x200), req(roce.RCSendLast, 0x201))
	s.inject(s.ackTo(0x201, roce.ACKUnlimited))
	s.wantWCs("in the end", wc{1, ib.WCSuccess})
}

// TestE10_E14_E16_FatalNAK shows what each NAK makes of the work request at
// its PSN, of those before and of those after.
func TestE10_E14_E16_FatalNAK(t *testing.T) {
	for _, c := range []struct {
		syndrome roce.Syndrome
		status   ib.WCStatus
	}{
		{roce.NAKInvalidRequest, ib.WCRemInvReqErr}, {roce.NAKRemoteAccess, ib.WCRemAccessErr}, {roce.NAKRemoteOperational, ib.WCRemOpErr},
	} {
		s := newSolo(t, soloConfig{})
		s.recv(10, 9)
		s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRRDMARead, 2, 0, 300), s.wr(ib.WRSend, 3, 0, 8))
		s.inject(s.ackTo(0x201, c.syndrome))
		what := c.syndrome.String()
		s.wantWCs(what, wc{1, ib.WCSuccess}, wc{2, c.status}, wc{3, ib.WCWRFlushErr}, wc{10, ib.WCWRFlushErr})
		s.wantEvents(what, ib.EventQPFatal)
		s.wantSilence(what, s.pass(time.Hour), ib.ERR)
	}
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 8))
	for _, syn := range []roce.Syndrome{0x40, 0x5f, 0x64, 0x7f, 0x80, 0xff} {
		s.wantSilence("a reserved syndrome", s.inject(s.ackTo(0x200, syn)), ib.RTS)
	}
}

// TestE20_ResponsesToADeadQP shows that responses in ERR, RESET, RTR and to a
// destroyed queue pair are dropped.
func TestE20_ResponsesToADeadQP(t *testing.T) {
	for _, st := range []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.ERR} {
		s := newSolo(t, soloConfig{state: max(st, ib.INIT)})
		if st == ib.RESET {
			s.modify(ib.RESET)
		}
		for _, p := range []roce.Packet{
			s.ackTo(0x200, roce.ACKUnlimited), s.ackTo(0x200, roce.NAKInvalidRequest), s.ackTo(0x200, roce.RNRNAK(1)),
			s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, nil), s.answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil),
		} {
			s.wantSilence("a response in "+st.String(), s.inject(p), st)
		}
		if n := s.counters().Drops[counters.DropState]; n != 5 {
			t.Errorf("5 responses in %v: %d dropped", st, n)
		}
	}
}

// TestE22_CumulativeACK shows that an ACK completes all before it, up to a
// READ or atomic without an answer, which is asked for again.
func TestE22_CumulativeACK(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 600), s.wr(ib.WRRDMAWrite, 2, 0, 8), s.wr(ib.WRRDMARead, 3, 4096, 300), s.wr(ib.WRSend, 4, 0, 8))
	s.wantPackets("an ACK in the middle of a message", s.inject(s.ackTo(0x200, roce.ACKUnlimited)))
	s.wantWCs("an ACK in the middle of a message")
	got := s.inject(s.ackTo(0x206, roce.ACKUnlimited))
	s.wantPackets("an ACK past a READ", got, req(roce.RCRDMAReadRequest, 0x204), req(roce.RCSendOnly, 0x206))
	s.wantWCs("an ACK past a READ", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	s.wantPackets("another of them", s.inject(s.ackTo(0x206, roce.ACKUnlimited)))
	if n := s.counters().ImpliedNAKSeqErr; n != 1 {
		t.Errorf("two ACKs past one READ count as %d implied NAKs", n)
	}
	s.inject(s.answer(roce.RCRDMAReadResponseFirst, 0x204, roce.ACKUnlimited, make([]byte, 256)),
		s.answer(roce.RCRDMAReadResponseLast, 0x205, roce.ACKUnlimited, make([]byte, 44)), s.ackTo(0x206, roce.ACKUnlimited))
	s.wantWCs("the data and the ACK", wc{3, ib.WCSuccess}, wc{4, ib.WCSuccess})
}

// TestE22_ResponseAcknowledges shows that a READ response or an atomic's
// answer acknowledges what was sent before.
func TestE22_ResponseAcknowledges(t *testing.T) {
	s := newSolo(t, soloConfig{})
	cas := s.wr(ib.WRAtomicCmpAndSwp, 2, 64, 8)
	cas.CompareAdd, cas.Swap = 0x1111, 0x2222
	got := s.send(s.wr(ib.WRSend, 1, 0, 8), cas)
	if a := got[1].AtomicETH; a.Compare != 0x1111 || a.SwapAdd != 0x2222 || a.VA != 0x1000 || a.RKey != 0x77 {
		t.Errorf("the COMPARE&SWAP carries %+v", a)
	}
	p := s.answer(roce.RCAtomicAcknowledge, 0x201, roce.ACKUnlimited, nil)
	p.AtomicAck = 0x0102030405060708
	s.inject(p)
	s.wantWCs("both", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	if v := binary.NativeEndian.Uint64(s.buf[64:]); v != p.AtomicAck {
		t.Errorf("the result is stored as %#x, want it as a number of the host", v)
	}
}

// TestE23_OldAndGhostACKs shows that neither an ACK for what is done nor one
// for what was never sent has an effect.
func TestE23_OldAndGhostACKs(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8))
	s.inject(s.ackTo(0x200, roce.ACKUnlimited))
	s.wantWCs("the first", wc{1, ib.WCSuccess})
	for _, psn := range []uint32{0x200, 0x1ff, 0x100, 0x202, 0x203, 0x1000, 0x200 + 1<<23, 0xffffff} {
		for _, syn := range []roce.Syndrome{roce.ACKUnlimited, roce.NAKSequence, roce.NAKRemoteAccess, roce.RNRNAK(1)} {
			s.wantSilence("an old or a ghost ACK", s.inject(s.ackTo(psn, syn)), ib.RTS)
		}
	}
	if c := s.counters(); c.Drops[counters.DropGhost] == 0 || c.Drops[counters.DropDuplicate] == 0 {
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
		ps     func(*solo) []roce.Packet
	}{
		{"READ response to a SEND", ib.WRSend, 8, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:8])}
		}},
		{"atomic answer to a READ", ib.WRRDMARead, 8, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil)}
		}},
		{"READ response to an atomic", ib.WRAtomicFetchAdd, 8, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:8])}
		}},
		{"READ response with a NAK in it", ib.WRRDMARead, 8, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.NAKRemoteAccess, full[:8])}
		}},
		{"atomic answer with a NAK in it", ib.WRAtomicFetchAdd, 8, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCAtomicAcknowledge, 0x200, roce.RNRNAK(1), nil)}
		}},
		{"FIRST after FIRST", ib.WRRDMARead, 700, ib.WCBadRespErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.answer(roce.RCRDMAReadResponseFirst, 0x201, roce.ACKUnlimited, full)}
		}},
		{"too short", ib.WRRDMARead, 8, ib.WCLocLenErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:7])}
		}},
		{"too long", ib.WRRDMARead, 8, ib.WCLocLenErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, full[:9])}
		}},
		{"FIRST not of the MTU", ib.WRRDMARead, 700, ib.WCLocLenErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full[:200])}
		}},
		{"LAST before the end", ib.WRRDMARead, 700, ib.WCLocLenErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.answer(roce.RCRDMAReadResponseLast, 0x201, roce.ACKUnlimited, full)}
		}},
		{"MIDDLE at the end", ib.WRRDMARead, 512, ib.WCLocLenErr, func(s *solo) []roce.Packet {
			return []roce.Packet{s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, full), s.answer(roce.RCRDMAReadResponseMiddle, 0x201, 0, full)}
		}},
	} {
		s := newSolo(t, soloConfig{})
		s.recv(10, 9)
		s.send(s.wr(c.op, 1, 0, c.n), s.wr(ib.WRSend, 2, 0, 8))
		s.inject(c.ps(s)...)
		s.wantWCs(c.what, wc{1, c.status}, wc{2, ib.WCWRFlushErr}, wc{10, ib.WCWRFlushErr})
		s.wantEvents(c.what, ib.EventQPFatal)
		s.wantState(c.what, ib.ERR)
	}
}

// TestE26_MissingResponse shows that a gap in the responses of a READ is asked
// for at once, that both forms of an answer from the middle are taken, and
// that late copies do no harm.
func TestE26_MissingResponse(t *testing.T) {
	data := make([]byte, 700)
	fill(data, 26)
	for what, op := range map[string]roce.Opcode{"goes on with MIDDLE": roce.RCRDMAReadResponseMiddle, "begins anew with FIRST": roce.RCRDMAReadResponseFirst} {
		s := newSolo(t, soloConfig{})
		s.send(s.wr(ib.WRRDMARead, 1, 4096, 700))
		got := s.inject(s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, data[:256]),
			s.answer(roce.RCRDMAReadResponseLast, 0x202, roce.ACKUnlimited, data[512:]))
		s.wantPackets(what, got, req(roce.RCRDMAReadRequest, 0x201))
		s.inject(s.answer(roce.RCRDMAReadResponseFirst, 0x200, roce.ACKUnlimited, make([]byte, 256)), // a late copy
			s.answer(op, 0x201, roce.ACKUnlimited, data[256:512]), s.answer(roce.RCRDMAReadResponseLast, 0x202, roce.ACKUnlimited, data[512:]))
		s.wantWCs(what, wc{1, ib.WCSuccess})
		if !bytes.Equal(s.buf[4096:4796], data) {
			t.Errorf("%s: the READ returned other bytes", what)
		}
	}
}

// TestE28_ResponseCannotBeStored shows LOC_PROT_ERR for a READ and an atomic
// whose local memory has a bad lkey or may not be written.
func TestE28_ResponseCannotBeStored(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp} {
		for _, readOnly := range []bool{false, true} {
			c := soloConfig{}
			if readOnly {
				c.mrAccess = ib.AccessRemoteRead
			}
			s := newSolo(t, c)
			wr := s.wr(op, 1, 0, 8)
			if !readOnly {
				wr.SGList[0].LKey++
			}
			s.send(wr, s.wr(ib.WRSend, 2, 0, 8))
			rsp := s.answer(roce.RCAtomicAcknowledge, 0x200, roce.ACKUnlimited, nil)
			if op == ib.WRRDMARead {
				rsp = s.answer(roce.RCRDMAReadResponseOnly, 0x200, roce.ACKUnlimited, make([]byte, 8))
			}
			s.inject(rsp)
			s.wantWCs("data that cannot be stored", wc{1, ib.WCLocProtErr}, wc{2, ib.WCWRFlushErr})
			s.wantState("data that cannot be stored", ib.ERR)
		}
	}
}

// TestE27_SendCQOverflow shows that a full send CQ ends like a full receive
// CQ: CQ_ERR, then QP_FATAL.
func TestE27_SendCQOverflow(t *testing.T) {
	s := newSolo(t, soloConfig{cqe: 2})
	s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8), s.wr(ib.WRSend, 3, 0, 8), s.wr(ib.WRSend, 4, 0, 8))
	s.inject(s.ackTo(0x203, roce.ACKUnlimited))
	s.wantEvents("four completions into a CQ of two", ib.EventCQErr, ib.EventQPFatal)
	s.wantState("four completions into a CQ of two", ib.ERR)
	s.wantWCs("what was there stays", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	if n := s.counters().CQEOverflow; n != 2 {
		t.Errorf("%d completions are counted as lost, want 2", n)
	}
}

// TestE2_DepthTakenAway shows that a READ or atomic that was posted while the
// QP had an initiator depth does not wait for ever when it has none any more.
func TestE2_DepthTakenAway(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAdd} {
		s := newSolo(t, soloConfig{})
		s.modify(ib.SQD)
		s.send(s.wr(ib.WRRDMAWrite, 1, 0, 8), s.wr(op, 2, 0, 8), s.wr(ib.WRSend, 3, 0, 8))
		must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.RTS}, ib.AttrState|ib.AttrMaxRDAtomic))
		s.wantPackets("what comes before", s.out(), req(roce.RCRDMAWriteOnly, soloPSN))
		s.wantState("an answer is awaited", ib.RTS)
		s.inject(s.ackTo(soloPSN, roce.ACKUnlimited))
		s.wantWCs(op.String(), wc{1, ib.WCSuccess}, wc{2, ib.WCLocQPOpErr}, wc{3, ib.WCWRFlushErr})
	}
}

// TestE12_CreditsThatCannotBe shows that a peer whose AETH says that nothing
// was ever received does not stop the send queue for good: with nothing
// outstanding, one message goes, and its answer or its timer decides.
func TestE12_CreditsThatCannotBe(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8), s.wr(ib.WRSend, 3, 0, 8))
	none := s.ackTo(soloPSN+2, roce.ACKCredits(0))
	none.AETH.MSN = 0
	s.inject(none)
	s.wantWCs("acknowledged", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess}, wc{3, ib.WCSuccess})
	s.wantPackets("one goes", s.send(s.wr(ib.WRSend, 4, 0, 8), s.wr(ib.WRSend, 5, 0, 8)), req(roce.RCSendOnly, soloPSN+3))
	none.BTH.PSN = none.BTH.PSN.Next()
	s.wantPackets("and then the next", s.inject(none), req(roce.RCSendOnly, soloPSN+4))
	s.pass(time.Minute)
	s.wantWCs("a silent peer", wc{4, ib.WCSuccess}, wc{5, ib.WCRetryExcErr})
}
