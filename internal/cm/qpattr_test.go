package cm

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// wantAttr compares the attributes that a connection gives its QP.
func wantAttr(t *testing.T, c *Conn, want ib.QPAttr, mask ib.AttrMask) {
	t.Helper()
	got, gotMask, err := c.QPAttr(want.State)
	if err != nil || got != want || gotMask != mask {
		t.Errorf("%v %v:\n%+v %v %v, want\n%+v %v", c.Role(), want.State, got, gotMask.Names(), err, want, mask.Names())
	}
}

const (
	initMask = ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags
	rtrMask  = ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN
	rtsMask  = ib.AttrState | ib.AttrSQPSN
)

// TestC8_ActiveAttributes: the QP receives from the PSN that REQ named and
// sends from the one that REP named, with the limits that both sides have.
func TestC8_ActiveAttributes(t *testing.T) {
	r := newRig(t)
	c := r.active(RepRcvd)
	psn := decode(&mad.REQ{}, r.sent[0]).StartingPSN
	wantAttr(t, c, ib.QPAttr{
		State: ib.INIT, Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush,
	}, initMask)
	wantAttr(t, c, ib.QPAttr{
		State: ib.RTR, PathMTU: ib.MTU1024, DestQPN: peerQPN, RQPSN: psn, MaxDestRDAtomic: 3, // asked for 3, the peer uses 4
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(r.peer), Port: 1, FlowLabel: 0x12345, HopLimit: 64},
	}, rtrMask|ib.AttrMaxDestRDAtomic|ib.AttrMinRNRTimer)
	wantAttr(t, c, ib.QPAttr{
		State: ib.RTS, SQPSN: ib.NewPSN(0x123456), MaxRDAtomic: 2, // asked for 5, the peer serves 2
		RetryCnt: 6, RNRRetry: 2, Timeout: 19, // our retry count, the peer's RNR retry count
	}, rtsMask|ib.AttrTimeout|ib.AttrRetryCnt|ib.AttrRNRRetry|ib.AttrMaxRDAtomic)
}

func TestC8_PassiveAttributes(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(RepSent)
	psn := last(r, mad.AttrREP, &mad.REP{}).StartingPSN
	wantAttr(t, c, ib.QPAttr{
		State: ib.INIT, Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush,
	}, initMask)
	wantAttr(t, c, ib.QPAttr{
		State: ib.RTR, PathMTU: ib.MTU1024, DestQPN: peerQPN, RQPSN: psn, MaxDestRDAtomic: 2, // what SendREP offered
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(r.peer), Port: 1, FlowLabel: 0x54321, HopLimit: 64, TrafficClass: 0x68},
	}, rtrMask|ib.AttrMaxDestRDAtomic|ib.AttrMinRNRTimer)
	wantAttr(t, c, ib.QPAttr{
		State: ib.RTS, SQPSN: ib.NewPSN(0xabcdef), MaxRDAtomic: 1, RetryCnt: 5, RNRRetry: 1, Timeout: 18, // all of REQ
	}, rtsMask|ib.AttrTimeout|ib.AttrRetryCnt|ib.AttrRNRRetry|ib.AttrMaxRDAtomic)
}

// TestC8_BeforeAnswer: a consumer may prepare its QP before it sends REP; it
// then gets the depths that REQ allows.
func TestC8_BeforeAnswer(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(ReqRcvd)
	a, _, err := c.QPAttr(ib.RTR)
	if err != nil || a.MaxDestRDAtomic != 2 {
		t.Errorf("%+v, %v: the peer has 2 outstanding", a, err)
	}
	if a, _, err = c.QPAttr(ib.RTS); err != nil || a.MaxRDAtomic != 4 {
		t.Errorf("%+v, %v: the peer serves 4", a, err)
	}
}

// TestC8_UC: without acknowledgements there are no READ limits, no retries and
// no timeout. Without responder resources the peer may not read.
func TestC8_UC(t *testing.T) {
	r := newRig(t)
	p := r.reqParams()
	p.Transport, p.ResponderResources = mad.TransportUC, 0
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	r.receive(mad.AttrREP, r.rep(c))
	wantAttr(t, c, ib.QPAttr{State: ib.INIT, Port: 1, AccessFlags: ib.AccessRemoteWrite}, initMask)
	for to, want := range map[ib.QPState]ib.AttrMask{ib.RTR: rtrMask, ib.RTS: rtsMask} {
		if _, mask, err := c.QPAttr(to); err != nil || mask != want {
			t.Errorf("%v: %v, %v", to, mask.Names(), err)
		}
	}
}

