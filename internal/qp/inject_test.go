package qp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// injectCap is enough for a few requests.
var injectCap = ib.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}

// statuses returns the completions of side i by status, in order.
func statuses(r *rig.Rig, i int) (s []ib.WCStatus) {
	var wc [64]ib.WC
	for _, c := range wc[:r.Sides[i].CQ.Poll(wc[:])] {
		s = append(s, c.Status)
	}
	return s
}

// TestL2_KeptRequestsAreAskedAbout shows that a buffered request is passed to
// the Inject handler in its turn, with its source.
func TestL2_KeptRequestsAreAskedAbout(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	var asked []ib.PSN
	s.HCA.Inject(func(_ *qp.QP, p *qp.Packet) roce.Syndrome {
		asked = append(asked, p.BTH.PSN)
		if p.Data.Src != s.Peer || p.Data.Dst != s.Addr {
			t.Errorf("PSN %v came from %v to %v, want %v to %v", p.BTH.PSN, p.Data.Src, p.Data.Dst, s.Peer, s.Addr)
		}
		if p.BTH.PSN == ib.NewPSN(0x102) {
			return roce.NAKRemoteAccess
		}
		return 0
	}, nil)
	for _, psn := range []uint32{0x102, 0x101} {
		s.Inject(s.Packet(roce.RCRDMAWriteOnly, psn, []byte{1}))
	}
	got := s.Inject(s.Packet(roce.RCRDMAWriteOnly, 0x100, []byte{1}))
	s.WantPackets("the answer to the last that was kept", got, rig.Ack(roce.NAKRemoteAccess, 0x102))
	if want := []ib.PSN{ib.NewPSN(0x100), ib.NewPSN(0x101), ib.NewPSN(0x102)}; !slices.Equal(asked, want) {
		t.Errorf("asked about %v, want %v", asked, want)
	}
}

// TestInject injects each possible answer, instead of execution, for the second
// packet of a WRITE of three.
func TestInject(t *testing.T) {
	for _, c := range []struct {
		answer roce.Syndrome
		status ib.WCStatus
		event  ib.EventType // at the responder, if the status is an error
	}{
		{roce.NAKSequence, ib.WCSuccess, 0},
		{roce.RNRNAK(1), ib.WCSuccess, 0},
		{roce.NAKInvalidRequest, ib.WCRemInvReqErr, ib.EventQPReqErr},
		{roce.NAKRemoteAccess, ib.WCRemAccessErr, ib.EventQPAccessErr},
		{roce.NAKRemoteOperational, ib.WCRemOpErr, ib.EventQPReqErr},
	} {
		r := rig.New(t, ib.RC, injectCap).Connect(ib.MTU1024)
		asked := 0
		r.Sides[1].HCA.Inject(func(q *qp.QP, p *qp.Packet) roce.Syndrome {
			if q != r.Sides[1].QP || p.TakesReceive() {
				t.Errorf("asked about %v of QP %v", p.BTH.Opcode, q.Num())
			}
			if asked++; asked == 2 {
				return c.answer
			}
			return 0
		}, nil)
		for i := range r.Sides[0].Buf[:3072] {
			r.Sides[0].Buf[i] = byte(i % 251)
		}
		r.Post(0, ib.SendWR{
			Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{r.Sides[0].SGE(0, 3072)},
			RemoteAddr: r.Sides[1].MR.Addr(), RKey: r.Sides[1].MR.RKey(),
		})
		r.Run(time.Second, func() bool { return r.Sides[0].CQ.Pending() > 0 })
		if s := statuses(r, 0); len(s) == 0 || s[0] != c.status {
			t.Fatalf("%v: the WRITE completes with %v, want %v", c.answer, s, c.status)
		}
		events := r.Sides[1].Events
		switch {
		case c.status == ib.WCSuccess && (len(events) != 0 || string(r.Sides[1].Buf[:3072]) != string(r.Sides[0].Buf[:3072])):
			t.Errorf("%v: the events are %v, or the data is wrong", c.answer, events)
		case c.status != ib.WCSuccess && (len(events) != 1 || events[0].Type != c.event):
			t.Errorf("%v: the responder's events are %v", c.answer, events)
		}
	}
}

// failure is a work request that is made to fail.
type failure struct {
	typ    ib.QPType
	op     ib.WROpcode
	status ib.WCStatus
	peer   ib.EventType // of the peer, if it is to know
}

