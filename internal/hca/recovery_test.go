package hca

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestE18_FlushIntoAFullCQ shows that a flush in SQE that overflows the CQ,
// and so ends in ERR and another flush, still ends each work request once.
func TestE18_FlushIntoAFullCQ(t *testing.T) {
	for _, typ := range []ib.QPType{ib.UC, ib.UD} {
		s := newSolo(t, soloConfig{typ: typ, cqe: 2})
		bad := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: 1, Length: 8, LKey: 1}}, AH: s.ah()}
		s.send(bad, bad, bad, bad, bad, bad)
		s.wantState("a flush that overflows the CQ", ib.ERR)
		if c := s.counters(); c.ReqCQEError != 1 || c.CQEFlush != 5 || c.CQEOverflow != 4 {
			t.Errorf("%v: 6 sends ended with %d errors and %d flushes, %d lost; want 1, 5 and 4",
				typ, c.ReqCQEError, c.CQEFlush, c.CQEOverflow)
		}
		s.send(bad)
		if c := s.counters(); c.CQEFlush != 6 {
			t.Errorf("%v: a send posted in ERR: %d flushes, want 6", typ, c.CQEFlush)
		}
	}
}

// TestE18_OverflowFailsEveryQPOfTheCQ shows that QPs that share the CQ go to
// ERR too, each with its event, and that one in RESET and one elsewhere do not.
func TestE18_OverflowFailsEveryQPOfTheCQ(t *testing.T) {
	s := newSolo(t, soloConfig{cqe: 2})
	elsewhere, err := s.hca.CreateCQ(2, nil)
	must(t, err)
	make1 := func(cq *qp.CQ, init bool) *qp.QP {
		q, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		must(t, err)
		if init {
			must(t, q.Modify(s.now, &ib.QPAttr{State: ib.INIT, Port: 1}, rigInit))
		}
		return q
	}
	sharing, reset, other := make1(s.cq, true), make1(s.cq, false), make1(elsewhere, true)
	s.recv(1, 9, 9, 9)
	for i := range uint32(3) {
		s.inject(s.packet(roce.RCSendOnly, 0x100+i, []byte{1}))
	}
	s.wantEvents("a CQ that overflows under two QPs", ib.EventCQErr, ib.EventQPFatal, ib.EventQPFatal)
	if sharing.State() != ib.ERR || reset.State() != ib.RESET || other.State() != ib.INIT {
		t.Errorf("sharing %v, in RESET %v, elsewhere %v; want ERR, RESET and INIT", sharing.State(), reset.State(), other.State())
	}
}

// TestE21_LateAckAfterLocalError shows that a work request whose
// retransmission failed here, and which the peer then acknowledges after all,
// is complete, and that nothing else is taken for it.
func TestE21_LateAckAfterLocalError(t *testing.T) {
	s := newSolo(t, soloConfig{})
	r, err := s.pd.RegMR(memory.RegionConfig{Buf: make([]byte, 64), IOVA: 1 << 33, Access: ib.AccessLocalWrite})
	must(t, err)
	other := ib.SGE{Addr: r.Addr(), Length: 64, LKey: r.LKey()}
	s.send(
		ib.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: []ib.SGE{s.sge(0, 64)}},
		ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{other}},
	)
	must(t, s.pd.DeregMR(r))
	s.wantPackets("the timeout, with the second region gone", s.pass(ib.AckTimeout(14)+time.Millisecond), req(roce.RCSendOnly, soloPSN))
	s.inject(s.packet(roce.RCAcknowledge, soloPSN+1, nil))
	s.wantWCs("an acknowledgement of both", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	s.wantState("an acknowledgement of both", ib.RTS)
	s.wantPackets("the next send", s.send(ib.SendWR{WRID: 3, Opcode: ib.WRSend, SGList: []ib.SGE{s.sge(0, 64)}}), req(roce.RCSendOnly, soloPSN+2))
}

// TestE9_ReplayAfterDeregistration shows that a READ that is asked for again
// when its region has gone is dropped: a duplicate is never refused.
func TestE9_ReplayAfterDeregistration(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 64)
	read := s.packet(roce.RCRDMAReadRequest, soloPeerPSN, nil)
	read.RETH.Length = 600
	if got := s.inject(read); len(got) != 3 {
		t.Fatalf("a READ of 600 bytes has %d responses, want 3", len(got))
	}
	must(t, s.pd.DeregMR(s.mr))
	s.wantSilence("a duplicate READ of a region that has gone", s.inject(read), ib.RTS)
}

// TestE14_NAKAtTheStartOfARead shows that a fatal NAK that names the first
// PSN of a READ whose responses have begun, as Linux sends it when the region
// goes meanwhile, fails the READ.
func TestE14_NAKAtTheStartOfARead(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.send(ib.SendWR{WRID: 1, Opcode: ib.WRRDMARead, SGList: []ib.SGE{s.sge(0, 1024)}})
	nak := s.packet(roce.RCAcknowledge, soloPSN, nil)
	nak.AETH.Syndrome = roce.NAKSequence
	s.inject(s.packet(roce.RCRDMAReadResponseFirst, soloPSN, bytes.Repeat([]byte{7}, 256)), nak)
	s.wantSilence("an old sequence NAK", nil, ib.RTS)
	nak.AETH.Syndrome = roce.NAKRemoteAccess
	s.inject(nak)
	s.wantWCs("NAK remote access error in the middle of a READ", wc{1, ib.WCRemAccessErr})
	s.wantState("NAK remote access error in the middle of a READ", ib.ERR)
}

