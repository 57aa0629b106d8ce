package verbs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
)

// TestForceERR moves a QP to ERR at its third work request, which is flushed.
func TestForceERR(t *testing.T) {
	a, b := newFaultyPair(t, ib.RC, "qp to=ERR nth=3", "")
	connect(t, a, b, brief)
	must.Do(t, a.qp.PostSend(a.write(1, 8, b), a.write(2, 8, b)))
	a.wait(t, 2)
	must.Do(t, a.qp.PostSend(a.write(3, 8, b), a.write(4, 8, b)))
	for i, wc := range a.take(t, 2) {
		if wc.WRID != uint64(3+i) || wc.Status != ib.WCWRFlushErr {
			t.Errorf("completion %d is %+v", i, wc)
		}
	}
	if ev := a.event(t); ev.Type != ib.EventQPFatal || ev.QP != a.qp || a.qp.State() != ib.ERR {
		t.Errorf("the event is %v, the state %v", ev, a.qp.State())
	}
}

// TestForceSQE moves a UC QP to SQE at its second work request; software moves
// it back. An RC QP has no SQE.
func TestForceSQE(t *testing.T) {
	a, b := newFaultyPair(t, ib.UC, "qp to=SQE nth=2", "")
	connect(t, a, b, brief)
	must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
	a.wait(t, 1)
	must.Do(t, a.qp.PostSend(a.write(2, 8, b)))
	if wc := a.take(t, 1)[0]; wc.WRID != 2 || wc.Status != ib.WCWRFlushErr || a.qp.State() != ib.SQE {
		t.Errorf("in %v the completion is %+v", a.qp.State(), wc)
	}
	a.move(t, ib.RTS)
	must.Do(t, a.qp.PostSend(a.write(3, 8, b)))
	a.wait(t, 1)

	c, d := newFaultyPair(t, ib.RC, "qp to=SQE", "")
	connect(t, c, d, brief)
	must.Do(t, c.qp.PostSend(c.write(1, 8, d)))
	c.wait(t, 1)
	if s := c.ctx.FaultStats()[0]; s.Matched != 1 || s.Applied != 0 {
		t.Errorf("of an RC QP the rule says %+v", s)
	}
}

// TestFillCQ overflows a CQ: CQ_ERR comes first, then its QP fails.
func TestFillCQ(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"fillcq nth=2", "fillcq op=PostRecv", "fillcq after=1s"} {
		a, b := newFaultyPair(t, ib.RC, rule, "")
		connect(t, a, b, brief)
		if !strings.Contains(rule, "after") {
			must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
			a.wait(t, 1)
			must.Do(t, a.qp.PostRecv(a.recv(2, 0, 8)))
			must.Do(t, a.qp.PostSend(a.write(3, 8, b)))
		}
		if ev := a.event(t); ev.Type != ib.EventCQErr || ev.CQ != a.cq {
			t.Errorf("%s: the first event is %v", rule, ev)
		}
		if ev := a.event(t); ev.Type != ib.EventQPFatal || ev.QP != a.qp {
			t.Errorf("%s: the second event is %v", rule, ev)
		}
		if !a.cq.Overrun() || a.qp.State() != ib.ERR {
			t.Errorf("%s: overrun %t, the QP is in %v", rule, a.cq.Overrun(), a.qp.State())
		}
	}
}

// TestRaiseEveryEvent raises each event at a post and at a time.
func TestRaiseEveryEvent(t *testing.T) {
	for e := ib.EventCQErr; e <= ib.EventWQFatal; e++ {
		for _, when := range []string{"nth=2", "after=300ms"} {
			rule := fmt.Sprintf("event %v %s", e, when)
			t.Run(rule, func(t *testing.T) {
				t.Parallel()
				a, b := newFaultyPair(t, ib.UC, rule, "")
				srq, err := a.pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
				must.Do(t, err)
				attr := a.init(ib.UC)
				attr.SRQ, attr.Cap.MaxRecvWR, attr.Cap.MaxRecvSGE = srq, 0, 0
				must.Do(t, a.qp.Destroy())
				a.qp, err = a.pd.CreateQP(attr)
				must.Do(t, err)
				connect(t, a, b, brief)
				must.Do(t, a.qp.PostSend(a.write(1, 8, b), a.write(2, 8, b)))
				a.wait(t, 2)
				checkRaised(t, a, srq, e)
			})
		}
	}
}