// failures returns the failures of requests that are not local.
func failures() (all []failure) {
	carrying := []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm}
	returning := []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAdd}
	add := func(typ ib.QPType, s ib.WCStatus, peer ib.EventType, ops ...ib.WROpcode) {
		for _, o := range ops {
			all = append(all, failure{typ, o, s, peer})
		}
	}
	for _, s := range []ib.WCStatus{ib.WCLocLenErr, ib.WCLocProtErr, ib.WCLocQPOpErr} {
		add(ib.UC, s, 0, ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm)
		add(ib.RC, s, 0, append(append(carrying, returning...), ib.WRAtomicWrite)...)
	}
	add(ib.RC, ib.WCLocQPOpErr, 0, ib.WRFlush)
	add(ib.RC, ib.WCRetryExcErr, 0, append(append(carrying, returning...), ib.WRAtomicWrite, ib.WRFlush)...)
	add(ib.RC, ib.WCRNRRetryExcErr, 0, ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWriteWithImm)
	add(ib.RC, ib.WCRemAccessErr, ib.EventQPAccessErr, append(returning, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRAtomicWrite, ib.WRFlush)...)
	add(ib.RC, ib.WCRemInvReqErr, ib.EventQPReqErr, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAdd, ib.WRAtomicWrite)
	return all
}

// request returns a work request of side 0 for the failure.
func (f *failure) request(r *rig.Rig) ib.SendWR {
	wr := ib.SendWR{WRID: 2, Opcode: f.op, RemoteAddr: r.Sides[1].MR.Addr(), RKey: r.Sides[1].MR.RKey()}
	if f.op == ib.WRFlush {
		wr.Flush = ib.Flush{Type: ib.FlushGlobal, Length: 8}
	} else {
		wr.SGList = []ib.SGE{r.Sides[0].SGE(0, 8)}
	}
	return wr
}

// TestRequestsFailOnDemand makes the second of three requests fail, for each kind of request and status: it completes
// after the first one, the third is flushed, and the peer fails only if the error is one that it reports.
func TestRequestsFailOnDemand(t *testing.T) {
	possible := make(map[failure]bool)
	for _, f := range failures() {
		possible[failure{typ: f.typ, op: f.op, status: f.status}] = true
		t.Run(f.typ.String()+"/"+f.op.String()+"/"+f.status.String(), func(t *testing.T) { f.test(t) })
	}
	for _, typ := range []ib.QPType{ib.RC, ib.UC} {
		for op := range ib.WROpcode(64) {
			for s := range ib.WCTMRndvIncomplete + 1 {
				want := possible[failure{typ: typ, op: op, status: s}]
				switch {
				case op == ib.WRBindMW, op == ib.WRLocalInv:
					want = s == ib.WCMWBindErr || s == ib.WCLocQPOpErr
				case typ == ib.UC && s < ib.WCWRFlushErr:
					continue // requests that UC does not take
				}
				if got := (qp.Request{Opcode: op, Length: 8}).CanFail(typ, s); got != want {
					t.Errorf("%v of %v can fail with %v: %v", op, typ, s, got)
				}
			}
		}
		if (qp.Request{Opcode: ib.WRRDMAWrite}).CanFail(typ, ib.WCRemAccessErr) {
			t.Error("an empty WRITE can fail with REM_ACCESS_ERR")
		}
	}
}

