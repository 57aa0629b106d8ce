package cm

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

func TestC3_C4_ThreeWaySetup(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c := a.ask(b)
	n.finish()
	n.wantLog(`
		0.000 a sends REQ
		0.001 b hears REQ_RECEIVED
		0.001 b sends REP
		0.002 a hears REP_RECEIVED
		0.002 a sends RTU
		0.003 b hears RTU_RECEIVED`)
	d := b.conns[0]
	if c.State() != Established || d.State() != Established || c.Role() != Active || d.Role() != Passive {
		t.Fatalf("%v %v and %v %v", c.Role(), c.State(), d.Role(), d.State())
	}
	if c.RemoteID() != d.LocalID() || d.RemoteID() != c.LocalID() || c.Service() != service || d.Service() != service || d.Listener().Service() != service {
		t.Errorf("the two sides do not know each other: %#x %#x, %#x %#x", c.LocalID(), c.RemoteID(), d.LocalID(), d.RemoteID())
	}
	if c.RemoteQPN() != d.ep.localQPN || d.RemoteQPN() != c.ep.localQPN {
		t.Errorf("QPs %v and %v", c.RemoteQPN(), d.RemoteQPN())
	}
	if a.m.HalfOpen() != 0 || b.m.HalfOpen() != 0 || a.m.Conns() != 1 || b.m.Conns() != 1 {
		t.Error("the counts are wrong")
	}
}

// TestC3_REQFields compares every field of REQ with the parameters.
func TestC3_REQFields(t *testing.T) {
	r := newRig(t)
	p := r.reqParams()
	p.Transport, p.FlowControl, p.SRQ, p.ResponseTimeout, p.MaxRetries = mad.TransportUC, true, true, 17, 9
	p.Path.TClass, p.Path.HopLimit, p.Path.SL, p.Path.PKey, p.Path.Lifetime = 0x6a, 33, 4, 0x8001, 14
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	got := last(r, mad.AttrREQ, &mad.REQ{})
	want := &mad.REQ{
		LocalCommID: c.LocalID(), ServiceID: service, LocalCAGUID: rigGUID, LocalQPN: rigQPN,
		ResponderResources: 3, InitiatorDepth: 5, RemoteResponseTimeout: 17, LocalResponseTimeout: 17,
		Transport: mad.TransportUC, EndToEndFlowControl: true, StartingPSN: got.StartingPSN, RetryCount: 6,
		PKey: 0x8001, PathMTU: ib.MTU1024, RNRRetryCount: 4, MaxCMRetries: 9, SRQ: true,
		Primary: mad.Path{
			LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(r.us), RemoteGID: ib.GIDFromAddr(r.peer),
			FlowLabel: 0x12345, TrafficClass: 0x6a, HopLimit: 33, SL: 4, LocalAckTimeout: 16, // 14 doubled, and the delay 15
		},
	}
	copy(want.PrivateData[:], "hello")
	if *got != *want {
		t.Errorf("sent\n%+v\nwant\n%+v", got, want)
	}
	if h := r.sent[0].Header(); h != mad.CMHeader(mad.AttrREQ, 7<<32|uint64(c.LocalID())) {
		t.Errorf("header %+v", h)
	}
	if to := r.to[0]; to.Local != r.us || to.Remote != r.peer || to.PKey != 0x8001 || to.TClass != 0x6a || to.HopLimit != 33 {
		t.Errorf("sent to %+v", to)
	}
}