// checkRaised checks that an event of a type names the right kind of object, and that
// nothing else has changed.
func checkRaised(t *testing.T, a *endpoint, srq *SRQ, e ib.EventType) {
	t.Helper()
	ev := a.event(t)
	if ev.Type != e {
		t.Fatalf("the event is %v, want %v", ev, e)
	}
	ok := ev.QP == nil && ev.CQ == nil && ev.SRQ == nil
	switch fault.About(e) {
	case fault.QueuePair:
		ok = ev.QP == a.qp
	case fault.CompletionQueue:
		ok = ev.CQ == a.cq
	case fault.SharedReceiveQueue:
		ok = ev.SRQ == srq
	case fault.Device:
		if e == ib.EventDeviceFatal {
			ok = ok && ev.Err != nil
		} else {
			ok = ok && ev.Port == 1
		}
	}
	if !ok {
		t.Errorf("%v is about QP %v, CQ %v, SRQ %v, port %d, %v", e, ev.QP, ev.CQ, ev.SRQ, ev.Port, ev.Err)
	}
	if st := a.qp.State(); st != ib.RTS || a.cq.Overrun() {
		t.Errorf("%v alone moved the QP to %v, overrun %t", e, st, a.cq.Overrun())
	}
	a.settle(t) // the rule counts after it has raised the event
	if s := a.ctx.FaultStats()[0]; s.Applied != 1 {
		t.Errorf("the rule says %+v", s)
	}
}

// TestTimedQP moves one QP of two at a time.
func TestTimedQP(t *testing.T) {
	t.Parallel()
	for _, typ := range []ib.QPType{ib.RC, ib.UD} {
		a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork(), Faults: Faults{Rules: "qp to=ERR after=1s"}}, typ)
		a.walk(t, a.attrs(a), ib.INIT)
		idle := a.sibling(t, typ)
		if ev := a.event(t); ev.Type != ib.EventQPFatal || ev.QP != a.qp {
			t.Errorf("%v: the event is %v", typ, ev)
		}
		if st := idle.qp.State(); st != ib.RESET {
			t.Errorf("%v: a QP in RESET moved to %v", typ, st)
		}
	}
}

// TestTimedByQPN applies timed rules to the QP that they name, or to its CQ. Others are
// not affected.
func TestTimedByQPN(t *testing.T) {
	t.Parallel()
	open := func(rules string) (a, other *endpoint) {
		cfg := Config{Addr: "10.0.0.1", Network: NewNetwork(), Seed: 7, Faults: Faults{Rules: rules}}
		a = newEndpoint(t, cfg, ib.RC)
		return a, a.sibling(t, ib.RC)
	}
	a, _ := open("")
	n := a.qp.QPN()
	for rule, want := range map[string]ib.EventType{
		"qp to=ERR": ib.EventQPFatal, "fillcq": ib.EventCQErr, "event QP_FATAL": ib.EventQPFatal, "event CQ_ERR": ib.EventCQErr,
	} {
		a, other := open(fmt.Sprintf("%s after=1s qpn=%d", rule, n))
		for _, e := range [...]*endpoint{a, other} {
			e.walk(t, e.attrs(e), ib.INIT)
		}
		ev := a.event(t)
		if a.qp.QPN() != n || ev.Type != want || ev.QP != nil && ev.QP != a.qp || ev.CQ != nil && ev.CQ != a.cq {
			t.Errorf("%s: the event is %v", rule, ev)
		}
		if other.qp.State() != ib.INIT || other.cq.Overrun() {
			t.Errorf("%s: the other QP is in %v", rule, other.qp.State())
		}
	}
}

