package hca_test

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestV4_V5_ActualSizes shows that a queue pair has at least what was asked for
// and a 24-bit number in its adapter's slot that is neither 0 nor 1.
func TestV4_V5_ActualSizes(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{HCA: hca.Config{QPNSlot: 0xab}})
	for _, want := range []ib.QPCap{
		{}, {MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}, {MaxSendWR: 17, MaxRecvWR: 100, MaxSendSGE: 32, MaxRecvSGE: 3, MaxInlineData: 512},
	} {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: want})
		rig.Must(t, err)
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
	limits := hca.DefaultLimits()
	limits.MaxQP = 2
	s := rig.NewSolo(t, rig.SoloConfig{HCA: hca.Config{Limits: limits}})
	o := rig.NewSolo(t, rig.SoloConfig{})
	dead, err := s.HCA.AllocPD()
	rig.Must(t, err)
	rig.Must(t, dead.Dealloc())
	second, err := s.HCA.AllocPD()
	rig.Must(t, err)
	foreign, err := second.CreateSRQ(1, 1, 0)
	rig.Must(t, err)
	good := hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap}
	seen := map[error]string{}
	for _, c := range []struct {
		what string
		pd   *hca.PD
		want error
		edit func(*hca.QPConfig)
	}{
		{"no PD", nil, ib.ErrInvalidPD, func(*hca.QPConfig) {}},
		{"no send CQ", s.PD, ib.ErrInvalidCQ, func(c *hca.QPConfig) { c.SendCQ = nil }},
		{"RD in no domain", s.PD, ib.ErrInvalidRDD, func(c *hca.QPConfig) { c.Type = ib.RD }},
		{"send WRs", s.PD, ib.ErrTooManyWRs, func(c *hca.QPConfig) { c.Cap.MaxSendWR = limits.MaxQPWR + 1 }},
		{"SGEs", s.PD, ib.ErrTooManySGEs, func(c *hca.QPConfig) { c.Cap.MaxSendSGE = limits.MaxSGE + 1 }},
		{"inline", s.PD, ib.ErrTooMuchInline, func(c *hca.QPConfig) { c.Cap.MaxInlineData = limits.MaxInlineData + 1 }},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := s.HCA.CreateQP(c.pd, cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if other, ok := seen[c.want]; ok {
			t.Errorf("%s and %s have the same error", c.what, other)
		}
		seen[c.want] = c.what
	}
	for what, c := range map[string]struct {
		pd   *hca.PD
		want error
		edit func(*hca.QPConfig)
	}{
		"a PD that was deallocated": {dead, ib.ErrInvalidPD, func(*hca.QPConfig) {}},
		"a PD of another adapter":   {o.PD, ib.ErrInvalidPD, func(*hca.QPConfig) {}},
		"no receive CQ":             {s.PD, ib.ErrInvalidCQ, func(c *hca.QPConfig) { c.RecvCQ = nil }},
		"type SMI":                  {s.PD, ib.ErrInvalidServiceType, func(c *hca.QPConfig) { c.Type = ib.SMI }},
		"type 99":                   {s.PD, ib.ErrInvalidServiceType, func(c *hca.QPConfig) { c.Type = 99 }},
		"receive WRs":               {s.PD, ib.ErrTooManyWRs, func(c *hca.QPConfig) { c.Cap.MaxRecvWR = limits.MaxQPWR + 1 }},
		"receive SGEs":              {s.PD, ib.ErrTooManySGEs, func(c *hca.QPConfig) { c.Cap.MaxRecvSGE = limits.MaxSGE + 1 }},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := s.HCA.CreateQP(c.pd, cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	foreignCfg := good
	foreignCfg.SRQ = foreign
	if _, err := s.HCA.CreateQP(s.PD, foreignCfg); !errors.Is(err, ib.ErrInvalidSRQ) {
		t.Errorf("an SRQ of another domain: %v", err)
	}
	_, err = s.HCA.CreateQP(s.PD, good)
	rig.Must(t, err)
	if _, err := s.HCA.CreateQP(s.PD, good); !errors.Is(err, ib.ErrInsufficientResources) || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("a third queue pair of two: %v, want insufficient resources", err)
	}
	if n := s.CQ.Users(); n != 4 {
		t.Errorf("the CQ has %d users after the failures, want 2 queue pairs twice", n)
	}
}

// TestV10_V12_Query shows that what was set is what Query returns, with PSNs
// that move, and that RESET returns no attribute.
func TestV10_V12_Query(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.AV.TrafficClass, a.AV.SL, a.AV.FlowLabel = 8, 3, 77 }})
	a := s.QP.Query()
	want := s.Attr
	want.State, want.CurState, want.Cap, want.QKey = ib.RTS, ib.RTS, s.QP.Cap(), 0
	if a != want {
		t.Errorf("Query returns\n%+v, set was\n%+v", a, want)
	}
	s.Inject(s.Packet(roce.RCRDMAWriteOnly, rig.PeerPSN, []byte{1}))
	s.Send(s.WR(ib.WRSend, 1, 0, 600))
	if a := s.QP.Query(); a.RQPSN.Value() != rig.PeerPSN+1 || a.SQPSN.Value() != rig.PSN+3 {
		t.Errorf("after 1 packet in and 3 out Query returns PSNs %v and %v", a.RQPSN, a.SQPSN)
	}
	s.Modify(ib.RESET)
	if a := s.QP.Query(); a != (ib.QPAttr{Cap: s.QP.Cap()}) {
		t.Errorf("in RESET Query returns %+v", a)
	}
}

