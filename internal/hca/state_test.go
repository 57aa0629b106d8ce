package hca

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// userTypes are the services that can be created.
var userTypes = []ib.QPType{ib.RC, ib.UC, ib.UD, ib.GSI}

// reachable lists the states that a type can be brought to.
func reachable(typ ib.QPType) []ib.QPState {
	st := []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.ERR}
	if typ != ib.RC {
		st = append(st, ib.SQE)
	}
	return st
}

// inState returns a solo in a state.
func inState(t testing.TB, typ ib.QPType, st ib.QPState) *solo {
	t.Helper()
	s := newSolo(t, soloConfig{typ: typ, state: max(st, ib.INIT), hca: Config{Privileged: true}})
	if st == ib.RESET {
		s.modify(ib.RESET)
	}
	s.wantState("walked there", st)
	s.events, s.moves = nil, nil
	return s
}

// TestQ1_Q2_Q3_Moves shows for every type, state and target that the queue
// pair itself moves where the table says, and only there.
func TestQ1_Q2_Q3_Moves(t *testing.T) {
	for _, typ := range userTypes {
		for _, from := range reachable(typ) {
			for to := ib.RESET; to <= ib.ERR+1; to++ {
				s := inState(t, typ, from)
				need, _, ok := qp.Transition(typ, from, to)
				a := s.attr
				a.State = to
				err := s.qp.Modify(s.now, &a, need|ib.AttrState)
				if ok != (err == nil) {
					t.Errorf("%v: %v to %v: %v, the table says %v", typ, from, to, err, ok)
				}
				want := from
				if ok {
					want = to
				}
				s.wantState("after the move", want)
				if err != nil && !errors.Is(err, ib.EINVAL) {
					t.Errorf("%v: %v to %v fails with %v, want EINVAL", typ, from, to, err)
				}
			}
		}
	}
}

// TestV9_RefusedModifyChangesNothing walks every pair of states and every
// single attribute too many or too few, and some bad values, on queue pairs
// that live: what Query says stays, and so do the moves and events.
func TestV9_RefusedModifyChangesNothing(t *testing.T) {
	refused := 0
	for _, typ := range userTypes {
		for _, from := range reachable(typ) {
			s := inState(t, typ, from)
			before := s.qp.Query()
			other := ib.QPAttr{
				State: ib.RTS, CurState: ib.INIT, PathMTU: ib.MTU4096, PathMigState: ib.ARMED, QKey: 0x7654, RQPSN: ib.NewPSN(9), SQPSN: ib.NewPSN(8),
				DestQPN: 0x55, AccessFlags: ib.AccessRemoteRead, AV: ib.AHAttr{DGID: ib.GIDFromAddr(s.addr), HopLimit: 1, Port: 1, SL: 3},
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
					s.wantUnchanged(before, &other, mask)
				}
			}
		}
	}
	if refused < 2000 {
		t.Errorf("only %d refused calls were tried", refused)
	}
}

// wantUnchanged makes a modify call that must fail.
func (s *solo) wantUnchanged(before ib.QPAttr, a *ib.QPAttr, mask ib.AttrMask) {
	s.t.Helper()
	err := s.qp.Modify(s.now, a, mask)
	if err == nil {
		s.t.Fatalf("%v: modify from %v to %v with %v is taken", s.qp.Type(), before.State, a.State, mask)
	}
	if after := s.qp.Query(); after != before {
		s.t.Fatalf("%v: a refused modify (%v) changed\n%+v to\n%+v", s.qp.Type(), err, before, after)
	}
	if len(s.moves)+len(s.events) != 0 {
		s.t.Fatalf("a refused modify moved or raised: %v %v", s.moves, s.events)
	}
}

// TestV9_V10_BadValue shows the same for a value out of range beside good ones,
// and for a path that leads nowhere.
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
		s := inState(t, ib.RC, ib.INIT)
		before := s.qp.Query()
		a := s.attr
		a.State = ib.RTR
		spoil(&a)
		t.Run(what, func(*testing.T) { s.wantUnchanged(before, &a, walkMask(ib.RC, ib.RTR)) })
	}
}