// TestQ15_FlushBeforeRTSOverflows shows that a QP whose last flush on the way
// to RTS finds the CQ full stays in ERR.
func TestQ15_FlushBeforeRTSOverflows(t *testing.T) {
	s := newSolo(t, soloConfig{typ: ib.UC, cqe: 1, state: ib.SQE})
	wr := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{s.sge(0, 8)}}
	if _, err := s.qp.PostSend(wr, wr); err != nil {
		t.Fatal(err)
	}
	s.modify(ib.RTS)
	s.wantState("two flushes into a CQ of one entry", ib.ERR)
}

// TestQ15_FlushBeforeRTS shows that what is posted in SQE is flushed even if
// the QP goes back to RTS before the shard has looked at it.
func TestQ15_FlushBeforeRTS(t *testing.T) {
	s := newSolo(t, soloConfig{typ: ib.UC, state: ib.SQE})
	wr := ib.SendWR{WRID: 5, Opcode: ib.WRSend, SGList: []ib.SGE{s.sge(0, 8)}}
	if _, err := s.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	s.modify(ib.RTS)
	s.wantPackets("a send posted in SQE", s.out())
	s.wantWCs("a send posted in SQE", wc{5, ib.WCWRFlushErr})
	if got := s.send(wr); len(got) != 1 {
		t.Errorf("a send posted in RTS again makes %d packets, want 1", len(got))
	}
}

// TestWindowShrinksInAMessage shows that a sender whose packets in flight
// asked for no acknowledgement asks for one when the window shrinks below
// them, instead of waiting for its retry timer.
func TestWindowShrinksInAMessage(t *testing.T) {
	s := newSolo(t, soloConfig{batch: maxPacket, hca: Config{Settings: qp.Settings{WindowBytes: 256 << 10}}})
	first := s.qp
	other, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: rigCap, SigAll: true})
	must(t, err)
	// The other QP has something outstanding for the losses to come.
	s.qp = other
	s.walk(ib.RTS)
	for range 8 {
		s.send(ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{s.sge(0, 8)}})
	}
	s.qp = first
	// One batch of a long message leaves, none of it asking for an answer.
	if _, err := first.PostSend(ib.SendWR{WRID: 1, Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{s.sge(0, soloBytes)}}); err != nil {
		t.Fatal(err)
	}
	sh := s.hca.Shard()
	sh.RingDoorbell(first)
	for range 2 {
		sh.Transmit(s.now, s.batch)
		for _, r := range s.batch.Pending() {
			for k := range r.Count {
				if p := s.parse(&r, k); p.BTH.AckReq {
					t.Fatal("the beginning of the message asks for an acknowledgement already")
				}
			}
		}
		s.batch.Reset()
	}
	// Losses of the other one shrink the window that they share.
	for i := range uint32(7) {
		nak := s.packet(roce.RCAcknowledge, soloPSN+i+1, nil)
		nak.BTH.DestQP, nak.AETH.Syndrome = other.Num(), roce.NAKSequence
		s.deliver(s.datagram(nak))
	}
	asked := false
	for _, p := range s.out() {
		asked = asked || p.BTH.AckReq && p.BTH.Opcode == roce.RCRDMAWriteMiddle
	}
	if !asked {
		t.Error("the message waits with packets in flight of which none asks for an acknowledgement")
	}
}

// TestE8_WindowIsNoRetry shows that a request which waits for room in the
// window does not use up its retries: the room may be taken by a queue pair
// whose own packets are lost for ever.
func TestE8_WindowIsNoRetry(t *testing.T) {
	r := newRig(t, ib.RC, rigCap).connect(ib.MTU4096)
	a, b := r.side[0], r.side[1]
	lost, err := a.hca.CreateQP(a.pd, QPConfig{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: rigCap})
	must(t, err)
	attr := r.attrs(0, ib.MTU4096)
	attr.Timeout = 0 // it waits for its answer for ever
	for st := ib.INIT; st <= ib.RTS; st++ {
		attr.State = st
		must(t, lost.Modify(r.now, &attr, walkMask(ib.RC, st)))
	}
	const reads = 5 // that are lost, each of which halves the window
	seen := 0
	r.drop = func(from int, p *roce.Packet) bool {
		if p.Info.Kind == roce.KindReadRequest {
			seen++
			return seen <= reads
		}
		return from == 0 && p.BTH.PSN.Diff(ib.NewPSN(0x2000)) < 0 && p.Info.Kind == roce.KindWrite
	}
	_, err = lost.PostSend(ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.sge(0, 8192)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	})
	must(t, err)
	a.hca.Shard().RingDoorbell(lost)
	r.post(0, ib.SendWR{
		WRID: 1, Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.sge(1<<20, 1<<20)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	})
	var wcs []ib.WC
	r.run(time.Minute, func() bool {
		wcs = append(wcs, r.poll(0)...)
		return len(wcs) > 0
	})
	if len(wcs) != 1 || wcs[0].WRID != 1 || wcs[0].Status != ib.WCSuccess {
		t.Fatalf("a READ whose first %d requests are lost, with 7 retries, beside a queue pair that fills the window: completions %+v", reads, wcs)
	}
}
