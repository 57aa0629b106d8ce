package qp_test

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestQ1_Q2_Q3_Moves shows for every type, state and target that the queue
// pair itself moves where the table says, and only there.
func TestQ1_Q2_Q3_Moves(t *testing.T) {
	for _, typ := range rig.Types {
		for _, from := range rig.Reachable(typ) {
			for to := ib.RESET; to <= ib.ERR+1; to++ {
				s := rig.InState(t, typ, from)
				need, _, ok := qp.Transition(typ, from, to)
				a := s.Attr
				a.State = to
				err := s.QP.Modify(s.Now, &a, need|ib.AttrState)
				if ok != (err == nil) {
					t.Errorf("%v: %v to %v: %v, the table says %v", typ, from, to, err, ok)
				}
				want := from
				if ok {
					want = to
				}
				s.WantState("after the move", want)
				if err != nil && !errors.Is(err, ib.EINVAL) {
					t.Errorf("%v: %v to %v fails with %v, want EINVAL", typ, from, to, err)
				}
			}
		}
	}
}

// TestV9_RefusedModifyChangesNothing walks every pair of states and every
// single attribute too many or too few, and some bad values, on live queue
// pairs: the result of Query stays the same, and no move or event occurs.
func TestV9_RefusedModifyChangesNothing(t *testing.T) {
	refused := 0
	for _, typ := range rig.Types {
		for _, from := range rig.Reachable(typ) {
			s := rig.InState(t, typ, from)
			before := s.QP.Query()
			other := ib.QPAttr{
				State: ib.RTS, CurState: ib.INIT, PathMTU: ib.MTU4096, PathMigState: ib.ARMED, QKey: 0x7654, RQPSN: ib.NewPSN(9), SQPSN: ib.NewPSN(8),
				DestQPN: 0x55, AccessFlags: ib.AccessRemoteRead, AV: ib.AHAttr{DGID: ib.GIDFromAddr(s.Addr), HopLimit: 1, Port: 1, SL: 3},
				PKeyIndex: 0, EnSQDAsyncNotify: true, MaxRDAtomic: 1, MaxDestRDAtomic: 1, MinRNRTimer: 1, Port: 1, Timeout: 1, RetryCnt: 1, RNRRetry: 1,
				AltPort: 1, AltTimeout: 3, RateLimit: 7,
			}
			for to := ib.RESET; to <= ib.ERR; to++ {
				need, may, ok := qp.Transition(typ, from, to)
				for bit := ib.AttrMask(1); bit <= ib.AttrRateLimit<<1; bit <<= 1 {
					mask := need | bit | ib.AttrState
					if need&bit != 0 {
						mask &^= bit
					} else if ok && may&bit != 0 && bit != ib.AttrCurState || bit == ib.AttrState {
						continue // legal
					}
					other.State = to
					refused++
					wantUnchanged(s, before, &other, mask)
				}
			}
		}
	}
	if refused < 2000 {
		t.Errorf("only %d refused calls were tried", refused)
	}
}

// wantUnchanged makes a modify call that must fail.
func wantUnchanged(s *rig.Solo, before ib.QPAttr, a *ib.QPAttr, mask ib.AttrMask) {
	s.T.Helper()
	err := s.QP.Modify(s.Now, a, mask)
	if err == nil {
		s.T.Fatalf("%v: modify from %v to %v with %v is taken", s.QP.Type(), before.State, a.State, mask)
	}
	if after := s.QP.Query(); after != before {
		s.T.Fatalf("%v: a refused modify (%v) changed\n%+v to\n%+v", s.QP.Type(), err, before, after)
	}
	if len(s.Moves)+len(s.Events) != 0 {
		s.T.Fatalf("a refused modify moved or raised: %v %v", s.Moves, s.Events)
	}
}