// TestEveryExampleActs runs every example of the catalogue on a connection
// with traffic each way until it has acted.
func TestEveryExampleActs(t *testing.T) {
	for act := range fault.NumActions {
		switch act {
		case fault.Kill, fault.Stop, fault.Reject: // they would end this process, or there is no request for a connection
			continue
		}
		t.Run(act.Example(), func(t *testing.T) {
			t.Parallel()
			n := NewNetwork()
			ctx, err := Open(Config{Addr: "10.0.0.1", Network: n}, WithFaults(act.Example(), 3))
			must.Do(t, err)
			t.Cleanup(func() { must.Do(t, ctx.Close()) })
			acted := func() bool { return ctx.FaultStats()[0].Applied > 0 }
			a := &endpoint{ctx: ctx}
			if act == fault.Fail {
				pd, err := ctx.AllocPD()
				must.Do(t, err)
				if _, err := pd.RegMR(make([]byte, 8), 0); err == nil || !acted() {
					t.Errorf("RegMR works: %v", ctx.FaultStats())
				}
			}
			a.fill(t, ib.RC)
			b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
			connect(t, a, b, func(q *QPAttr) { brief(q); q.Timeout = 16 })
			if act == fault.BindFail {
				bind := part(a.mw(t, MWType2), a.secret(t, 64), 0, 64)
				must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRBindMW, Bind: &bind}))
			}
			for end := time.Now().Add(waitLimit); !acted(); {
				if !a.exchange(b) || time.Now().After(end) {
					break
				}
			}
			if !acted() {
				t.Errorf("it has not acted: %+v", ctx.FaultStats())
			}
		})
	}
}

// TestM1_M2_BindFailsOnDemand makes binds and invalidations fail: the window keeps its key and its
// memory.
func TestM1_M2_BindFailsOnDemand(t *testing.T) {
	for _, c := range []struct {
		rule   string
		typ    ib.QPType
		fails  int // which request fails: 0 the bind, 1 the invalidation, 2 the bind of type 1
		state  ib.QPState
		counts uint64 // matches of the rule
	}{
		{"bindfail", ib.RC, 0, ib.ERR, 1},
		{"bindfail op=BIND_MW", ib.UC, 0, ib.SQE, 1},
		{"bindfail op=LOCAL_INV", ib.RC, 1, ib.ERR, 1},
		{"bindfail nth=2", ib.RC, 1, ib.ERR, 2},
		{"bindfail op=BIND_MW nth=2", ib.RC, 2, ib.ERR, 2},
	} {
		n := NewNetwork()
		a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Faults: Faults{Rules: c.rule, Seed: 1}}, c.typ)
		b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, c.typ)
		connect(t, a, b, func(*QPAttr) {})
		mr, one, two := a.secret(t, 64), a.mw(t, MWType1), a.mw(t, MWType2)
		bind := part(two, mr, 0, 64)
		before := [2]RKey{one.RKey(), two.RKey()}
		for i, post := range [3]func() error{
			func() error { return a.qp.PostSend(SendWR{Opcode: ib.WRBindMW, Bind: &bind}) },
			func() error { return a.qp.PostSend(SendWR{Opcode: ib.WRLocalInv, InvRKey: two.RKey()}) },
			func() error { return a.qp.BindMW(3, 0, part(one, mr, 0, 64)) },
		} {
			must.Do(t, post())
			wc := a.take(t, 1)[0]
			if i < c.fails && wc.Status != ib.WCSuccess || i == c.fails && wc.Status != ib.WCMWBindErr {
				t.Errorf("%s: request %d completes with %v", c.rule, i, wc.Status)
			}
			if i == c.fails {
				break
			}
		}
		if a.qp.State() != c.state {
			t.Errorf("%s: the queue pair is in %v, want %v", c.rule, a.qp.State(), c.state)
		}
		if changed := two.RKey() != before[1]; changed != (c.fails > 0) || one.RKey() != before[0] {
			t.Errorf("%s: the key of the window has changed: %v", c.rule, changed)
		}
		// While a window is bound, its region cannot be deregistered.
		if err := mr.Dereg(); (err != nil) != (c.fails == 1) {
			t.Errorf("%s: deregister the region: %v", c.rule, err)
		}
		if s := a.ctx.FaultStats()[0]; s.Applied != 1 || s.Matched != c.counts {
			t.Errorf("%s: %+v", c.rule, s)
		}
	}
}