// TestQ24_Q4_Q6_Q7_PostingByState shows for every type and state what becomes
// of a send and of a receive that are posted.
func TestQ24_Q4_Q6_Q7_PostingByState(t *testing.T) {
	for _, typ := range userTypes {
		for _, st := range reachable(typ) {
			s := inState(t, typ, st)
			_, errRecv := s.qp.PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{s.sge(0, 100)}})
			_, errSend := s.qp.PostSend(s.wr(ib.WRSend, 2, 0, 8))
			s.hca.Shard().RingDoorbell(s.qp)
			sent := s.out()
			if refuse := st == ib.RESET; refuse != errors.Is(errRecv, ib.EINVAL) {
				t.Errorf("%v in %v: a receive is posted: %v", typ, st, errRecv)
			}
			if refuse := st < ib.RTS; refuse != errors.Is(errSend, ib.EINVAL) {
				t.Errorf("%v in %v: a send is posted: %v", typ, st, errSend)
			}
			if (len(sent) > 0) != (st == ib.RTS) {
				t.Errorf("%v in %v: %d packets leave", typ, st, len(sent))
			}
			var want []wc
			switch {
			case st == ib.ERR:
				want = []wc{{2, ib.WCWRFlushErr}, {1, ib.WCWRFlushErr}}
			case st == ib.SQE:
				want = []wc{{2, ib.WCWRFlushErr}}
			case st == ib.RTS && typ != ib.RC:
				want = []wc{{2, ib.WCSuccess}}
			}
			s.wantWCs(typ.String()+" in "+st.String(), want...)
		}
	}
}

// TestE7_Q4_Q6_Q20_PacketsByState shows for every type and state that a
// request is served from RTR to SQE and dropped without a sound elsewhere.
func TestE7_Q4_Q6_Q20_PacketsByState(t *testing.T) {
	ops := map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly, ib.GSI: roce.UDSendOnly}
	for _, typ := range userTypes {
		for _, st := range reachable(typ) {
			s := inState(t, typ, st)
			if st != ib.RESET && st != ib.ERR {
				s.recv(1, 100)
			}
			got := s.inject(s.packet(ops[typ], soloPeerPSN, []byte("hello")))
			if st < ib.RTR || st == ib.ERR {
				s.wantSilence(typ.String()+" in "+st.String(), got, st)
				if n := s.counters().Drops[counters.DropState]; n != 1 {
					t.Errorf("%v in %v: %d packets are counted as dropped", typ, st, n)
				}
				continue
			}
			s.wantWCs(typ.String()+" in "+st.String(), wc{1, ib.WCSuccess})
			if typ == ib.RC {
				s.wantPackets("RC answers", got, ack(roce.ACKUnlimited, soloPeerPSN))
			}
		}
	}
}