// TestV9_V10_BadValue shows the same for a value out of range among valid ones,
// and for an invalid path.
func TestV9_V10_BadValue(t *testing.T) {
	for what, spoil := range map[string]func(*ib.QPAttr){
		"path MTU":        func(a *ib.QPAttr) { a.PathMTU = 6 },
		"hop limit 0":     func(a *ib.QPAttr) { a.AV.HopLimit = 0 },
		"GID index":       func(a *ib.QPAttr) { a.AV.SGIDIndex = 9 },
		"no DGID":         func(a *ib.QPAttr) { a.AV.DGID = ib.GID{} },
		"other family":    func(a *ib.QPAttr) { a.AV.DGID = ib.GID{0xfd, 15: 1} },
		"destination QPN": func(a *ib.QPAttr) { a.DestQPN = 1 << 24 },
		"RNR timer":       func(a *ib.QPAttr) { a.MinRNRTimer = 32 },
		"resources":       func(a *ib.QPAttr) { a.MaxDestRDAtomic = 129 },
		"port":            func(a *ib.QPAttr) { a.AV.Port = 2 },
	} {
		s := rig.InState(t, ib.RC, ib.INIT)
		before := s.QP.Query()
		a := s.Attr
		a.State = ib.RTR
		spoil(&a)
		t.Run(what, func(*testing.T) { wantUnchanged(s, before, &a, rig.WalkMask(ib.RC, ib.RTR)) })
	}
}

// TestQ24_Q4_Q6_Q7_PostingByState shows for every type and state the outcome of
// a posted send and receive.
func TestQ24_Q4_Q6_Q7_PostingByState(t *testing.T) {
	for _, typ := range rig.Types {
		for _, st := range rig.Reachable(typ) {
			s := rig.InState(t, typ, st)
			_, errRecv := s.QP.PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{s.SGE(0, 100)}})
			_, errSend := s.QP.PostSend(s.WR(ib.WRSend, 2, 0, 8))
			s.HCA.Single().RingDoorbell(s.QP)
			sent := s.Out()
			if refuse := st == ib.RESET; refuse != errors.Is(errRecv, ib.EINVAL) {
				t.Errorf("%v in %v: a receive is posted: %v", typ, st, errRecv)
			}
			if refuse := st < ib.RTS; refuse != errors.Is(errSend, ib.EINVAL) {
				t.Errorf("%v in %v: a send is posted: %v", typ, st, errSend)
			}
			if (len(sent) > 0) != (st == ib.RTS) {
				t.Errorf("%v in %v: %d packets leave", typ, st, len(sent))
			}
			var want []rig.Completion
			switch {
			case st == ib.ERR:
				want = []rig.Completion{rig.WC(2, ib.WCWRFlushErr), rig.WC(1, ib.WCWRFlushErr)}
			case st == ib.SQE:
				want = []rig.Completion{rig.WC(2, ib.WCWRFlushErr)}
			case st == ib.RTS && typ != ib.RC:
				want = []rig.Completion{rig.WC(2, ib.WCSuccess)}
			}
			s.WantWCs(typ.String()+" in "+st.String(), want...)
		}
	}
}

// TestE7_Q4_Q6_Q20_PacketsByState shows for every type and state that a request
// is executed from RTR to SQE and silently dropped elsewhere.
func TestE7_Q4_Q6_Q20_PacketsByState(t *testing.T) {
	ops := map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly, ib.GSI: roce.UDSendOnly}
	for _, typ := range rig.Types {
		for _, st := range rig.Reachable(typ) {
			s := rig.InState(t, typ, st)
			if st != ib.RESET && st != ib.ERR {
				s.Recv(1, 100)
			}
			got := s.Inject(s.Packet(ops[typ], rig.PeerPSN, []byte("hello")))
			if st < ib.RTR || st == ib.ERR {
				s.WantSilence(typ.String()+" in "+st.String(), got, st)
				if n := s.Counters().Drops[counters.DropState]; n != 1 {
					t.Errorf("%v in %v: %d packets are counted as dropped", typ, st, n)
				}
				continue
			}
			s.WantWCs(typ.String()+" in "+st.String(), rig.WC(1, ib.WCSuccess))
			if typ == ib.RC {
				s.WantPackets("RC answers", got, rig.Ack(roce.ACKUnlimited, rig.PeerPSN))
			}
		}
	}
}