// exchange makes each side WRITE and SEND to the other, and reports whether the
// connection still works.
func (e *endpoint) exchange(peer *endpoint) bool {
	const size = 8 << 10
	sides := [2]*endpoint{e, peer}
	for i, s := range sides {
		to := sides[1-i]
		if to.qp.PostRecv(to.recv(9, 0, size)) != nil || s.qp.PostSend(s.write(1, size, to), s.send(2, size)) != nil {
			return false
		}
	}
	var wc [16]WC
	for got := 0; got < 6; {
		for _, s := range sides {
			n, err := s.cq.Poll(wc[:])
			if err != nil {
				return false
			}
			got += n
			for _, c := range wc[:n] {
				if c.Status != ib.WCSuccess {
					return false
				}
			}
		}
		if e.qp.State() != ib.RTS || peer.qp.State() != ib.RTS {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// TestInjectWithoutEffect checks that the trace gives the reason why a rule did
// nothing.
func TestInjectWithoutEffect(t *testing.T) {
	var causes []string
	ctx, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork(), Trace: func(r *TraceRecord) {
		if r.Kind == TraceFault {
			causes = append(causes, r.Cause)
		}
	}}, WithFaults("qp to=SQE op=ModifyQP", 1))
	must.Do(t, err)
	pd, err := ctx.AllocPD()
	must.Do(t, err)
	cq, err := ctx.CreateCQ(4, nil)
	must.Do(t, err)
	q, err := pd.CreateQP(&QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	must.Do(t, err)
	must.Do(t, q.Modify(&QPAttr{State: ib.INIT, Port: 1}, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags))
	must.Do(t, ctx.Close())
	if len(causes) != 2 || causes[0] != "qp to=SQE op=ModifyQP" || !strings.Contains(causes[1], "had no effect: force RC QP") {
		t.Errorf("the trace says %q", causes)
	}
}

// TestRequestsGetStatuses has rules make requests fail. The test checks which request fails, as a rule counts only requests
// that can have its status, and the state of the queue pair afterwards.
func TestRequestsGetStatuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule   string
		typ    ib.QPType
		fails  int // of the requests WRITE, SEND, empty WRITE, WRITE with immediate, READ; -1: none
		status ib.WCStatus
		state  ib.QPState
		counts uint64 // matches of the rule
	}{
		{"wc LOC_QP_OP_ERR nth=2", ib.RC, 1, ib.WCLocQPOpErr, ib.ERR, 2},
		{"wc status=RETRY_EXC_ERR op=RDMA_READ", ib.RC, 4, ib.WCRetryExcErr, ib.ERR, 1},
		{"wc RNR_RETRY_EXC_ERR nth=2", ib.RC, 3, ib.WCRNRRetryExcErr, ib.ERR, 2},
		{"wc REM_ACCESS_ERR nth=2", ib.RC, 3, ib.WCRemAccessErr, ib.ERR, 2}, // not the empty one
		{"wc REM_ACCESS_ERR op=RDMA_READ,ATOMIC", ib.RC, 4, ib.WCRemAccessErr, ib.ERR, 1},
		{"wc LOC_PROT_ERR op=RDMA_WRITE every=3", ib.UC, 3, ib.WCLocProtErr, ib.SQE, 3},
		{"wc LOC_LEN_ERR op=SEND", ib.UD, 0, ib.WCLocLenErr, ib.SQE, 1},
		{"wc RETRY_EXC_ERR", ib.UC, -1, ib.WCSuccess, ib.RTS, 0},
		{"wc MW_BIND_ERR", ib.RC, -1, ib.WCSuccess, ib.RTS, 0},
		{"wc LOC_QP_OP_ERR qpn=5", ib.RC, -1, ib.WCSuccess, ib.RTS, 0},
	} {
		n := NewNetwork()
		a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Faults: Faults{Rules: c.rule, Seed: 1}}, c.typ)
		b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, c.typ)
		connect(t, a, b, func(*QPAttr) {})
		for i, wr := range a.kinds(t, b, c.typ) {
			must.Do(t, b.qp.PostRecv(b.recv(9, 0, 256)))
			must.Do(t, a.qp.PostSend(wr))
			wc := a.take(t, 1)[0]
			if i == c.fails && wc.Status != c.status || i != c.fails && wc.Status != ib.WCSuccess {
				t.Errorf("%s: request %d completes with %v", c.rule, i, wc.Status)
			}
			if i == c.fails {
				break
			}
		}
		if a.qp.State() != c.state {
			t.Errorf("%s: the queue pair is in %v, want %v", c.rule, a.qp.State(), c.state)
		}
		if s := a.ctx.FaultStats()[0]; s.Applied != uint64(min(c.fails+1, 1)) || s.Matched != c.counts {
			t.Errorf("%s: %+v", c.rule, s)
		}
	}
}