// TestC3_REPAndRTUFields compares every field of the answers, whose transaction
// ID and traffic class are those of the REQ.
func TestC3_REPAndRTUFields(t *testing.T) {
	r := newRig(t)
	r.from = 9 // whichever QP the peer sends from, answers go to QP1
	r.listen()
	c := r.passive(RepSent)
	got := last(r, mad.AttrREP, &mad.REP{})
	want := &mad.REP{
		LocalCommID: c.LocalID(), RemoteCommID: peerID, LocalQPN: rigQPN, StartingPSN: got.StartingPSN,
		ResponderResources: 2, InitiatorDepth: 1, TargetAckDelay: 15, RNRRetryCount: 3, LocalCAGUID: rigGUID,
	}
	copy(want.PrivateData[:], "welcome")
	if *got != *want || r.sent[0].Header().TID != peerTID || r.to[0].TClass != 0x68 || r.to[0].QPN != ib.QPNGSI {
		t.Errorf("sent to %+v with ID %#x\n%+v\nwant\n%+v", r.to[0], r.sent[0].Header().TID, got, want)
	}
	r = newRig(t)
	c = r.active(Established)
	rtu := &mad.RTU{LocalCommID: c.LocalID(), RemoteCommID: peerID}
	copy(rtu.PrivateData[:], "ready")
	if got := last(r, mad.AttrRTU, &mad.RTU{}); *got != *rtu || r.sent[len(r.sent)-1].Header().TID != 7<<32|uint64(c.LocalID()) {
		t.Errorf("sent\n%+v\nwant\n%+v", got, rtu)
	}
}

// TestC3_Defaults: parameters that the consumer omits get Linux's defaults.
func TestC3_Defaults(t *testing.T) {
	r := newRig(t)
	r.active(ReqSent)
	q := last(r, mad.AttrREQ, &mad.REQ{})
	if q.RemoteResponseTimeout != 20 || q.LocalResponseTimeout != 20 || q.MaxCMRetries != 15 || q.PKey != ib.PKeyDefault ||
		q.Primary.HopLimit != 64 || q.Primary.LocalAckTimeout != 19 {
		t.Errorf("%+v", q)
	}
	p := r.reqParams()
	p.Path.HopLimit = 1 // the next host is the peer
	r.do(r.m.NewConn(r.onEvent).SendREQ(r.now, p))
	if q = last(r, mad.AttrREQ, &mad.REQ{}); !q.Primary.SubnetLocal || q.Primary.LocalLID != 0 || q.Primary.RemoteLID != 0 {
		t.Errorf("within a subnet: %+v", q.Primary)
	}
}

// TestC4_LostRTU: the passive side repeats REP, and the active one RTU.
func TestC4_LostRTU(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	n.drop(a, mad.AttrRTU, 2)
	a.ask(b)
	n.finish()
	n.wantLog(`
		0.000 a sends REQ
		0.001 b hears REQ_RECEIVED
		0.001 b sends REP
		0.002 a hears REP_RECEIVED
		0.002 a sends RTU, lost
		4.296 b sends REP
		4.297 a sends RTU, lost
		8.591 b sends REP
		8.592 a sends RTU
		8.593 b hears RTU_RECEIVED`)
	if k := a.m.Counters().Retries[mad.AttrRTU-mad.AttrREQ]; k != 2 || a.m.Counters().Duplicates[MsgREP] != 2 {
		t.Errorf("%d RTUs counted as repeated", k)
	}
}

// TestC4_FirstDataInPlaceOfRTU: the arrival of data establishes the passive
// side; the RTU that comes later changes nothing.
func TestC4_FirstDataInPlaceOfRTU(t *testing.T) {
	r := newRig(t)
	r.listen()
	for _, s := range []State{RepSent, MRARepRcvd} {
		c := r.passive(s)
		r.clear()
		r.do(c.Establish(r.now))
		r.wantState(c, Established)
		r.wantEvents("data", UserEstablished)
		r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: c.LocalID()})
		r.wantEvents("RTU behind it", UserEstablished)
		if err := c.Establish(r.now); !errors.Is(err, ib.EISCONN) {
			t.Errorf("data once more: %v", err)
		}
		if r.m.Deadline() != clock.Never {
			t.Error("REP is still repeated")
		}
		c.Destroy(r.now)
		r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: c.LocalID()})
		r.quiet()
	}
}

