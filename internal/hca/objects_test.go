package hca

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestV4_V5_ActualSizes shows that a queue pair has at least what was asked for
// and a 24-bit number in its adapter's slot that is neither 0 nor 1.
func TestV4_V5_ActualSizes(t *testing.T) {
	s := newSolo(t, soloConfig{hca: Config{QPNSlot: 0xab}})
	for _, want := range []ib.QPCap{
		{}, {MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}, {MaxSendWR: 17, MaxRecvWR: 100, MaxSendSGE: 32, MaxRecvSGE: 3, MaxInlineData: 512},
	} {
		q, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: want})
		must(t, err)
		c := q.Cap()
		if c.MaxSendWR < want.MaxSendWR || c.MaxRecvWR < want.MaxRecvWR || c.MaxSendSGE < want.MaxSendSGE ||
			c.MaxRecvSGE < want.MaxRecvSGE || c.MaxInlineData < want.MaxInlineData {
			t.Errorf("asked for %+v, got %+v", want, c)
		}
		if n := q.Num(); n>>16 != 0xab || n&0xffff <= 1 {
			t.Errorf("the QPN is %v, want slot 0xab and neither 0 nor 1", n)
		}
		if q.State() != ib.RESET || q.Type() != ib.RC {
			t.Errorf("a new queue pair is %v in %v", q.Type(), q.State())
		}
	}
}

// TestV6_CreateFails shows that each cause of failure has an error of its own
// and that nothing is left behind.
func TestV6_CreateFails(t *testing.T) {
	limits := DefaultLimits()
	limits.MaxQP = 2
	s := newSolo(t, soloConfig{hca: Config{Limits: limits}})
	o := newSolo(t, soloConfig{})
	dead, err := s.hca.AllocPD()
	must(t, err)
	must(t, dead.Dealloc())
	second, err := s.hca.AllocPD()
	must(t, err)
	foreign, err := second.CreateSRQ(1, 1, 0)
	must(t, err)
	good := QPConfig{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: rigCap}
	seen := map[error]string{}
	for _, c := range []struct {
		what string
		pd   *PD
		want error
		edit func(*QPConfig)
	}{
		{"no PD", nil, ErrInvalidPD, func(*QPConfig) {}},
		{"no send CQ", s.pd, ErrInvalidCQ, func(c *QPConfig) { c.SendCQ = nil }},
		{"type RD", s.pd, ErrInvalidServiceType, func(c *QPConfig) { c.Type = ib.RD }},
		{"send WRs", s.pd, ErrTooManyWRs, func(c *QPConfig) { c.Cap.MaxSendWR = limits.MaxQPWR + 1 }},
		{"SGEs", s.pd, ErrTooManySGEs, func(c *QPConfig) { c.Cap.MaxSendSGE = limits.MaxSGE + 1 }},
		{"inline", s.pd, ErrTooMuchInline, func(c *QPConfig) { c.Cap.MaxInlineData = limits.MaxInlineData + 1 }},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := s.hca.CreateQP(c.pd, cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if other, ok := seen[c.want]; ok {
			t.Errorf("%s and %s have the same error", c.what, other)
		}
		seen[c.want] = c.what
	}
	for what, c := range map[string]struct {
		pd   *PD
		want error
		edit func(*QPConfig)
	}{
		"a PD that was deallocated": {dead, ErrInvalidPD, func(*QPConfig) {}},
		"a PD of another adapter":   {o.pd, ErrInvalidPD, func(*QPConfig) {}},
		"no receive CQ":             {s.pd, ErrInvalidCQ, func(c *QPConfig) { c.RecvCQ = nil }},
		"type SMI":                  {s.pd, ErrInvalidServiceType, func(c *QPConfig) { c.Type = ib.SMI }},
		"type 99":                   {s.pd, ErrInvalidServiceType, func(c *QPConfig) { c.Type = 99 }},
		"receive WRs":               {s.pd, ErrTooManyWRs, func(c *QPConfig) { c.Cap.MaxRecvWR = limits.MaxQPWR + 1 }},
		"receive SGEs":              {s.pd, ErrTooManySGEs, func(c *QPConfig) { c.Cap.MaxRecvSGE = limits.MaxSGE + 1 }},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := s.hca.CreateQP(c.pd, cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	foreignCfg := good
	foreignCfg.SRQ = foreign
	if _, err := s.hca.CreateQP(s.pd, foreignCfg); !errors.Is(err, ErrInvalidSRQ) {
		t.Errorf("an SRQ of another domain: %v", err)
	}
	_, err = s.hca.CreateQP(s.pd, good)
	must(t, err)
	if _, err := s.hca.CreateQP(s.pd, good); !errors.Is(err, ErrNoResources) || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("a third queue pair of two: %v, want insufficient resources", err)
	}
	if n := s.cq.Users(); n != 4 {
		t.Errorf("the CQ has %d users after the failures, want 2 queue pairs twice", n)
	}
}

// TestV10_V12_Query shows that what was set is what Query returns, with PSNs
// that move, and that RESET returns no attribute.
func TestV10_V12_Query(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.AV.TrafficClass, a.AV.SL, a.AV.FlowLabel = 8, 3, 77 }})
	a := s.qp.Query()
	want := s.attr
	want.State, want.CurState, want.Cap, want.QKey = ib.RTS, ib.RTS, s.qp.Cap(), 0
	if a != want {
		t.Errorf("Query returns\n%+v, set was\n%+v", a, want)
	}
	s.inject(s.packet(roce.RCRDMAWriteOnly, soloPeerPSN, []byte{1}))
	s.send(s.wr(ib.WRSend, 1, 0, 600))
	if a := s.qp.Query(); a.RQPSN.Value() != soloPeerPSN+1 || a.SQPSN.Value() != soloPSN+3 {
		t.Errorf("after 1 packet in and 3 out Query returns PSNs %v and %v", a.RQPSN, a.SQPSN)
	}
	s.modify(ib.RESET)
	if a := s.qp.Query(); a != (ib.QPAttr{Cap: s.qp.Cap()}) {
		t.Errorf("in RESET Query returns %+v", a)
	}
}

