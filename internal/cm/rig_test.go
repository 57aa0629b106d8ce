package cm

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

const (
	rigGUID  = 0x0200_0000_0000_0001
	peerGUID = 0x0200_0000_0000_0002
	rigQPN   = ib.QPN(0x11)
	peerQPN  = ib.QPN(0x22)
	peerID   = 0x2222_2222 // communication ID of the peer
	service  = mad.ServiceID(0x0106_1d30)
)

// rig is a manager whose peer is the test: it gets every MAD and every event.
type rig struct {
	t      testing.TB
	m      *Manager
	now    clock.Instant
	us     netip.Addr
	peer   netip.Addr
	sent   []*mad.MAD
	to     []gsi.Address
	events []EventType
	conn   *Conn  // that the listener got last
	unsent bool   // QP1 has no room
	from   ib.QPN // of the peer
}

func newRig(t testing.TB) *rig { return newLimitedRig(t, DefaultLimits()) }

func newLimitedRig(t testing.TB, l Limits) *rig {
	r := &rig{t: t, from: ib.QPNGSI, us: netip.MustParseAddr("10.0.0.1"), peer: netip.MustParseAddr("10.0.0.2")}
	rng := rand.New(rand.NewPCG(1, 2))
	r.m = New(Config{
		GUID: rigGUID, Rand: rng.Uint32, MTU: ib.MTU4096, Addrs: []netip.Addr{r.us, netip.MustParseAddr("fe80::1")},
		PKeys: []ib.PKey{ib.PKeyDefault, 0x8001},
		TID:   func(id uint32) uint64 { return 7<<32 | uint64(id) },
		Send: func(_ clock.Instant, to gsi.Address, m *mad.MAD) error {
			if r.unsent {
				return errors.New("no room")
			}
			d := *m
			r.sent, r.to = append(r.sent, &d), append(r.to, to)
			return nil
		},
		Limits: l,
	})
	return r
}

// onEvent is the handler of everything in the rig.
func (r *rig) onEvent(_ clock.Instant, c *Conn, e *Event) {
	r.events = append(r.events, e.Type)
	if e.Type == REQReceived || e.Type == SIDRREQReceived {
		r.conn = c
	}
}

func (r *rig) listen() *Listener {
	r.t.Helper()
	l, err := r.m.Listen(service, r.onEvent)
	must.Do(r.t, err)
	return l
}

// do fails the test if a verb does.
func (r *rig) do(err error) {
	r.t.Helper()
	must.Do(r.t, err)
}

// receive delivers a message of the peer to the manager.
// message is a CM message that can be written into a MAD.
type message interface{ Put(*mad.MAD) }

// build makes the MAD of a message.
func build(attr mad.AttrID, tid uint64, msg message) *mad.MAD {
	m := newMAD(attr, tid)
	msg.Put(m)
	return m
}

func (r *rig) receive(attr mad.AttrID, msg message) { r.receiveFrom(r.peer, attr, msg) }

const peerTID = 0x9_8765_4321

func (r *rig) receiveFrom(from netip.Addr, attr mad.AttrID, msg message) {
	r.t.Helper()
	d := build(attr, peerTID, msg)
	if !r.m.Receive(r.now, &gsi.Received{MAD: d, From: gsi.Address{Local: r.us, Remote: from, QPN: r.from, PKey: ib.PKeyDefault}}) {
		r.t.Fatalf("%v is said to be no CM message", attr)
	}
}

// clear clears the records of sent MADs and events.
func (r *rig) clear() { r.sent, r.to, r.events = nil, nil, nil }

// last returns the last MAD that was sent, which must be of that kind, decoded.
func last[M interface {
	Decode(*mad.MAD)
	Put(*mad.MAD)
}](r *rig, attr mad.AttrID, msg M) M {
	r.t.Helper()
	if len(r.sent) == 0 || r.sent[len(r.sent)-1].Header().AttrID != attr {
		r.t.Fatalf("sent %v, want %v at the end", r.kinds(), attr)
	}
	return decode(msg, r.sent[len(r.sent)-1])
}