// TestC3_C4_PrivateData: it arrives unchanged and padded with zeros, also at
// its maximum length; one byte more is refused and changes nothing.
func TestC3_C4_PrivateData(t *testing.T) {
	full := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i + 1)
		}
		return b
	}
	n, a, b := newNetwork(t)
	var got [][]byte
	b.program = func(now clock.Instant, c *Conn, ev *Event) {
		switch ev.Type {
		case REQReceived:
			got = append(got, append([]byte(nil), ev.REQ.PrivateData[:]...))
			p := b.repParams()
			p.PrivateData = full(mad.REPPrivateData + 1)
			wantInvalid(t, "REP", c.SendREP(now, p))
			p.PrivateData = full(mad.REPPrivateData)
			n.do(c.SendREP(now, p))
		case RTUReceived:
			got = append(got, append([]byte(nil), ev.RTU.PrivateData[:]...))
			wantInvalid(t, "DREQ", c.SendDREQ(now, full(mad.DREQPrivateData+1)))
			n.do(c.SendDREQ(now, full(mad.DREQPrivateData)))
		case DREPReceived:
			got = append(got, append([]byte(nil), ev.DREP.PrivateData[:]...))
		}
	}
	a.program = func(now clock.Instant, c *Conn, ev *Event) {
		switch ev.Type {
		case REPReceived:
			got = append(got, append([]byte(nil), ev.REP.PrivateData[:]...))
			wantInvalid(t, "RTU", c.SendRTU(now, full(mad.RTUPrivateData+1)))
			n.do(c.SendRTU(now, full(mad.RTUPrivateData)))
		case DREQReceived:
			got = append(got, append([]byte(nil), ev.DREQ.PrivateData[:]...))
			wantInvalid(t, "DREP", c.SendDREP(now, full(mad.DREPPrivateData+1)))
			n.do(c.SendDREP(now, full(mad.DREPPrivateData)))
		}
	}
	b.listen()
	p := a.reqParams(b)
	c := a.m.NewConn(a.onEvent)
	p.PrivateData = full(mad.REQPrivateData + 1)
	wantInvalid(t, "REQ", c.SendREQ(n.now, p))
	if a.m.Conns() != 0 || n.sent != 0 {
		t.Error("a refused call left something behind")
	}
	p.PrivateData = full(mad.REQPrivateData)
	n.do(c.SendREQ(n.now, p))
	n.wantEmpty()
	sizes := []int{mad.REQPrivateData, mad.REPPrivateData, mad.RTUPrivateData, mad.DREQPrivateData, mad.DREPPrivateData}
	if len(got) != len(sizes) {
		t.Fatalf("%d messages arrived", len(got))
	}
	for i, size := range sizes {
		if string(got[i]) != string(full(size)) {
			t.Errorf("message %d brought % x", i, got[i])
		}
	}
}

// wantInvalid requires an error that unwraps to EINVAL.
func wantInvalid(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ib.EINVAL) {
		t.Errorf("%s: error %v, want EINVAL", what, err)
	}
}

