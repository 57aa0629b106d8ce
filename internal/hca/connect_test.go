package hca_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

const connectService = mad.ServiceID(0x0106_1d30)

// meeting is two adapters, or one twice, whose consumers connect their queue
// pairs as rdma_cm does. Side 0 asks, side 1 listens.
type meeting struct {
	*rig.Rig
	conn  [2]*cm.Conn
	heard [2][]cm.EventType
	quiet bool // the passive consumer does not answer REQ
}

func newMeeting(t testing.TB, typ ib.QPType) *meeting {
	t.Helper()
	m := &meeting{Rig: rig.New(t, typ, rig.Cap)}
	m.listen()
	return m
}

func (m *meeting) listen() {
	m.T.Helper()
	_, err := m.Sides[1].HCA.CM().Listen(connectService, func(now clock.Instant, c *cm.Conn, e *cm.Event) {
		m.conn[1] = c
		m.onEvent(1, now, e)
	})
	rig.Must(m.T, err)
}

// onEvent is what a polite consumer does with an event.
func (m *meeting) onEvent(i int, now clock.Instant, e *cm.Event) {
	m.T.Helper()
	m.heard[i] = append(m.heard[i], e.Type)
	s, c := m.Sides[i], m.conn[i]
	switch e.Type {
	case cm.REQReceived:
		if m.quiet {
			return
		}
		rig.Must(m.T, s.HCA.Establish(now, c, s.QP))
		rig.Must(m.T, c.SendREP(now, &cm.REPParams{
			QPN: s.QP.Num(), ResponderResources: e.REQ.InitiatorDepth, InitiatorDepth: e.REQ.ResponderResources, RNRRetryCount: 7,
		}))
	case cm.REPReceived:
		rig.Must(m.T, s.HCA.Establish(now, c, s.QP))
		rig.Must(m.T, c.SendRTU(now, nil))
	case cm.DREQReceived:
		rig.Must(m.T, s.HCA.Disconnect(now, s.QP))
		rig.Must(m.T, c.SendDREP(now, nil))
	case cm.REJReceived:
		rig.Must(m.T, s.HCA.Disconnect(now, s.QP))
	}
}

// ask sends REQ from side 0.
func (m *meeting) ask() {
	m.T.Helper()
	s := m.Sides[0]
	m.conn[0] = s.HCA.CM().NewConn(func(now clock.Instant, _ *cm.Conn, e *cm.Event) { m.onEvent(0, now, e) })
	rig.Must(m.T, s.HCA.Prepare(m.Now, s.QP))
	p := &cm.REQParams{
		Service: connectService, QPN: s.QP.Num(), ResponderResources: 3, InitiatorDepth: 5, RetryCount: 7, RNRRetryCount: 6,
		Path: cm.Path{Local: s.Addr, Remote: m.Sides[1].Addr, MTU: ib.MTU1024},
	}
	if s.QP.Type() == ib.UC {
		p.Transport = mad.TransportUC
	}
	rig.Must(m.T, m.conn[0].SendREQ(m.Now, p))
}

// up runs until both sides are established.
func (m *meeting) up() {
	m.T.Helper()
	m.until(time.Second, cm.Established, cm.Established)
}

// until runs until the connections are in the states, within a time.
func (m *meeting) until(limit time.Duration, want ...cm.State) {
	m.T.Helper()
	there := func() bool {
		for i, s := range want {
			if m.conn[i] == nil || m.conn[i].State() != s {
				return false
			}
		}
		return true
	}
	if m.Run(limit, there); !there() {
		m.T.Fatalf("the sides are not in %v: they heard %v", want, m.heard)
	}
}

// over runs until nothing is left to happen, and checks that nothing is left.
func (m *meeting) over() {
	m.T.Helper()
	m.Run(time.Hour, func() bool { return false })
	for i, s := range m.Sides {
		if n := s.HCA.CM().Conns(); n != 0 || s.HCA.CM().HalfOpen() != 0 || s.HCA.Single().Deadline() != clock.Never {
			m.T.Errorf("side %d: %d connections, %d half-open, deadline %v", i, n, s.HCA.CM().HalfOpen(), s.HCA.Single().Deadline())
		}
	}
}