// kinds returns the kinds of the sent messages, with the reason of a REJ and the
// status of a SIDR_REP.
func (r *rig) kinds() []string {
	var k []string
	for _, m := range r.sent {
		k = append(k, kindText(m))
	}
	return k
}

func kindText(m *mad.MAD) string {
	switch a := m.Header().AttrID; a {
	case mad.AttrREJ:
		return "REJ: " + decode(&mad.REJ{}, m).Reason.String()
	case mad.AttrSIDRREP:
		return "SIDR_REP: " + decode(&mad.SIDRREP{}, m).Status.String()
	default:
		return a.String()
	}
}

// wantSent compares the messages sent since clear.
func (r *rig) wantSent(why string, want ...string) {
	r.t.Helper()
	if got := r.kinds(); !slices.Equal(got, want) {
		r.t.Errorf("%s: sent %q, want %q", why, got, want)
	}
}

// wantEvents compares the consumer's events since clear.
func (r *rig) wantEvents(why string, want ...EventType) {
	r.t.Helper()
	if !slices.Equal(r.events, want) {
		r.t.Errorf("%s: heard %v, want %v", why, r.events, want)
	}
}

func (r *rig) wantState(c *Conn, want State) {
	r.t.Helper()
	if c.State() != want {
		r.t.Fatalf("state %v, want %v", c.State(), want)
	}
}

// fire lets the next timer fire.
func (r *rig) fire() {
	r.t.Helper()
	at := r.m.Deadline()
	if at == clock.Never {
		r.t.Fatal("no timer runs")
	}
	r.now = at
	r.m.Advance(at)
}

// quiet lets timers fire until none is left.
func (r *rig) quiet() {
	r.t.Helper()
	for range 1000 {
		if r.m.Deadline() == clock.Never {
			return
		}
		r.fire()
	}
	r.t.Fatal("timers do not come to an end")
}

func (r *rig) path() Path {
	return Path{Local: r.us, Remote: r.peer, FlowLabel: 0x12345, MTU: ib.MTU1024}
}

func (r *rig) reqParams() *REQParams {
	return &REQParams{
		Service: service, QPN: rigQPN, Path: r.path(), ResponderResources: 3, InitiatorDepth: 5,
		RetryCount: 6, RNRRetryCount: 4, PrivateData: []byte("hello"),
	}
}

func (r *rig) repParams() *REPParams {
	return &REPParams{QPN: rigQPN, ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 3, PrivateData: []byte("welcome")}
}

// req is the REQ of the peer.
func (r *rig) req() *mad.REQ {
	return &mad.REQ{
		LocalCommID: peerID, ServiceID: service, LocalCAGUID: peerGUID, LocalQPN: peerQPN,
		ResponderResources: 4, InitiatorDepth: 2, RemoteResponseTimeout: 20, LocalResponseTimeout: 19,
		StartingPSN: ib.NewPSN(0xabcdef), RetryCount: 5, RNRRetryCount: 1, PKey: ib.PKeyDefault, PathMTU: ib.MTU1024,
		MaxCMRetries: 3,
		Primary: mad.Path{
			LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(r.peer), RemoteGID: ib.GIDFromAddr(r.us),
			FlowLabel: 0x54321, TrafficClass: 0x68, HopLimit: 64, LocalAckTimeout: 18,
		},
	}
}

func (r *rig) rep(c *Conn) *mad.REP {
	return &mad.REP{
		LocalCommID: peerID, RemoteCommID: c.LocalID(), LocalQPN: peerQPN, StartingPSN: ib.NewPSN(0x123456),
		ResponderResources: 2, InitiatorDepth: 4, TargetAckDelay: 15, RNRRetryCount: 2, LocalCAGUID: peerGUID,
	}
}

func (r *rig) dreq(c *Conn) *mad.DREQ {
	return &mad.DREQ{LocalCommID: peerID, RemoteCommID: c.LocalID(), RemoteQPN: c.ep.localQPN}
}

func (r *rig) mra(c *Conn, about mad.Which) *mad.MRA {
	return &mad.MRA{LocalCommID: peerID, RemoteCommID: c.LocalID(), Message: about, ServiceTimeout: 22}
}