func (f *failure) test(t *testing.T) {
	r := rig.New(t, f.typ, injectCap).Connect(ib.MTU1024)
	for range 3 {
		r.Recv(1, ib.RecvWR{SGList: []ib.SGE{r.Sides[1].SGE(64, 64)}})
	}
	asked := 0
	r.Sides[0].HCA.Inject(nil, func(q *qp.QP, w qp.Request) ib.WCStatus {
		asked++
		if asked != 2 {
			return ib.WCSuccess
		}
		if q != r.Sides[0].QP || w.Opcode != f.op || !w.CanFail(f.typ, f.status) {
			t.Errorf("asked about %+v of QP %v", w, q.Num())
		}
		return f.status
	})
	r.Sides[0].Buf[0] = 1
	before, after := ib.SendWR{WRID: 1, Opcode: ib.WRSend}, ib.SendWR{WRID: 3, Opcode: ib.WRSend}
	r.Post(0, before, f.request(r), after)
	r.Run(time.Minute, func() bool { return r.Sides[0].CQ.Pending() == 3 })
	state := ib.ERR
	if f.typ == ib.UC {
		state = ib.SQE
	}
	wcs := r.Poll(0)
	for i, want := range []ib.WCStatus{ib.WCSuccess, f.status, ib.WCWRFlushErr} {
		if wc := wcs[i]; wc.Status != want || wc.WRID != uint64(i+1) {
			t.Errorf("completion %d is %v of %d, want %v", i, wc.Status, wc.WRID, want)
		}
		if marked := wcs[i].VendorErr == ib.VendorErrFault; marked != (i == 1) {
			t.Errorf("completion %d has the vendor error %#x", i, wcs[i].VendorErr)
		}
	}
	if got := r.Sides[0].QP.State(); got != state {
		t.Errorf("the queue pair is in %v, want %v", got, state)
	}
	f.seen(t, r.Sides[1], r.Poll(1))
}

// seen checks what the peer has seen of the failure. received are its completions, of which the first one is right.
func (f *failure) seen(t *testing.T, peer *rig.Side, received []ib.WC) {
	if f.peer == 0 {
		if peer.QP.State() != ib.RTS || len(peer.Events) > 0 || len(received) != 1 || peer.Buf[0] != 0 || peer.Buf[64] != 0 {
			t.Errorf("the peer is in %v, with the events %v and completions %v", peer.QP.State(), peer.Events, received)
		}
		return
	}
	// A request that takes a receive fails that, without an event.
	reported := len(peer.Events) == 1 && peer.Events[0].Type == f.peer
	if f.op == ib.WRRDMAWriteWithImm {
		reported = len(received) == 3 && received[1].Status != ib.WCSuccess && received[1].Status != ib.WCWRFlushErr
	}
	if peer.QP.State() != ib.ERR || !reported {
		t.Errorf("the peer is in %v, with the events %v and completions %v; want %v", peer.QP.State(), peer.Events, received, f.peer)
	}
}

// TestForce forces the moves that a device makes by itself; all others are
// refused.
func TestForce(t *testing.T) {
	for _, c := range []struct {
		typ      ib.QPType
		from, to ib.QPState
		ok       bool
	}{
		{ib.RC, ib.RESET, ib.ERR, false}, {ib.RC, ib.INIT, ib.ERR, true}, {ib.RC, ib.RTS, ib.ERR, true},
		{ib.RC, ib.RTS, ib.SQE, false}, {ib.UC, ib.RTS, ib.SQE, true}, {ib.UD, ib.RTS, ib.SQE, true},
		{ib.UC, ib.RTR, ib.SQE, false}, {ib.UC, ib.RTS, ib.RTR, false}, {ib.UD, ib.RTR, ib.ERR, true},
	} {
		r := rig.New(t, c.typ, injectCap)
		q := r.Sides[0].QP
		if c.from != ib.RESET {
			r.Walk(0, r.Attrs(0, ib.MTU1024), c.from)
			r.Recv(0, ib.RecvWR{})
		}
		if c.from == ib.RTS && c.typ == ib.RC {
			if _, err := q.PostSend(ib.SendWR{Opcode: ib.WRSend}, ib.SendWR{Opcode: ib.WRSend}); err != nil {
				t.Fatal(err)
			}
		}
		err := q.Force(r.Now, c.to)
		if (err == nil) != c.ok || c.ok && q.State() != c.to || !c.ok && q.State() != c.from {
			t.Errorf("%v from %v to %v: %v, now in %v", c.typ, c.from, c.to, err, q.State())
			continue
		}
		want := 0
		if c.ok && c.to == ib.ERR {
			want = 1 // completion, of the receive
			if c.from == ib.RTS {
				want = 3
			}
		}
		s := statuses(r, 0)
		for _, status := range s {
			if status != ib.WCWRFlushErr {
				t.Errorf("%v from %v to %v: completed with %v", c.typ, c.from, c.to, status)
			}
		}
		if events := r.Sides[0].Events; len(s) != want || (len(events) == 1) != (want > 0) {
			t.Errorf("%v from %v to %v: %d flushed, want %d; events %v", c.typ, c.from, c.to, len(s), want, events)
		}
	}
}