// TestV10_TrafficClass shows that an address vector reaches the wire.
func TestV10_TrafficClass(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.AV.TrafficClass, a.AV.HopLimit, a.AV.FlowLabel = 0x68, 9, 0x54321 }})
	_, err := s.QP.PostSend(s.WR(ib.WRSend, 1, 0, 8))
	rig.Must(t, err)
	s.HCA.Single().RingDoorbell(s.QP)
	s.HCA.Single().Transmit(s.Now, s.Batch)
	p := s.Batch.Pending()[0].Path
	if p.TClass != 0x68 || p.HopLimit != 9 || p.FlowLabel != 0x54321 || p.SrcPort != roce.SourcePort(0x54321) {
		t.Errorf("a packet leaves on %+v", p)
	}
}

// TestV13_Destroy shows that a queue pair may be destroyed in any state: late
// packets are dropped, nothing is sent, and its completions are removed.
func TestV13_Destroy(t *testing.T) {
	for _, typ := range rig.Types {
		for _, st := range rig.Reachable(typ) {
			s := rig.InState(t, typ, st)
			if st >= ib.INIT {
				s.Recv(1, 9)
			}
			if st == ib.RTS {
				s.Send(s.WR(ib.WRSend, 2, 0, 8))
			}
			s.HCA.Single().RingDoorbell(s.QP)
			s.HCA.DestroyQP(s.PD, s.QP)
			s.WantPackets("destroyed", s.Pass(time.Hour))
			s.WantWCs("destroyed in " + st.String())
			drops := s.Counters().Drops[deadDrop(s)]
			s.WantPackets("a late packet", s.Inject(s.Packet(roce.RCSendOnly, rig.PeerPSN, nil)))
			if n := s.Counters().Drops[deadDrop(s)] - drops; n != 1 {
				t.Errorf("%v destroyed in %v: a late packet counts as %d", typ, st, n)
			}
			if n := s.CQ.Users(); n != 0 {
				t.Errorf("%v destroyed in %v: the CQ has %d users", typ, st, n)
			}
		}
	}
}

// TestV13_NumberRests shows that a number is not given out again for the next
// 2048 queue pairs that are destroyed.
func TestV13_NumberRests(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	freed := map[ib.QPN]int{}
	for i := range 5000 {
		q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.UD, SendCQ: s.CQ, RecvCQ: s.CQ})
		rig.Must(t, err)
		if at, ok := freed[q.Num()]; ok && i-at <= number.Rest {
			t.Fatalf("QPN %v comes back after %d others", q.Num(), i-at)
		}
		freed[q.Num()] = i
		s.HCA.DestroyQP(s.PD, q)
	}
}

// TestV16_E29_Events shows that each event names what it is about.
func TestV16_E29_Events(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{SRQ: 4, CQE: 1, State: ib.RTR})
	rig.Must(t, s.SRQ.SetLimit(2))
	s.Recv(1, 9, 9)
	s.Inject(s.Packet(roce.RCSendOnly, rig.PeerPSN, []byte{1}))
	s.Inject(s.Packet(roce.RCSendOnly, rig.PeerPSN+1, []byte{1})) // the CQ of one is full
	want := []qp.Event{
		{Type: ib.EventCommEst, QPN: s.QP.Num()}, {Type: ib.EventSRQLimitReached, SRQ: s.SRQ}, {Type: ib.EventCQErr, CQ: s.CQ},
		{Type: ib.EventQPFatal, QPN: s.QP.Num()}, {Type: ib.EventQPLastWQEReached, QPN: s.QP.Num()},
	}
	got := map[ib.EventType]qp.Event{}
	for _, e := range s.Events {
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
	if len(s.Events) != len(want) {
		t.Errorf("%d events, want %d: %v", len(s.Events), len(want), s.Events)
	}
}