// TestQ5_ResetEmpties shows that entering RESET takes the queue pair's work
// requests and completions away, and leaves those of others in a shared CQ.
func TestQ5_ResetEmpties(t *testing.T) {
	s := newSolo(t, soloConfig{})
	other, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.UD, SendCQ: s.cq, RecvCQ: s.cq, Cap: rigCap})
	must(t, err)
	attr := s.attr
	for _, st := range []ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		attr.State = st
		must(t, other.Modify(s.now, &attr, walkMask(ib.UD, st)))
	}
	s.recv(1, 9, 9)
	_, err = other.PostRecv(ib.RecvWR{WRID: 7})
	must(t, err)
	s.inject(s.packet(roce.RCSendOnly, soloPeerPSN, []byte{1}))
	s.send(s.wr(ib.WRSend, 3, 0, 8))
	must(t, other.Modify(s.now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
	if n := s.cq.Pending(); n != 2 {
		t.Fatalf("%d completions wait, want one of each queue pair", n)
	}
	s.modify(ib.RESET)
	if got := s.poll(); len(got) != 1 || got[0].QPN != other.Num() || got[0].WRID != 7 {
		t.Errorf("after RESET the CQ holds %+v, want the other queue pair's flush", got)
	}
	if s.hca.Shard().Deadline() != clock.Never {
		if got := s.pass(time.Hour); len(got) != 0 {
			t.Errorf("after RESET %d packets leave", len(got))
		}
	}
	s.walk(ib.RTS)
	s.recv(9, 9)
	s.wantPackets("connected anew, nothing is left over", s.inject(s.packet(roce.RCSendOnly, soloPeerPSN, []byte{1})), ack(roce.ACKUnlimited, soloPeerPSN))
	s.wantWCs("connected anew, nothing is left over", wc{9, ib.WCSuccess})
	s.wantPackets("PSNs begin anew", s.send(s.wr(ib.WRSend, 4, 0, 8)), req(roce.RCSendOnly, soloPSN))
}

// TestQ8_BothSides shows requester and responder at work at once in RTS.
func TestQ8_BothSides(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.recv(1, 100)
	s.deliver(s.datagram(s.packet(roce.RCSendOnly, soloPeerPSN, []byte{1})))
	got := s.send(s.wr(ib.WRSend, 2, 0, 8))
	s.wantPackets("a SEND each way", got, req(roce.RCSendOnly, soloPSN), ack(roce.ACKUnlimited, soloPeerPSN))
	s.inject(s.ackTo(soloPSN, roce.ACKUnlimited))
	s.wantWCs("a SEND each way", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
}

// TestQ9_CommEst shows that the first request in RTR is served and raises
// COMM_EST, once.
func TestQ9_CommEst(t *testing.T) {
	for typ, op := range map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly} {
		s := newSolo(t, soloConfig{typ: typ, state: ib.RTR})
		s.recv(1, 9, 9)
		s.inject(s.packet(op, soloPeerPSN, []byte{1}))
		s.wantEvents("the first request in RTR", ib.EventCommEst)
		s.inject(s.packet(op, soloPeerPSN+1, []byte{1}))
		s.wantEvents("the second")
		s.wantState("it stays in RTR", ib.RTR)
		s.wantWCs("both are served", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	}
}

// TestQ10_Q11_Q12_Q13_E6_Drain walks SQD: what has begun is finished, with
// retries; what has not waits; the drained event comes with the last ACK, if
// it was asked for; until then no attribute and no way back.
func TestQ10_Q11_Q12_Q13_E6_Drain(t *testing.T) {
	for _, notify := range []bool{false, true} {
		s := newSolo(t, soloConfig{})
		s.recv(10, 9)
		s.send(s.wr(ib.WRSend, 1, 0, 300), s.wr(ib.WRRDMARead, 2, 4096, 8))
		mask := ib.AttrState
		if notify {
			mask |= ib.AttrEnSQDAsyncNotify
		}
		must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, mask))
		s.wantPackets("a send posted in SQD waits", s.send(s.wr(ib.WRSend, 3, 0, 8)))
		if a := s.qp.Query(); !a.SQDraining {
			t.Error("Query does not say that it is draining")
		}
		for _, a := range []ib.QPAttr{{State: ib.RTS}, {State: ib.SQD, Timeout: 5}} {
			m := ib.AttrState
			if a.State == ib.SQD {
				m |= ib.AttrTimeout
			}
			if err := s.qp.Modify(s.now, &a, m); !errors.Is(err, ib.EINVAL) {
				t.Errorf("while draining, modify to %v: %v, want EINVAL", a.State, err)
			}
		}
		s.wantPackets("requests are served", s.inject(s.packet(roce.RCSendOnly, soloPeerPSN, []byte{1})), ack(roce.ACKUnlimited, soloPeerPSN))
		s.wantPackets("what has begun is sent again", s.pass(soloTimeout+tick),
			req(roce.RCSendFirst, 0x200), req(roce.RCSendLast, 0x201), req(roce.RCRDMAReadRequest, 0x202))
		s.inject(s.ackTo(0x201, roce.ACKUnlimited))
		s.wantEvents("one is still out")
		s.inject(s.answer(roce.RCRDMAReadResponseOnly, 0x202, roce.ACKUnlimited, make([]byte, 8)))
		if notify {
			s.wantEvents("drained", ib.EventSQDrained)
		}
		s.wantEvents("no more than that")
		s.wantWCs("what has begun is complete", wc{10, ib.WCSuccess}, wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
		if a := s.qp.Query(); a.SQDraining || a.State != ib.SQD {
			t.Errorf("drained, Query says %v, draining %v", a.State, a.SQDraining)
		}
		must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.SQD, Timeout: 5, RetryCnt: 0}, ib.AttrState|ib.AttrTimeout|ib.AttrRetryCnt))
		must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.RTS, MinRNRTimer: 3}, ib.AttrState|ib.AttrMinRNRTimer))
		s.wantPackets("the next goes out in RTS", s.out(), req(roce.RCSendOnly, 0x203))
		s.pass(ib.AckTimeout(5) + tick)
		s.wantWCs("the new timeout and retry count are in force", wc{3, ib.WCRetryExcErr})
	}
}