// TestC8_WhenKnown: attributes are available once the messages with them have
// arrived.
func TestC8_WhenKnown(t *testing.T) {
	r := newRig(t)
	r.listen()
	over := func(s State) *Conn {
		c, _ := reach(t, s, Passive)
		return c
	}
	for _, row := range []struct {
		c              *Conn
		init, rtr, rts bool
	}{
		{r.active(Idle), false, false, false},
		{r.active(ReqSent), true, false, false},
		{r.passive(ReqRcvd), true, true, true},
		{r.passive(SIDRReqRcvd), false, false, false},
		{over(DReqSent), false, false, false},
		{over(DReqRcvd), false, false, false},
		{over(Timewait), false, false, false},
		{over(Idle), false, false, false}, // with all that it knew
	} {
		for to, want := range map[ib.QPState]bool{ib.INIT: row.init, ib.RTR: row.rtr, ib.RTS: row.rts, ib.SQD: false} {
			_, _, err := row.c.QPAttr(to)
			if (err == nil) != want || err != nil && !errors.Is(err, ib.EINVAL) {
				t.Errorf("%v in %v: %v", to, row.c.State(), err)
			}
		}
	}
}

// TestC8_PathIsOurs: the MTU is never beyond the port's, the P_Key is the one
// of the port's table that fits, and an address that the port has lost is an
// error.
func TestC8_PathIsOurs(t *testing.T) {
	r := newRig(t)
	r.m.cfg.PKeys = []ib.PKey{0x8002, ib.PKeyDefault}
	r.listen()
	q := r.req()
	q.PathMTU, q.PKey = ib.MTU4096, 0x7fff // a limited member of the default partition
	r.receive(mad.AttrREQ, q)
	r.m.cfg.MTU = ib.MTU2048
	if a, _, err := r.conn.QPAttr(ib.RTR); err != nil || a.PathMTU != ib.MTU2048 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, _, err := r.conn.QPAttr(ib.INIT); err != nil || a.PKeyIndex != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	r.m.cfg.Addrs = nil
	if _, _, err := r.conn.QPAttr(ib.RTR); !errors.Is(err, ib.EADDRNOTAVAIL) {
		t.Errorf("error %v, want EADDRNOTAVAIL", err)
	}
}

// TestC8_DepthsOfREP: the depths of the peer's REP reduce those of REQ, each
// way, and never increase them.
func TestC8_DepthsOfREP(t *testing.T) {
	for _, row := range []struct{ resources, depth, reads, serves uint8 }{
		{1, 1, 1, 1}, {4, 9, 4, 3}, {0, 0, 0, 0}, {255, 255, 5, 3},
	} {
		r := newRig(t)
		c := r.active(ReqSent) // asks for 5 and serves 3
		p := r.rep(c)
		p.ResponderResources, p.InitiatorDepth = row.resources, row.depth
		r.receive(mad.AttrREP, p)
		rtr, _, _ := c.QPAttr(ib.RTR)
		rts, _, _ := c.QPAttr(ib.RTS)
		if rts.MaxRDAtomic != row.reads || rtr.MaxDestRDAtomic != row.serves {
			t.Errorf("a REP of %d and %d: %d outstanding, %d served, want %d and %d",
				row.resources, row.depth, rts.MaxRDAtomic, rtr.MaxDestRDAtomic, row.reads, row.serves)
		}
	}
}

// TestC8_TimeoutOfREQ: the local ACK timeout of a passive QP is that of REQ, but
// never 0, which would mean waiting forever.
func TestC8_TimeoutOfREQ(t *testing.T) {
	for _, row := range []struct{ says, timeout, lifetime uint8 }{{0, 1, 0}, {1, 1, 0}, {18, 18, 17}, {31, 31, 30}} {
		r := newRig(t)
		r.listen()
		q := r.req()
		q.Primary.LocalAckTimeout = row.says
		r.receive(mad.AttrREQ, q)
		a, _, err := r.conn.QPAttr(ib.RTS)
		if err != nil || a.Timeout != row.timeout || r.conn.Path().Lifetime != row.lifetime {
			t.Errorf("REQ says %d: timeout %d, lifetime %d, %v; want %d and %d",
				row.says, a.Timeout, r.conn.Path().Lifetime, err, row.timeout, row.lifetime)
		}
	}
}

// TestC8_ConsumersChoice: the timeout and, before REP is sent, the resources.
func TestC8_ConsumersChoice(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(ReqRcvd)
	if responder, depth := c.Resources(); responder != 2 || depth != 4 {
		t.Errorf("the peer asks for %d and %d", responder, depth)
	}
	if rts, _, _ := c.QPAttr(ib.RTS); rts.Timeout != 18 {
		t.Errorf("timeout %d, want that of the path", rts.Timeout)
	}
	c.SetResources(1, 3)
	c.SetAckTimeout(23)
	rtr, _, _ := c.QPAttr(ib.RTR)
	rts, _, _ := c.QPAttr(ib.RTS)
	if rtr.MaxDestRDAtomic != 1 || rts.MaxRDAtomic != 3 || rts.Timeout != 23 {
		t.Errorf("%+v, %+v", rtr, rts)
	}
	c.SetAckTimeout(0)
	if rts, _, _ = c.QPAttr(ib.RTS); rts.Timeout != 0 {
		t.Errorf("timeout %d after none was chosen", rts.Timeout)
	}
}