// TestV16_SRQLimit shows that the limit is reached when fewer are left, once
// for each time that it is armed.
func TestV16_SRQLimit(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{SRQ: 8})
	s.Recv(1, 9, 9, 9, 9, 9)
	rig.Must(t, s.SRQ.SetLimit(3))
	psn := uint32(rig.PeerPSN)
	next := func() {
		s.Inject(s.Packet(roce.RCSendOnly, psn, []byte{1}))
		psn++
	}
	next()
	next()
	s.WantEvents("three are left")
	next()
	s.WantEvents("two are left", ib.EventSRQLimitReached)
	if s.SRQ.Limit() != 0 {
		t.Errorf("the limit stays armed at %d", s.SRQ.Limit())
	}
	next()
	s.WantEvents("it is not armed any more")
	rig.Must(t, s.SRQ.SetLimit(1))
	next()
	s.WantEvents("armed again", ib.EventSRQLimitReached)
	if err := s.SRQ.SetLimit(9); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a limit over the size: %v", err)
	}
}

// TestQ19_SRQ shows that a queue pair in ERR takes no more receives from its
// SRQ: they stay for other queue pairs, and LAST_WQE_REACHED is raised.
func TestQ19_SRQ(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{SRQ: 8})
	s.Recv(1, 300, 300)
	s.Inject(s.Packet(roce.RCSendFirst, rig.PeerPSN, make([]byte, 256)))
	s.Modify(ib.ERR)
	s.WantWCs("the receive in hand is flushed, the other is not", rig.WC(1, ib.WCWRFlushErr))
	s.WantEvents("LAST_WQE_REACHED", ib.EventQPLastWQEReached)
	if _, err := s.QP.PostRecv(ib.RecvWR{}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a receive of its own is posted: %v", err)
	}
}

// TestV2_V3_Busy shows that what is in use stays.
func TestV2_V3_Busy(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{SRQ: 4})
	for what, err := range map[string]error{
		"PD": s.PD.Dealloc(), "CQ": s.HCA.CQs().Destroy(s.CQ), "SRQ": s.PD.DestroySRQ(s.SRQ),
	} {
		if !errors.Is(err, ib.ErrBusy) || !errors.Is(err, ib.EBUSY) {
			t.Errorf("a %s in use is destroyed: %v", what, err)
		}
	}
	s.HCA.DestroyQP(s.PD, s.QP)
	rig.Must(t, s.PD.DestroySRQ(s.SRQ))
	rig.Must(t, s.HCA.CQs().Destroy(s.CQ))
	rig.Must(t, s.PD.DeregMR(s.MR))
	rig.Must(t, s.PD.Dealloc())
	if _, err := s.PD.RegMR(memory.RegionConfig{Buf: make([]byte, 8)}); !errors.Is(err, ib.ErrInvalidPD) {
		t.Errorf("a region in a domain that is gone: %v", err)
	}
}

// TestOverflowCQ makes a CQ fail: CQ_ERR first, then its QP; it does so once,
// and what is flushed then is counted as lost.
func TestOverflowCQ(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU1024)
	s := r.Sides[0]
	r.Recv(0, ib.RecvWR{}, ib.RecvWR{})
	if !s.HCA.CQs().Overflow(r.Now, s.CQ) || s.HCA.CQs().Overflow(r.Now, s.CQ) {
		t.Error("a CQ fails once")
	}
	if len(s.Events) != 2 || s.Events[0].Type != ib.EventCQErr || s.Events[0].CQ != s.CQ || s.Events[1].Type != ib.EventQPFatal {
		t.Errorf("the events are %v", s.Events)
	}
	if n := s.HCA.Counters().CQEOverflow; n != 2 || !s.CQ.Failed() || s.QP.State() != ib.ERR {
		t.Errorf("%d completions lost, failed %t, the QP is in %v", n, s.CQ.Failed(), s.QP.State())
	}
	s.HCA.Raise(qp.Event{Type: ib.EventPortErr, Port: 1})
	if e := s.Events[len(s.Events)-1]; e.Type != ib.EventPortErr || e.Port != 1 {
		t.Errorf("the event raised is %v", e)
	}
	n := 0
	s.HCA.EachQP(func(q *qp.QP) {
		if n++; q != s.QP || q.SendCQ() != s.CQ || q.SRQ() != nil {
			t.Errorf("QP %v is none of this adapter", q.Num())
		}
	})
	if n != 1 {
		t.Errorf("%d QPs, not 1", n)
	}
}