// TestQ10_Q11_Q12_Q13_E6_Drain walks SQD: messages that have begun are
// finished, with retries; others wait; the drained event comes with the last
// ACK, if it was requested; until then no attribute may change, and no move to
// RTS is legal.
func TestQ10_Q11_Q12_Q13_E6_Drain(t *testing.T) {
	for _, notify := range []bool{false, true} {
		s := rig.NewSolo(t, rig.SoloConfig{HCA: inOrder()})
		s.Recv(10, 9)
		s.Send(s.WR(ib.WRSend, 1, 0, 300), s.WR(ib.WRRDMARead, 2, 4096, 8))
		mask := ib.AttrState
		if notify {
			mask |= ib.AttrEnSQDAsyncNotify
		}
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, mask))
		s.WantPackets("a send posted in SQD waits", s.Send(s.WR(ib.WRSend, 3, 0, 8)))
		if a := s.QP.Query(); !a.SQDraining {
			t.Error("Query does not say that it is draining")
		}
		for _, a := range []ib.QPAttr{{State: ib.RTS}, {State: ib.SQD, Timeout: 5}} {
			m := ib.AttrState
			if a.State == ib.SQD {
				m |= ib.AttrTimeout
			}
			if err := s.QP.Modify(s.Now, &a, m); !errors.Is(err, ib.EINVAL) {
				t.Errorf("while draining, modify to %v: %v, want EINVAL", a.State, err)
			}
		}
		s.WantPackets("requests are served", s.Inject(s.Packet(roce.RCSendOnly, rig.PeerPSN, []byte{1})), rig.Ack(roce.ACKUnlimited, rig.PeerPSN))
		s.WantPackets("what has begun is sent again", s.Pass(rig.Timeout+rig.Tick),
			rig.Req(roce.RCSendFirst, 0x200), rig.Req(roce.RCSendLast, 0x201), rig.Req(roce.RCRDMAReadRequest, 0x202))
		s.Inject(s.AckTo(0x201, roce.ACKUnlimited))
		s.WantEvents("one is still out")
		s.Inject(s.Answer(roce.RCRDMAReadResponseOnly, 0x202, roce.ACKUnlimited, make([]byte, 8)))
		if notify {
			s.WantEvents("drained", ib.EventSQDrained)
		}
		s.WantEvents("no more than that")
		s.WantWCs("what has begun is complete", rig.WC(10, ib.WCSuccess), rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
		if a := s.QP.Query(); a.SQDraining || a.State != ib.SQD {
			t.Errorf("drained, Query says %v, draining %v", a.State, a.SQDraining)
		}
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.SQD, Timeout: 5, RetryCnt: 0}, ib.AttrState|ib.AttrTimeout|ib.AttrRetryCnt))
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.RTS, MinRNRTimer: 3}, ib.AttrState|ib.AttrMinRNRTimer))
		s.WantPackets("the next goes out in RTS", s.Out(), rig.Req(roce.RCSendOnly, 0x203))
		s.Pass(ib.AckTimeout(5) + rig.Tick)
		s.WantWCs("the new timeout and retry count are in force", rig.WC(3, ib.WCRetryExcErr))
	}
}

// TestQ12_DrainedAtOnce shows that an idle send queue is drained at once.
func TestQ12_DrainedAtOnce(t *testing.T) {
	for _, typ := range rig.Types {
		s := rig.InState(t, typ, ib.RTS)
		rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
		s.WantEvents(typ.String()+" with nothing begun", ib.EventSQDrained)
		if s.QP.Query().SQDraining {
			t.Errorf("%v with nothing begun is draining", typ)
		}
		s.WantPackets("a send waits", s.Send(s.WR(ib.WRSend, 1, 0, 8)))
		s.Modify(ib.RTS)
		if got := s.Out(); len(got) != 1 {
			t.Errorf("%v: back in RTS %d packets leave, want the one that waited", typ, len(got))
		}
	}
}