// talk sends 64 bytes from one side to the other, where a receive is posted.
func (m *meeting) talk(from int) {
	m.T.Helper()
	m.Recv(1-from, ib.RecvWR{WRID: 1, SGList: []ib.SGE{m.Sides[1-from].SGE(0, 64)}})
	m.Post(from, ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{m.Sides[from].SGE(0, 64)}})
	var wcs []ib.WC
	m.Run(time.Second, func() bool { wcs = append(wcs, m.Poll(1-from)...); return len(wcs) > 0 })
	if len(wcs) != 1 || wcs[0].Status != ib.WCSuccess || wcs[0].ByteLen != 64 {
		m.T.Fatalf("side %d received %+v", 1-from, wcs)
	}
	m.Run(time.Second, func() bool { return len(m.Poll(from)) > 0 })
}

// TestC3_C5_C8_TwoAdapters connects two adapters, sends both ways, ends it from
// either side, and does it all again with the same queue pairs.
func TestC3_C5_C8_TwoAdapters(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC} {
		m := newMeeting(t, typ)
		for who := range 4 {
			m.ask()
			m.up()
			m.wantAgreement()
			m.talk(0)
			m.talk(1)
			m.Recv(1-who%2, ib.RecvWR{WRID: 9, SGList: []ib.SGE{m.Sides[1-who%2].SGE(0, 64)}})
			rig.Must(t, m.Sides[who%2].HCA.Disconnect(m.Now, m.Sides[who%2].QP))
			rig.Must(t, m.conn[who%2].SendDREQ(m.Now, nil))
			m.until(time.Second, cm.Timewait, cm.Timewait)
			if wcs := m.Poll(1 - who%2); len(wcs) != 1 || wcs[0].Status != ib.WCWRFlushErr {
				t.Errorf("%v: the receives of a connection that is over: %+v", typ, wcs)
			}
			m.over()
			for i, s := range m.Sides {
				if s.QP.State() != ib.ERR {
					t.Errorf("%v: side %d's QP is in %v", typ, i, s.QP.State())
				}
				rig.Must(t, s.QP.Modify(m.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
			}
		}
	}
}

// wantAgreement compares what the two QPs know of each other.
func (m *meeting) wantAgreement() {
	m.T.Helper()
	a, b := m.Sides[0].QP.Query(), m.Sides[1].QP.Query()
	if a.State != ib.RTS || b.State != ib.RTS || a.DestQPN != m.Sides[1].QP.Num() || b.DestQPN != m.Sides[0].QP.Num() ||
		a.SQPSN != b.RQPSN || b.SQPSN != a.RQPSN || a.PathMTU != ib.MTU1024 || b.PathMTU != ib.MTU1024 {
		m.T.Errorf("the QPs do not agree:\n%+v\n%+v", a, b)
	}
	if m.Sides[0].QP.Type() == ib.RC && (a.MaxRDAtomic != 5 || b.MaxDestRDAtomic != 5 || b.MaxRDAtomic != 3 || a.MaxDestRDAtomic != 3) {
		m.T.Errorf("the depths are %d to %d and %d to %d, want 5 and 3", a.MaxRDAtomic, b.MaxDestRDAtomic, b.MaxRDAtomic, a.MaxDestRDAtomic)
	}
}

// lose makes the network lose the messages of a kind.
func (m *meeting) lose(attr mad.AttrID) {
	m.Drop = func(_ int, p *roce.Packet) bool {
		return p.BTH.DestQP == ib.QPNGSI && (*mad.MAD)(p.Payload).Header().AttrID == attr
	}
}

// TestC4_Q9_DataForRTU loses every RTU: the first data does its work, long
// before REP is repeated.
func TestC4_Q9_DataForRTU(t *testing.T) {
	m := newMeeting(t, ib.RC)
	m.lose(mad.AttrRTU)
	m.ask()
	m.until(time.Second, cm.Established, cm.RepSent)
	m.talk(0)
	m.until(time.Millisecond, cm.Established, cm.Established)
	if want := []cm.EventType{cm.REQReceived, cm.UserEstablished}; !slices.Equal(m.heard[1], want) {
		t.Errorf("the passive side heard %v, want %v", m.heard[1], want)
	}
	m.talk(1)
}

// TestC4_C7_Q9_DataAfterMRA: the active side had asked for time, so the passive
// one waits longer for the RTU that never comes. Data does its work as well.
func TestC4_C7_Q9_DataAfterMRA(t *testing.T) {
	m := newMeeting(t, ib.RC)
	m.lose(mad.AttrRTU)
	m.ask()
	m.conn[0].SetHandler(func(now clock.Instant, c *cm.Conn, e *cm.Event) {
		if e.Type == cm.REPReceived {
			rig.Must(t, c.SendMRA(now, 20, nil))
		}
	})
	m.until(time.Second, cm.MRARepSent, cm.MRARepRcvd)
	rig.Must(t, m.Sides[0].HCA.Establish(m.Now, m.conn[0], m.Sides[0].QP))
	rig.Must(t, m.conn[0].SendRTU(m.Now, nil))
	m.talk(0)
	m.until(time.Millisecond, cm.Established, cm.Established)
}

// TestC8_Prepared: a QP that waits for its connection accepts receives, but no
// remote access; the connection grants the requested access.
func TestC8_Prepared(t *testing.T) {
	m := newMeeting(t, ib.RC)
	m.ask()
	a := m.Sides[0]
	if got := a.QP.Query(); got.State != ib.INIT || got.AccessFlags != 0 || got.Port != 1 {
		t.Errorf("prepared: %v, access %v, port %d", got.State, got.AccessFlags, got.Port)
	}
	m.Recv(0, ib.RecvWR{WRID: 1, SGList: []ib.SGE{a.SGE(0, 64)}})
	m.up()
	if got := a.QP.Query().AccessFlags; got != ib.AccessRemote|ib.AccessFlush {
		t.Errorf("connected: access %v", got)
	}
}

// TestC8_EstablishErrors shows what Establish refuses, and in which state it
// leaves the QP.
func TestC8_EstablishErrors(t *testing.T) {
	m := newMeeting(t, ib.RC)
	m.quiet = true
	h, q := m.Sides[0].HCA, m.Sides[0].QP
	refused := func(why string, err error, state ib.QPState) {
		t.Helper()
		if !errors.Is(err, ib.EINVAL) || q.State() != state {
			t.Errorf("%s: error %v, QP in %v; want EINVAL and %v", why, err, q.State(), state)
		}
	}
	refused("a connection that was never asked for", h.Establish(m.Now, h.CM().NewConn(nil), q), ib.RESET)
	m.ask()
	refused("a connection whose peer has not answered", h.Establish(m.Now, m.conn[0], q), ib.INIT)

	passive := m.Sides[1]
	m.until(time.Second, cm.ReqSent, cm.ReqRcvd)
	ud, err := passive.HCA.CreateQP(passive.PD, hca.QPConfig{Type: ib.UD, SendCQ: passive.CQ, RecvCQ: passive.CQ, Cap: rig.Cap})
	rig.Must(t, err)
	q = ud
	refused("a QP of another service", passive.HCA.Establish(m.Now, m.conn[1], ud), ib.RESET)
	uc, err := passive.HCA.CreateQP(passive.PD, hca.QPConfig{Type: ib.UC, SendCQ: passive.CQ, RecvCQ: passive.CQ, Cap: rig.Cap})
	rig.Must(t, err)
	q = uc
	refused("a QP of a service that is nearly the same", passive.HCA.Establish(m.Now, m.conn[1], uc), ib.INIT)

	q = passive.QP
	rig.Must(t, passive.HCA.Establish(m.Now, m.conn[1], q))
	refused("a QP that is connected", passive.HCA.Establish(m.Now, m.conn[1], q), ib.RTS)
	rig.Must(t, passive.HCA.Disconnect(m.Now, q))
	refused("a QP in ERR", passive.HCA.Establish(m.Now, m.conn[1], q), ib.ERR)
	refused("preparing it", passive.HCA.Prepare(m.Now, q), ib.ERR)
	rig.Must(t, passive.HCA.Disconnect(m.Now, q)) // ERR to ERR is a move like any other

	m.conn[1].Destroy(m.Now)
	refused("a connection that is over", passive.HCA.Establish(m.Now, m.conn[1], q), ib.ERR)
}

// TestC8_DepthsOfTheAdapter shows that a connection's depths do not exceed the
// adapter's limits, whatever the peer offers.
func TestC8_DepthsOfTheAdapter(t *testing.T) {
	m := newMeeting(t, ib.RC)
	for _, s := range m.Sides {
		s.HCA.Cfg().Limits.MaxRDAtomic = 2
	}
	m.ask()
	m.up()
	for i, s := range m.Sides {
		if a := s.QP.Query(); a.MaxRDAtomic != 2 || a.MaxDestRDAtomic != 2 {
			t.Errorf("side %d has depths %d and %d, want 2", i, a.MaxRDAtomic, a.MaxDestRDAtomic)
		}
	}
}

// TestC8_C14_DepthsOfAChannel shows that those of an EE context that the
// connection manager moves do not either.
func TestC8_C14_DepthsOfAChannel(t *testing.T) {
	s := newChannelStorm(t, 1)
	s.Drop = nil
	for _, side := range s.Sides {
		side.HCA.Cfg().Limits.MaxRDAtomic = 2
	}
	s.depth = 5
	s.connect(0, nil)
	s.Run(time.Second, func() bool {
		return len(s.parties) == 2 && s.parties[0].eec.State() == ib.RTS && s.parties[1].eec.State() == ib.RTS
	})
	for i, p := range s.parties {
		if a := p.eec.Query(); a.State != ib.RTS || a.MaxRDAtomic != 2 || a.MaxDestRDAtomic != 2 {
			t.Errorf("EE context %d in %v has depths %d and %d, want 2", i, a.State, a.MaxRDAtomic, a.MaxDestRDAtomic)
		}
	}
}

// TestC4_Q9_FirstPacketOfItsConnection: a connection that waits for RTU is not
// finished by packets of what its QP does after it was reset.
func TestC4_Q9_FirstPacketOfItsConnection(t *testing.T) {
	m := newMeeting(t, ib.RC)
	m.lose(mad.AttrRTU)
	m.ask()
	m.until(time.Second, cm.Established, cm.RepSent)
	for _, s := range m.Sides {
		rig.Must(t, s.QP.Modify(m.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	}
	m.Connect(ib.MTU1024)
	m.talk(0)
	m.talk(1)
	if s := m.conn[1].State(); s != cm.RepSent {
		t.Errorf("the passive side is in %v, want REP_SENT", s)
	}
	// Of the next connection with this QP they are packets.
	m.Drop = nil
	m.conn[0].Destroy(m.Now)
	m.Run(time.Second, func() bool { return m.conn[1].State() == cm.Timewait })
	for _, s := range m.Sides {
		rig.Must(t, s.QP.Modify(m.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	}
	m.lose(mad.AttrRTU)
	old := m.conn[1]
	m.ask()
	m.until(time.Second, cm.Established, cm.RepSent)
	m.talk(0)
	if m.conn[1] == old || m.conn[1].State() != cm.Established {
		t.Errorf("the new connection is in %v", m.conn[1].State())
	}
}

// TestC4_C5_Q9_EndedByItsFirstPacket: a consumer that learns of a connection by
// its first data, and ends its queue pair at once, does so before the data is
// executed: memory stays as it was, and no receive is used.
func TestC4_C5_Q9_EndedByItsFirstPacket(t *testing.T) {
	ends := map[string]func(s *rig.Side, now clock.Instant) error{
		"to ERR": func(s *rig.Side, now clock.Instant) error { return s.HCA.Disconnect(now, s.QP) },
		"to RESET": func(s *rig.Side, now clock.Instant) error {
			return s.QP.Modify(now, &ib.QPAttr{State: ib.RESET}, ib.AttrState)
		},
		"destroyed": func(s *rig.Side, _ clock.Instant) error {
			s.HCA.DestroyQP(s.PD, s.QP)
			return nil
		},
	}
	for what, end := range ends {
		for _, typ := range []ib.QPType{ib.RC, ib.UC} {
			for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite} {
				endedByFirst(newMeeting(t, typ), what, op, end)
			}
		}
	}
}

func endedByFirst(m *meeting, what string, op ib.WROpcode, end func(s *rig.Side, now clock.Instant) error) {
	t, passive := m.T, m.Sides[1]
	m.lose(mad.AttrRTU)
	m.ask()
	m.until(time.Second, cm.Established, cm.RepSent)
	m.conn[1].SetHandler(func(now clock.Instant, c *cm.Conn, e *cm.Event) {
		if e.Type == cm.UserEstablished {
			rig.Must(t, end(passive, now))
			rig.Must(t, c.SendDREQ(now, nil))
		}
	})
	m.Recv(1, ib.RecvWR{WRID: 1, SGList: []ib.SGE{passive.SGE(0, 64)}})
	copy(m.Sides[0].Buf, "data that comes too late")
	m.Post(0, ib.SendWR{
		WRID: 2, Opcode: op, SGList: []ib.SGE{m.Sides[0].SGE(0, 64)}, RemoteAddr: passive.MR.Addr(), RKey: passive.MR.RKey(),
	})
	var wcs []ib.WC
	m.Run(time.Second, func() bool { wcs = append(wcs, m.Poll(1)...); return m.conn[1].State() == cm.Timewait })
	for i := range wcs {
		if wcs[i].Status != ib.WCWRFlushErr {
			t.Errorf("%v, %v, %s: the receive completes %+v", m.Sides[0].QP.Type(), op, what, wcs[i])
		}
	}
	if want := map[string]int{"to ERR": 1}[what]; len(wcs) != want {
		t.Errorf("%v, %v, %s: %d completions, want %d", m.Sides[0].QP.Type(), op, what, len(wcs), want)
	}
	if !bytes.Equal(passive.Buf[:64], make([]byte, 64)) {
		t.Errorf("%v, %v, %s: %q is in memory", m.Sides[0].QP.Type(), op, what, passive.Buf[:24])
	}
	if passive.HCA.Counters().Drops[counters.DropState] == 0 {
		t.Errorf("%v, %v, %s: the packet is not counted as dropped", m.Sides[0].QP.Type(), op, what)
	}
}

// TestC5_QPDestroyedUnderItsConnection: a connection does not need its QP to
// live, or to end.
func TestC5_QPDestroyedUnderItsConnection(t *testing.T) {
	for _, state := range []cm.State{cm.RepSent, cm.Established} {
		m := newMeeting(t, ib.RC)
		if state == cm.RepSent {
			m.lose(mad.AttrRTU)
		}
		m.ask()
		m.until(time.Second, cm.Established, state)
		passive := m.Sides[1]
		passive.HCA.DestroyQP(passive.PD, passive.QP)
		// The peer's packets reach no QP, and do not establish the connection.
		m.Post(0, ib.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: []ib.SGE{m.Sides[0].SGE(0, 8)}})
		m.Run(time.Millisecond, func() bool { return false })
		if got := m.conn[1].State(); got != state || passive.HCA.Counters().Drops[counters.DropNoQP] == 0 {
			t.Errorf("the connection is in %v, want %v", got, state)
		}
		m.Drop = nil
		m.until(10*time.Second, cm.Established, cm.Established)
		rig.Must(t, m.Sides[0].HCA.Disconnect(m.Now, m.Sides[0].QP))
		rig.Must(t, m.conn[0].SendDREQ(m.Now, nil))
		m.Run(time.Second, func() bool { return m.conn[1].State() == cm.DReqRcvd || m.conn[1].State() == cm.Timewait })
		m.over()
	}
}

// TestC3_AdapterConnectedToItself: both ends of a connection are in one
// adapter, and each has its own.
func TestC3_AdapterConnectedToItself(t *testing.T) {
	m := newMeeting(t, ib.RC)
	a := m.Sides[0]
	b := *a
	var err error
	b.CQ, err = a.HCA.CreateCQ(64, nil)
	rig.Must(t, err)
	b.QP, err = a.HCA.CreateQP(a.PD, hca.QPConfig{Type: ib.RC, SendCQ: b.CQ, RecvCQ: b.CQ, Cap: rig.Cap, SigAll: true})
	rig.Must(t, err)
	m.Sides[1] = &b
	m.listen()
	m.ask()
	m.up()
	m.wantAgreement()
	if n := a.HCA.CM().Conns(); n != 2 || m.conn[0] == m.conn[1] {
		t.Errorf("%d connections, want 2", n)
	}
	m.talk(0)
	m.talk(1)
	rig.Must(t, a.HCA.Disconnect(m.Now, a.QP))
	rig.Must(t, m.conn[0].SendDREQ(m.Now, nil))
	m.until(time.Second, cm.Timewait, cm.Timewait)
	m.over()
}