// TestV10_TrafficClass shows that an address vector reaches the wire.
func TestV10_TrafficClass(t *testing.T) {
	s := newSolo(t, soloConfig{attr: func(a *ib.QPAttr) { a.AV.TrafficClass, a.AV.HopLimit, a.AV.FlowLabel = 0x68, 9, 0x54321 }})
	_, err := s.qp.PostSend(s.wr(ib.WRSend, 1, 0, 8))
	must(t, err)
	s.hca.Shard().RingDoorbell(s.qp)
	s.hca.Shard().Transmit(s.now, s.batch)
	p := s.batch.Pending()[0].Path
	if p.TClass != 0x68 || p.HopLimit != 9 || p.FlowLabel != 0x54321 || p.SrcPort != roce.SourcePort(0x54321) {
		t.Errorf("a packet leaves on %+v", p)
	}
}

// TestV13_Destroy shows that a queue pair may be destroyed in any state: late
// packets find nobody, nothing leaves, and its completions are gone.
func TestV13_Destroy(t *testing.T) {
	for _, typ := range userTypes {
		for _, st := range reachable(typ) {
			s := inState(t, typ, st)
			if st >= ib.INIT {
				s.recv(1, 9)
			}
			if st == ib.RTS {
				s.send(s.wr(ib.WRSend, 2, 0, 8))
			}
			s.hca.Shard().RingDoorbell(s.qp)
			s.hca.DestroyQP(s.pd, s.qp)
			s.wantPackets("destroyed", s.pass(time.Hour))
			s.wantWCs("destroyed in " + st.String())
			drops := s.counters().Drops[s.deadDrop()]
			s.wantPackets("a late packet", s.inject(s.packet(roce.RCSendOnly, soloPeerPSN, nil)))
			if n := s.counters().Drops[s.deadDrop()] - drops; n != 1 {
				t.Errorf("%v destroyed in %v: a late packet counts as %d", typ, st, n)
			}
			if n := s.cq.Users(); n != 0 {
				t.Errorf("%v destroyed in %v: the CQ has %d users", typ, st, n)
			}
		}
	}
}

// TestV13_NumberRests shows that a number is not given out again for the next
// 2048 queue pairs that are destroyed.
func TestV13_NumberRests(t *testing.T) {
	s := newSolo(t, soloConfig{})
	freed := map[ib.QPN]int{}
	for i := range 5000 {
		q, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.UD, SendCQ: s.cq, RecvCQ: s.cq})
		must(t, err)
		if at, ok := freed[q.Num()]; ok && i-at <= qpnRest {
			t.Fatalf("QPN %v comes back after %d others", q.Num(), i-at)
		}
		freed[q.Num()] = i
		s.hca.DestroyQP(s.pd, q)
	}
}