// TestC3_BadParameters: each value that exceeds its field is refused, and
// nothing is sent or kept.
func TestC3_BadParameters(t *testing.T) {
	r := newRig(t)
	for what, spoil := range map[string]func(p *REQParams){
		"retry count 8":       func(p *REQParams) { p.RetryCount = 8 },
		"RNR retry count 8":   func(p *REQParams) { p.RNRRetryCount = 8 },
		"CM retries 16":       func(p *REQParams) { p.MaxRetries = 16 },
		"response timeout 32": func(p *REQParams) { p.ResponseTimeout = 32 },
		"lifetime 32":         func(p *REQParams) { p.Path.Lifetime = 32 },
		"no MTU":              func(p *REQParams) { p.Path.MTU = 0 },
		"MTU 6":               func(p *REQParams) { p.Path.MTU = 6 },
		"RD":                  func(p *REQParams) { p.Transport = mad.TransportRD },
		"no transport":        func(p *REQParams) { p.Transport = mad.TransportExtended + 1 },
		"QP1":                 func(p *REQParams) { p.QPN = ib.QPNGSI },
		"QPN of multicast":    func(p *REQParams) { p.QPN = ib.QPNMulticast },
		"flow label 2^20":     func(p *REQParams) { p.Path.FlowLabel = 1 << 20 },
		"SL 16":               func(p *REQParams) { p.Path.SL = 16 },
		"foreign P_Key":       func(p *REQParams) { p.Path.PKey = 0x8005 },
		"no peer":             func(p *REQParams) { p.Path.Remote = netip.Addr{} },
		"peer of any address": func(p *REQParams) { p.Path.Remote = netip.IPv4Unspecified() },
		"peer is a group":     func(p *REQParams) { p.Path.Remote = netip.MustParseAddr("239.1.1.1") },
		"peer of IPv6":        func(p *REQParams) { p.Path.Remote = netip.MustParseAddr("fe80::2") },
	} {
		p := r.reqParams()
		spoil(p)
		c := r.m.NewConn(r.onEvent)
		wantInvalid(t, what, c.SendREQ(r.now, p))
		r.wantState(c, Idle)
	}
	p := r.reqParams()
	p.Path.Local = r.peer
	if err := r.m.NewConn(r.onEvent).SendREQ(r.now, p); !errors.Is(err, ib.EADDRNOTAVAIL) {
		t.Errorf("from an address that is not ours: error %v, want EADDRNOTAVAIL", err)
	}
	r.listen()
	c := r.passive(ReqRcvd)
	wantInvalid(t, "REP with QP1", c.SendREP(r.now, &REPParams{QPN: ib.QPNGSI}))
	answer := r.repParams()
	answer.RNRRetryCount = 8
	wantInvalid(t, "REP with RNR retry count 8", c.SendREP(r.now, answer))
	wantInvalid(t, "MRA timeout 32", c.SendMRA(r.now, 32, nil))
	wantInvalid(t, "MRA timeout 32", c.PrepareMRA(r.now, 32, nil))
	wantInvalid(t, "MRA with too much", c.SendMRA(r.now, 1, make([]byte, mad.MRAPrivateData+1)))
	wantInvalid(t, "MRA with too much", c.PrepareMRA(r.now, 1, make([]byte, mad.MRAPrivateData+1)))
	wantInvalid(t, "REJ with too much", c.SendREJ(r.now, &REJParams{PrivateData: make([]byte, mad.REJPrivateData+1)}))
	wantInvalid(t, "REJ with too much information", c.SendREJ(r.now, &REJParams{Info: make([]byte, mad.InfoSize+1)}))
	r.wantState(c, ReqRcvd)
	r.wantSent("nothing that was refused")
}

// TestC3_AddressesAreNormal: an IPv4-mapped address and an address with a zone
// are the same peer as in the answer.
func TestC3_AddressesAreNormal(t *testing.T) {
	r := newRig(t)
	p := r.reqParams()
	p.Path.Remote = netip.AddrFrom16(r.peer.As16())
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	r.receive(mad.AttrREP, r.rep(c))
	r.wantState(c, RepRcvd)

	r.us, r.peer = netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	p.Path.Local = r.us.WithZone("eth0")
	p.Path.Remote = r.peer.WithZone("eth0")
	c = r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	r.receive(mad.AttrREP, r.rep(c))
	r.wantState(c, RepRcvd)
}

// TestC3_ConnectionToItself: both sides are in one manager.
func TestC3_ConnectionToItself(t *testing.T) {
	n, a, _ := newNetwork(t)
	a.listen()
	c := a.ask(a)
	n.finish()
	if c.State() != Established || a.m.Conns() != 2 {
		t.Fatalf("%v, %d connections", c.State(), a.m.Conns())
	}
	c.Destroy(n.now)
	n.wantEmpty()
}