// kinds returns requests of several kinds to the peer: of UD a SEND, otherwise a WRITE, a SEND, an empty WRITE, a WRITE
// with immediate, and of RC a READ.
func (e *endpoint) kinds(t *testing.T, peer *endpoint, typ ib.QPType) []SendWR {
	if typ == ib.UD {
		return []SendWR{e.datagram(1, e.ah(t, peer), peer)}
	}
	empty, imm, read := e.write(3, 0, peer), e.write(4, 64, peer), e.write(5, 64, peer)
	imm.Opcode, read.Opcode = ib.WRRDMAWriteWithImm, ib.WRRDMARead
	all := []SendWR{e.write(1, 64, peer), e.send(2, 64), empty, imm}
	if typ == ib.RC {
		all = append(all, read)
	}
	return all
}

// TestDatagramsGetStatuses makes a request of a reliable datagram queue pair fail, by itself and by the peer: the
// queue pair goes to SQE or ERR, and another queue pair goes on over the channel.
func TestDatagramsGetStatuses(t *testing.T) {
	for _, c := range []struct {
		rule   string
		status ib.WCStatus
		stays  bool // the channel works on
	}{
		{"wc LOC_PROT_ERR op=RDMA_WRITE", ib.WCLocProtErr, true},
		{"wc REM_ACCESS_ERR op=RDMA_WRITE", ib.WCRemAccessErr, true},
		{"wc RETRY_EXC_ERR op=RDMA_WRITE", ib.WCRetryExcErr, false},
	} {
		n := NewNetwork()
		a := newChannelEnd(t, Config{Addr: "10.0.0.1", Network: n, Faults: Faults{Rules: c.rule + " nth=2", Seed: 1}})
		b := newChannelEnd(t, Config{Addr: "10.0.0.2", Network: n})
		join(t, a, b, nil)
		other := a.newQP(t)
		must.Do(t, a.qp.PostSend(a.to(b.qp, a.write(1, 64, b.endpoint)), a.to(b.qp, a.write(2, 64, b.endpoint)), a.to(b.qp, a.write(3, 64, b.endpoint))))
		for i, want := range []ib.WCStatus{ib.WCSuccess, c.status, ib.WCWRFlushErr} {
			if wc := a.take(t, 1)[0]; wc.WRID != uint64(i+1) || wc.Status != want {
				t.Errorf("%s: completion %d is %v of %d, want %v", c.rule, i, wc.Status, wc.WRID, want)
			}
		}
		if st := a.qp.State(); st != ib.SQE && st != ib.ERR {
			t.Errorf("%s: the queue pair is in %v", c.rule, st)
		}
		must.Do(t, other.PostSend(a.to(b.qp, a.write(4, 64, b.endpoint))))
		if wc := a.take(t, 1)[0]; wc.WRID != 4 || (wc.Status == ib.WCSuccess) != c.stays {
			t.Errorf("%s: a request of another queue pair completes with %v", c.rule, wc.Status)
		}
	}
}