// TestQ16_PeerTakesUpAfterSQE shows that the peer of a UC queue pair that came
// back from SQE delivers the next message.
func TestQ16_PeerTakesUpAfterSQE(t *testing.T) {
	r := rig.New(t, ib.UC, rig.Cap).Connect(ib.MTU256)
	a, b := r.Sides[0], r.Sides[1]
	for i := range 3 {
		r.Recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.SGE(i*4096, 1000)}})
	}
	half := ib.SendWR{Opcode: ib.WRSend, WRID: 2, SGList: []ib.SGE{a.SGE(0, 300), {Addr: 1, Length: 300, LKey: 1}}}
	r.Post(0, ib.SendWR{Opcode: ib.WRSend, WRID: 1, SGList: []ib.SGE{a.SGE(0, 700)}}, half)
	r.Run(time.Second, func() bool { return false })
	if a.QP.State() != ib.SQE {
		t.Fatalf("the sender is in %v", a.QP.State())
	}
	rig.Must(t, a.QP.Modify(r.Now, &ib.QPAttr{State: ib.RTS}, ib.AttrState))
	r.Post(0, ib.SendWR{Opcode: ib.WRSend, WRID: 3, SGList: []ib.SGE{a.SGE(0, 600)}})
	r.Run(time.Second, func() bool { return false })
	got := r.Poll(1)
	if len(got) != 2 || got[0].ByteLen != 700 || got[1].ByteLen != 600 || got[1].WRID != 1 {
		t.Errorf("the peer received %+v, want the message before and the one after", got)
	}
}

// TestQ19_ExactlyOnce shows that requests posted in ERR are flushed once and in
// order, receives and sends, and that RESET is the only next state.
func TestQ19_ExactlyOnce(t *testing.T) {
	for _, typ := range rig.Types {
		s := rig.InState(t, typ, ib.RTS)
		s.Recv(1, 9, 9)
		s.Modify(ib.ERR)
		s.WantWCs(typ.String(), rig.WC(1, ib.WCWRFlushErr), rig.WC(2, ib.WCWRFlushErr))
		s.WantEvents(typ.String() + ": ERR by modify is no event")
		for id := uint64(3); id < 40; id += 2 { // more than the queues hold at once
			s.Recv(id, 9)
			s.Send(s.WR(ib.WRSend, id+1, 0, 8))
			s.WantWCs(typ.String(), rig.WC(id+1, ib.WCWRFlushErr), rig.WC(id, ib.WCWRFlushErr))
		}
		s.Modify(ib.ERR)
		s.WantSilence("once more to ERR", s.Pass(time.Hour), ib.ERR)
	}
}

// TestQ23_ErrorCompletion shows the fields of an error completion of an
// unsignaled request.
func TestQ23_ErrorCompletion(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Unsig: true})
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8))
	s.Inject(s.AckTo(0x200, roce.ACKUnlimited), s.AckTo(0x201, roce.NAKRemoteOperational))
	got := s.Poll()
	want := ib.WC{WRID: 2, Status: ib.WCRemOpErr, QPN: s.QP.Num()}
	if len(got) != 1 || got[0] != want {
		t.Errorf("completions %+v, want %+v alone: success was not signalled", got, want)
	}
}

// TestQ15_FlushBeforeRTSOverflows shows that a QP whose last flush on the way
// to RTS overflows the CQ stays in ERR.
func TestQ15_FlushBeforeRTSOverflows(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UC, CQE: 1, State: ib.SQE})
	wr := ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{s.SGE(0, 8)}}
	if _, err := s.QP.PostSend(wr, wr); err != nil {
		t.Fatal(err)
	}
	s.Modify(ib.RTS)
	s.WantState("two flushes into a CQ of one entry", ib.ERR)
}

// TestQ15_FlushBeforeRTS shows that requests posted in SQE are flushed even if
// the QP returns to RTS before the shard processes them.
func TestQ15_FlushBeforeRTS(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.UC, State: ib.SQE})
	wr := ib.SendWR{WRID: 5, Opcode: ib.WRSend, SGList: []ib.SGE{s.SGE(0, 8)}}
	if _, err := s.QP.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	s.Modify(ib.RTS)
	s.WantPackets("a send posted in SQE", s.Out())
	s.WantWCs("a send posted in SQE", rig.WC(5, ib.WCWRFlushErr))
	if got := s.Send(wr); len(got) != 1 {
		t.Errorf("a send posted in RTS again makes %d packets, want 1", len(got))
	}
}