func (r *rig) rej(c *Conn, about mad.Which, why mad.RejReason) *mad.REJ {
	return &mad.REJ{LocalCommID: peerID, RemoteCommID: c.LocalID(), Message: about, Reason: why}
}

func (r *rig) lap(c *Conn) *mad.LAP {
	alternate := r.req().Primary
	alternate.FlowLabel = 0x777
	return &mad.LAP{LocalCommID: peerID, RemoteCommID: c.LocalID(), RemoteQPN: rigQPN, RemoteResponseTimeout: 20, Alternate: alternate}
}

func (r *rig) sidrReq() *mad.SIDRREQ {
	return &mad.SIDRREQ{RequestID: peerID, PKey: ib.PKeyDefault, ServiceID: service}
}

// active returns a connection that the consumer began, in a state.
func (r *rig) active(to State) *Conn {
	r.t.Helper()
	c := r.m.NewConn(r.onEvent)
	steps := []struct {
		to State
		do func()
	}{
		{Idle, func() {}},
		{ReqSent, func() { r.do(c.SendREQ(r.now, r.reqParams())) }},
		{RepRcvd, func() { r.receive(mad.AttrREP, r.rep(c)) }},
		{Established, func() { r.do(c.SendRTU(r.now, []byte("ready"))) }},
	}
	switch to {
	case SIDRReqSent:
		r.do(c.SendSIDRREQ(r.now, &SIDRREQParams{Service: service, Path: r.path()}))
		return c
	case MRAReqRcvd:
		c = r.active(ReqSent)
		r.receive(mad.AttrMRA, r.mra(c, mad.WhichREQ))
		return c
	case MRARepSent:
		c = r.active(RepRcvd)
		r.do(c.PrepareMRA(r.now, 21, []byte("soon")))
		return c
	}
	for _, s := range steps {
		s.do()
		if s.to == to {
			return c
		}
	}
	return r.end(c, to)
}

// passive returns a connection that the peer began, in a state. The rig must
// have a listener.
func (r *rig) passive(to State) *Conn {
	r.t.Helper()
	if to == SIDRReqRcvd {
		r.receive(mad.AttrSIDRREQ, r.sidrReq())
		return r.conn
	}
	r.receive(mad.AttrREQ, r.req())
	c := r.conn
	switch to {
	case MRAReqSent:
		r.do(c.PrepareMRA(r.now, 21, []byte("soon")))
		return c
	case ReqRcvd:
		return c
	}
	r.do(c.SendREP(r.now, r.repParams()))
	switch to {
	case MRARepRcvd:
		r.receive(mad.AttrMRA, r.mra(c, mad.WhichREP))
		return c
	case RepSent:
		return c
	}
	r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: c.LocalID()})
	if to == Established {
		return c
	}
	return r.end(c, to)
}

// end tears an established connection down to a state.
func (r *rig) end(c *Conn, to State) *Conn {
	r.t.Helper()
	switch to {
	case DReqSent:
		r.do(c.SendDREQ(r.now, nil))
	case DReqRcvd:
		r.receive(mad.AttrDREQ, r.dreq(c))
	case Timewait:
		r.do(c.SendDREQ(r.now, nil))
		r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: c.LocalID()})
	default:
		r.t.Fatalf("no way to %v", to)
	}
	return c
}

// loading returns an established connection in a sub-state.
func (r *rig) loading(to LAPState) *Conn {
	r.t.Helper()
	var c *Conn
	switch to {
	case LAPSent, LAPMRARcvd:
		c = r.active(Established)
		path := r.path()
		r.do(c.SendLAP(r.now, &path, nil))
		if to == LAPMRARcvd {
			r.receive(mad.AttrMRA, r.mra(c, mad.WhichOther))
		}
	case LAPRcvd, LAPMRASent:
		c = r.passive(Established)
		r.receive(mad.AttrLAP, r.lap(c))
		if to == LAPMRASent {
			r.do(c.SendMRA(r.now, 20, nil))
		}
	default:
		c = r.passive(Established)
	}
	return c
}