// TestQ12_DrainedAtOnce shows that an idle send queue is drained at once.
func TestQ12_DrainedAtOnce(t *testing.T) {
	for _, typ := range userTypes {
		s := inState(t, typ, ib.RTS)
		must(t, s.qp.Modify(s.now, &ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
		s.wantEvents(typ.String()+" with nothing begun", ib.EventSQDrained)
		if s.qp.Query().SQDraining {
			t.Errorf("%v with nothing begun is draining", typ)
		}
		s.wantPackets("a send waits", s.send(s.wr(ib.WRSend, 1, 0, 8)))
		s.modify(ib.RTS)
		if got := s.out(); len(got) != 1 {
			t.Errorf("%v: back in RTS %d packets leave, want the one that waited", typ, len(got))
		}
	}
}

// TestQ14_Q15_Q16_SQE shows what a failed UC or UD send leaves: its own error,
// the rest flushed in order, a receive queue that works, and a way back.
func TestQ14_Q15_Q16_SQE(t *testing.T) {
	for typ, op := range map[ib.QPType]roce.Opcode{ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly} {
		s := newSolo(t, soloConfig{typ: typ})
		s.recv(10, 100)
		bad := s.wr(ib.WRSend, 2, 0, 8)
		bad.SGList[0].LKey++
		first := s.send(s.wr(ib.WRSend, 1, 0, 8), bad, s.wr(ib.WRSend, 3, 0, 8), s.wr(ib.WRSend, 4, 0, 8))
		what := typ.String()
		s.wantPackets(what, first, req(op, soloPSN))
		s.wantWCs(what, wc{1, ib.WCSuccess}, wc{2, ib.WCLocProtErr}, wc{3, ib.WCWRFlushErr}, wc{4, ib.WCWRFlushErr})
		s.wantState(what, ib.SQE)
		s.wantEvents(what + ": SQE is no event")
		s.recv(11, 100)
		s.inject(s.packet(op, soloPeerPSN, []byte{1}), s.packet(op, soloPeerPSN+1, []byte{1}))
		s.wantWCs(what+": receives posted before and after are served", wc{10, ib.WCSuccess}, wc{11, ib.WCSuccess})
		s.send(s.wr(ib.WRSend, 5, 0, 8))
		s.wantWCs(what+": a send posted now is flushed", wc{5, ib.WCWRFlushErr})
		s.modify(ib.RTS)
		got := s.send(s.wr(ib.WRSend, 6, 0, 8))
		s.wantWCs(what+": back in RTS", wc{6, ib.WCSuccess})
		if len(got) != 1 || got[0].BTH.PSN.Diff(first[0].BTH.PSN) <= 0 {
			t.Errorf("%v: back in RTS %d packets leave; the PSN must not go back", typ, len(got))
		}
		var moves []ib.QPState
		for _, m := range s.moves {
			moves = append(moves, m.To)
		}
		if want := []ib.QPState{ib.INIT, ib.RTR, ib.RTS, ib.SQE, ib.RTS}; !slices.Equal(moves, want) {
			t.Errorf("%v: moved through %v, want %v", typ, moves, want)
		}
	}
}

// TestQ16_PeerTakesUpAfterSQE shows that the peer of a UC queue pair that came
// back from SQE delivers the next message.
func TestQ16_PeerTakesUpAfterSQE(t *testing.T) {
	r := newRig(t, ib.UC, rigCap).connect(ib.MTU256)
	a, b := r.side[0], r.side[1]
	for i := range 3 {
		r.recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.sge(i*4096, 1000)}})
	}
	half := ib.SendWR{Opcode: ib.WRSend, WRID: 2, SGList: []ib.SGE{a.sge(0, 300), {Addr: 1, Length: 300, LKey: 1}}}
	r.post(0, ib.SendWR{Opcode: ib.WRSend, WRID: 1, SGList: []ib.SGE{a.sge(0, 700)}}, half)
	r.run(time.Second, func() bool { return false })
	if a.qp.State() != ib.SQE {
		t.Fatalf("the sender is in %v", a.qp.State())
	}
	must(t, a.qp.Modify(r.now, &ib.QPAttr{State: ib.RTS}, ib.AttrState))
	r.post(0, ib.SendWR{Opcode: ib.WRSend, WRID: 3, SGList: []ib.SGE{a.sge(0, 600)}})
	r.run(time.Second, func() bool { return false })
	got := r.poll(1)
	if len(got) != 2 || got[0].ByteLen != 700 || got[1].ByteLen != 600 || got[1].WRID != 1 {
		t.Errorf("the peer received %+v, want the message before and the one after", got)
	}
}