// TestV16_E29_Events shows that each event names what it is about.
func TestV16_E29_Events(t *testing.T) {
	s := newSolo(t, soloConfig{srq: 4, cqe: 1, state: ib.RTR})
	must(t, s.srq.SetLimit(2))
	s.recv(1, 9, 9)
	s.inject(s.packet(roce.RCSendOnly, soloPeerPSN, []byte{1}))
	s.inject(s.packet(roce.RCSendOnly, soloPeerPSN+1, []byte{1})) // the CQ of one is full
	want := []qp.Event{
		{Type: ib.EventCommEst, QPN: s.qp.Num()}, {Type: ib.EventSRQLimitReached, SRQ: s.srq}, {Type: ib.EventCQErr, CQ: s.cq},
		{Type: ib.EventQPFatal, QPN: s.qp.Num()}, {Type: ib.EventQPLastWQEReached, QPN: s.qp.Num()},
	}
	got := map[ib.EventType]qp.Event{}
	for _, e := range s.events {
		if _, twice := got[e.Type]; twice {
			t.Errorf("%v is raised twice", e.Type)
		}
		got[e.Type] = e
	}
	for _, e := range want {
		if got[e.Type] != e {
			t.Errorf("event %v is %+v, want %+v", e.Type, got[e.Type], e)
		}
	}
	if len(s.events) != len(want) {
		t.Errorf("%d events, want %d: %v", len(s.events), len(want), s.events)
	}
}

// TestV16_SRQLimit shows that the limit is reached when fewer are left, once
// for each time that it is armed.
func TestV16_SRQLimit(t *testing.T) {
	s := newSolo(t, soloConfig{srq: 8})
	s.recv(1, 9, 9, 9, 9, 9)
	must(t, s.srq.SetLimit(3))
	psn := uint32(soloPeerPSN)
	next := func() {
		s.inject(s.packet(roce.RCSendOnly, psn, []byte{1}))
		psn++
	}
	next()
	next()
	s.wantEvents("three are left")
	next()
	s.wantEvents("two are left", ib.EventSRQLimitReached)
	if s.srq.Limit() != 0 {
		t.Errorf("the limit stays armed at %d", s.srq.Limit())
	}
	next()
	s.wantEvents("it is not armed any more")
	must(t, s.srq.SetLimit(1))
	next()
	s.wantEvents("armed again", ib.EventSRQLimitReached)
	if err := s.srq.SetLimit(9); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a limit over the size: %v", err)
	}
}

// TestQ19_SRQ shows that a queue pair in ERR takes nothing more from its SRQ:
// the others' receives stay, and LAST_WQE_REACHED says so.
func TestQ19_SRQ(t *testing.T) {
	s := newSolo(t, soloConfig{srq: 8})
	s.recv(1, 300, 300)
	s.inject(s.packet(roce.RCSendFirst, soloPeerPSN, make([]byte, 256)))
	s.modify(ib.ERR)
	s.wantWCs("the receive in hand is flushed, the other is not", wc{1, ib.WCWRFlushErr})
	s.wantEvents("LAST_WQE_REACHED", ib.EventQPLastWQEReached)
	if _, err := s.qp.PostRecv(ib.RecvWR{}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a receive of its own is posted: %v", err)
	}
}

// TestV2_V3_Busy shows that what is in use stays.
func TestV2_V3_Busy(t *testing.T) {
	s := newSolo(t, soloConfig{srq: 4})
	for what, err := range map[string]error{
		"PD": s.pd.Dealloc(), "CQ": s.hca.DestroyCQ(s.cq), "SRQ": s.pd.DestroySRQ(s.srq),
	} {
		if !errors.Is(err, ErrBusy) || !errors.Is(err, ib.EBUSY) {
			t.Errorf("a %s in use is destroyed: %v", what, err)
		}
	}
	s.hca.DestroyQP(s.pd, s.qp)
	must(t, s.pd.DestroySRQ(s.srq))
	must(t, s.hca.DestroyCQ(s.cq))
	must(t, s.pd.DeregMR(s.mr))
	must(t, s.pd.Dealloc())
	if _, err := s.pd.RegMR(memory.RegionConfig{Buf: make([]byte, 8)}); !errors.Is(err, ErrInvalidPD) {
		t.Errorf("a region in a domain that is gone: %v", err)
	}
}