// TestEventsOfModify shows that a modify call raises its events without the locks of the
// queues: the destruction of another queue pair takes these locks with the lock of the
// device's events held.
func TestEventsOfModify(t *testing.T) {
	for _, c := range []struct {
		event ib.EventType
		srq   uint32
		attr  ib.QPAttr
		mask  ib.AttrMask
	}{
		{ib.EventQPLastWQEReached, 8, ib.QPAttr{State: ib.ERR}, ib.AttrState},
		{ib.EventSQDrained, 0, ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState | ib.AttrEnSQDAsyncNotify},
		{ib.EventPathMig, 0, ib.QPAttr{PathMigState: ib.MIGRATED}, ib.AttrPathMigState},
	} {
		s := rig.NewSolo(t, rig.SoloConfig{SRQ: c.srq})
		if c.event == ib.EventPathMig {
			alt := ib.QPAttr{AltAV: s.Attr.AV, AltPort: 1, PathMigState: ib.REARM}
			rig.Must(t, s.QP.Modify(s.Now, &alt, ib.AttrAltPath|ib.AttrPathMigState))
			s.Recv(1, 8)
			s.Inject(s.Packet(roce.RCSendOnly, rig.PeerPSN, make([]byte, 8))) // of an armed peer
		}
		wantUnlocked(s)
		rig.Must(t, s.QP.Modify(s.Now, &c.attr, c.mask))
		s.WantEvents("the modify call", c.event)
	}
}

// TestEventsOfLeaving shows the same of an RD queue pair that is reset or destroyed: if its EE
// context drains and only its work request was begun, the EE context has drained.
func TestEventsOfLeaving(t *testing.T) {
	for what, leave := range map[string]func(s *rig.Solo) error{
		"reset":       func(s *rig.Solo) error { return s.QP.Modify(s.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState) },
		"destruction": func(s *rig.Solo) error { s.HCA.DestroyQP(s.PD, s.QP); return nil },
		"move to ERR": func(s *rig.Solo) error { return s.QP.Modify(s.Now, &ib.QPAttr{State: ib.ERR}, ib.AttrState) },
	} {
		// READ responses fill two batches, so the work request begins, and nothing of it is sent.
		s := rig.NewSolo(t, rig.SoloConfig{Type: ib.RD, Batch: rig.MaxPacket})
		read := s.Read(rig.PeerPSN, 2*(rig.MaxPacket/256-1)*256)
		read.BTH.Opcode = roce.RDRDMAReadRequest
		s.Deliver(s.Datagram(read))
		s.HCA.Single().Transmit(s.Now, s.Batch)
		s.Batch.Reset()
		_, err := s.QP.PostSend(ib.SendWR{Opcode: ib.WRSend, EEC: s.EEC.Num(), SGList: []ib.SGE{s.SGE(0, 8)}})
		rig.Must(t, err)
		s.HCA.Shard().RingDoorbell(s.QP)
		s.HCA.Single().Transmit(s.Now, s.Batch)
		rig.Must(t, s.EEC.Modify(s.Now, &ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
		s.WantEvents("the work request is not complete, so the EE context drains")
		wantUnlocked(s)
		rig.Must(t, leave(s))
		s.WantEvents(what, ib.EventSQDrained.OfEEC())
	}
}

// wantUnlocked makes an event fail the test if it is raised with a lock of the queues.
func wantUnlocked(s *rig.Solo) {
	var events lock.Mutex[lock.Events]
	s.OnEvent = func(e qp.Event) {
		events.Lock() // a build that checks the order of locks panics
		defer events.Unlock()
		posted := make(chan struct{})
		go func() {
			defer close(posted)
			sends := s.QP.Sends()
			sends.Done()
			_, _ = s.QP.PostRecv() // EINVAL with an SRQ
		}()
		select {
		case <-posted:
		case <-time.After(10 * time.Second):
			s.T.Fatalf("%v is raised with a lock of the queues", e.Type)
		}
	}
}