// TestQ17_ReceiveErrorInSQE shows that a receive that fails in SQE ends in ERR.
func TestQ17_ReceiveErrorInSQE(t *testing.T) {
	for typ, op := range map[ib.QPType]roce.Opcode{ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly} {
		s := inState(t, typ, ib.SQE)
		_, err := s.qp.PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{{Addr: 1, Length: 100, LKey: 1}}})
		must(t, err)
		s.recv(2, 100)
		s.inject(s.packet(op, soloPeerPSN, []byte{1}))
		s.wantState(typ.String(), ib.ERR)
		s.wantWCs(typ.String(), wc{1, ib.WCLocProtErr}, wc{2, ib.WCWRFlushErr})
		s.wantEvents(typ.String(), ib.EventQPFatal)
	}
}

// TestQ19_ExactlyOnce shows that what is posted in ERR is flushed once and in
// order, receives and sends, and that RESET is the only way on.
func TestQ19_ExactlyOnce(t *testing.T) {
	for _, typ := range userTypes {
		s := inState(t, typ, ib.RTS)
		s.recv(1, 9, 9)
		s.modify(ib.ERR)
		s.wantWCs(typ.String(), wc{1, ib.WCWRFlushErr}, wc{2, ib.WCWRFlushErr})
		s.wantEvents(typ.String() + ": ERR by modify is no event")
		for id := uint64(3); id < 40; id += 2 { // more than the queues hold at once
			s.recv(id, 9)
			s.send(s.wr(ib.WRSend, id+1, 0, 8))
			s.wantWCs(typ.String(), wc{id + 1, ib.WCWRFlushErr}, wc{id, ib.WCWRFlushErr})
		}
		s.modify(ib.ERR)
		s.wantSilence("once more to ERR", s.pass(time.Hour), ib.ERR)
	}
}

// TestQ23_ErrorCompletion shows what an error completion carries though it
// was not signalled.
func TestQ23_ErrorCompletion(t *testing.T) {
	s := newSolo(t, soloConfig{unsig: true})
	s.send(s.wr(ib.WRSend, 1, 0, 8), s.wr(ib.WRSend, 2, 0, 8))
	s.inject(s.ackTo(0x200, roce.ACKUnlimited), s.ackTo(0x201, roce.NAKRemoteOperational))
	got := s.poll()
	want := ib.WC{WRID: 2, Status: ib.WCRemOpErr, QPN: s.qp.Num()}
	if len(got) != 1 || got[0] != want {
		t.Errorf("completions %+v, want %+v alone: success was not signalled", got, want)
	}
}

// TestQ25_Visible shows that each transition is traced with its cause and
// counted.
func TestQ25_Visible(t *testing.T) {
	s := newSolo(t, soloConfig{})
	s.inject(s.packet(roce.RCSendMiddle, soloPeerPSN, make([]byte, 256)))
	s.modify(ib.RESET)
	want := []struct {
		from, to ib.QPState
		cause    string
	}{
		{ib.RESET, ib.INIT, "modify"}, {ib.INIT, ib.RTR, "modify"}, {ib.RTR, ib.RTS, "modify"},
		{ib.RTS, ib.ERR, "opcode out of sequence"}, {ib.ERR, ib.RESET, "modify"},
	}
	if len(s.moves) != len(want) {
		t.Fatalf("%d moves are traced, want %d", len(s.moves), len(want))
	}
	for i, w := range want {
		if m := s.moves[i]; m.From != w.from || m.To != w.to || m.Cause != w.cause || m.QPN != s.qp.Num() {
			t.Errorf("move %d is traced as %v", i, &m)
		}
	}
	if n := s.counters().StateChanges; n != uint64(len(want)) {
		t.Errorf("%d moves count as %d", len(want), n)
	}
}
