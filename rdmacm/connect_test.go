package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// message sends text from one ID's QP to the other's.
func message(t testing.TB, from, to *ID, text string) {
	t.Helper()
	pd, err := to.PD()
	must.Do(t, err)
	mr, err := pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	must.Do(t, err)
	defer func() { must.Do(t, mr.Dereg()) }()
	must.Do(t, to.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 64)}}))
	must.Do(t, from.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte(text)}))
	wc, err := to.GetRecvComp(soon(t))
	must.Do(t, err)
	if got := string(mr.Bytes()[:wc.ByteLen]); wc.Status != ib.WCSuccess || got != text {
		t.Fatalf("%v: %q, want %q", wc.Status, got, text)
	}
	wc, err = from.GetSendComp(soon(t))
	must.Do(t, err)
	if wc.Status != ib.WCSuccess {
		t.Fatalf("send: %v", wc.Status)
	}
}

// networks are the networks on which connections are tested.
var networks = map[string]func(testing.TB) (a, b *host){
	"pipe": newPair, "udp": newUDPPair, "host": newHostPair,
}

// TestC11_Connection connects, sends both ways, disconnects from either side.
func TestC11_Connection(t *testing.T) {
	for name, network := range networks {
		for _, first := range []string{"client", "server"} {
			t.Run(name+", "+first+" disconnects", func(t *testing.T) {
				a, b := network(t)
				l := connect2(t, a, b)
				message(t, l.client, l.server, "from the client")
				message(t, l.server, l.client, "from the server")
				if first == "client" {
					part(t, a, l.client, b, l.server)
				} else {
					part(t, b, l.server, a, l.client)
				}
				for _, id := range []*ID{l.client, l.server} {
					if s := id.QP().State(); s != ib.ERR {
						t.Errorf("a QP is in %v after the end, want ERR", s)
					}
				}
				destroy(t, l.client, l.server, l.listener)
				a.quiet("after the end")
				b.quiet("after the end")
			})
		}
	}
}

// TestC8_Attributes checks the attributes of a connection's QPs.
func TestC8_Attributes(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := a.id(TCP)
	must.Do(t, client.SetTOS(0x28))
	must.Do(t, client.SetAckTimeout(12))
	withQP(t, a.resolve(client, b.at(port)))
	if s := client.QP().State(); s != ib.INIT {
		t.Errorf("a new QP is in %v, want INIT", s)
	}
	must.Do(t, client.Connect(&ConnParam{ResponderResources: 3, InitiatorDepth: 5, RetryCount: 4, RNRRetryCount: 2}))
	req := b.take(EventConnectRequest)
	if p := req.Param; p.ResponderResources != 5 || p.InitiatorDepth != 3 || p.RetryCount != 4 || p.RNRRetryCount != 2 || p.QPN != client.QP().QPN() || p.SRQ {
		t.Errorf("CONNECT_REQUEST says %+v", p)
	}
	server := withQP(t, req.ID)
	must.Do(t, server.Accept(&ConnParam{ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 6}))
	est := a.take(EventEstablished)
	if p := est.Param; p.ResponderResources != 1 || p.InitiatorDepth != 2 || p.RNRRetryCount != 6 || p.QPN != server.QP().QPN() {
		t.Errorf("ESTABLISHED says %+v", p)
	}
	b.take(EventEstablished)
	c, err := client.QP().Query()
	must.Do(t, err)
	s, err := server.QP().Query()
	must.Do(t, err)
	all := ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic | ib.AccessFlush
	if c.MaxDestRDAtomic != 1 || c.MaxRDAtomic != 2 || c.RetryCnt != 4 || c.RNRRetry != 6 || c.AccessFlags != all || c.Timeout != 12 {
		t.Errorf("the client's QP has %+v", c)
	}
	if s.MaxDestRDAtomic != 2 || s.MaxRDAtomic != 1 || s.RetryCnt != 4 || s.RNRRetry != 2 || s.AccessFlags != all {
		t.Errorf("the server's QP has %+v", s)
	}
	if c.AV.TrafficClass != 0x28 || s.AV.TrafficClass != 0x28 || c.AV.FlowLabel != s.AV.FlowLabel || c.AV.FlowLabel == 0 {
		t.Errorf("traffic class and flow label are %#x %#x and %#x %#x, want 0x28 and the same", c.AV.TrafficClass, c.AV.FlowLabel, s.AV.TrafficClass, s.AV.FlowLabel)
	}
	if got := client.LocalAddr().Port(); flowLabel(got, port) != c.AV.FlowLabel {
		t.Errorf("flow label %#x does not follow from ports %d and %d", c.AV.FlowLabel, got, port)
	}
	if c.DestQPN != server.QP().QPN() || s.DestQPN != client.QP().QPN() || c.PathMTU != ib.MTU4096 {
		t.Errorf("the QPs are for %v and %v, path MTU %v", c.DestQPN, s.DestQPN, c.PathMTU)
	}
	destroy(t, client, server, l)
}

// TestC8_NoAckTimeout checks that 0 disables the timeout, as on Linux, and does not affect
// the path.
func TestC8_NoAckTimeout(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := a.id(TCP)
	must.Do(t, client.SetAckTimeout(0))
	withQP(t, a.resolve(client, b.at(port)))
	if r, _ := client.Route(); r.Lifetime != cm.DefaultLifetime {
		t.Errorf("the path's lifetime is %d, want the usual one, %d", r.Lifetime, cm.DefaultLifetime)
	}
	server := established(t, a, b, client)
	for _, tt := range []struct {
		id   *ID
		none bool
	}{{client, true}, {server, false}} {
		attr, err := tt.id.QP().Query()
		must.Do(t, err)
		if none := attr.Timeout == 0; none != tt.none {
			t.Errorf("the QP of %v has the ACK timeout %d", tt.id.LocalAddr(), attr.Timeout)
		}
	}
	destroy(t, client, server, l)
}

// TestC8_OwnQP connects IDs whose QPs the program moves.
func TestC8_OwnQP(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := a.resolved(TCP, b.at(port))
	qc := ownedQP(t, client)
	must.Do(t, client.Connect(&ConnParam{QPN: qc.QPN(), RetryCount: 7, RNRRetryCount: 7, ResponderResources: 1, InitiatorDepth: 1}))
	server := b.take(EventConnectRequest).ID
	qs := ownedQP(t, server)
	walk(t, server, qs)
	must.Do(t, server.Accept(&ConnParam{QPN: qs.QPN(), RNRRetryCount: 7, ResponderResources: 1, InitiatorDepth: 1}))
	if e := a.take(EventConnectResponse); e.Param.QPN != qs.QPN() {
		t.Errorf("CONNECT_RESPONSE names QP %v, want %v", e.Param.QPN, qs.QPN())
	}
	walk(t, client, qc)
	must.Do(t, client.Establish())
	must.Fail(t, client.Establish(), ib.EINVAL, "a second Establish")
	b.take(EventEstablished)
	a.quiet("after Establish")
	if c, s := qc.State(), qs.State(); c != ib.RTS || s != ib.RTS {
		t.Errorf("the QPs are in %v and %v, want RTS", c, s)
	}
	part(t, a, client, b, server)
	destroy(t, client, server, l)
	must.Do(t, errors.Join(qc.Destroy(), qs.Destroy()))
}

// TestC8_OwnQPMeetsOther connects a QP that the program moves with one that the connection
// manager moves.
func TestC8_OwnQPMeetsOther(t *testing.T) {
	param := func(qpn ib.QPN) *ConnParam {
		return &ConnParam{QPN: qpn, RetryCount: 7, RNRRetryCount: 7, ResponderResources: 1, InitiatorDepth: 1}
	}
	for _, own := range []string{"client", "server"} {
		t.Run(own, func(t *testing.T) {
			a, b := newPair(t)
			l := b.listener(TCP, 0)
			client := a.resolved(TCP, b.at(port))
			var server *ID
			var mine *verbs.QP
			if own == "client" {
				mine = ownedQP(t, client)
				must.Do(t, client.Connect(param(mine.QPN())))
				server = withQP(t, b.take(EventConnectRequest).ID)
				must.Do(t, server.Accept(param(0)))
				a.take(EventConnectResponse)
				walk(t, client, mine)
				must.Do(t, client.Establish())
				b.take(EventEstablished)
				pass(t, mine, server)
			} else {
				must.Do(t, withQP(t, client).Connect(param(0)))
				server = b.take(EventConnectRequest).ID
				mine = ownedQP(t, server)
				walk(t, server, mine)
				must.Do(t, server.Accept(param(mine.QPN())))
				a.take(EventEstablished)
				b.take(EventEstablished)
				pass(t, mine, client)
			}
			part(t, a, client, b, server)
			destroy(t, client, server, l)
			must.Do(t, mine.Destroy())
		})
	}
}

// pass sends a message without bytes each way between a QP and that of an ID.
func pass(t testing.TB, mine *verbs.QP, id *ID) {
	t.Helper()
	must.Do(t, errors.Join(mine.PostRecv(recvNothing()), id.QP().PostRecv(recvNothing())))
	must.Do(t, errors.Join(mine.PostSend(verbs.SendWR{Opcode: ib.WRSend}), id.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend})))
	for _, get := range []func(context.Context) (verbs.WC, error){id.GetRecvComp, id.GetSendComp} {
		wc, err := get(soon(t))
		must.Do(t, err)
		if wc.Status != ib.WCSuccess { // a SEND succeeds when the other QP has its message
			t.Fatalf("%v", wc.Status)
		}
	}
}

// TestC8_OnTheWire finds the type of service in all packets of a connection, and the ACK
// timeout, with twice the adapter's delay, and the retries in the REQ.
func TestC8_OnTheWire(t *testing.T) {
	n := verbs.NewNetwork()
	var capture bytes.Buffer
	a, b := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1"}), newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2", Capture: &capture})
	const tos = 0x68
	l := b.listener(TCP, 0)
	client := a.id(TCP)
	must.Do(t, client.SetTOS(tos))
	must.Do(t, client.SetAckTimeout(12))
	withQP(t, a.resolve(client, b.at(port)))
	server := accepted(t, b, client, &ConnParam{RetryCount: 5})
	a.take(EventEstablished)
	b.take(EventEstablished)
	message(t, client, server, "hello")
	message(t, server, client, "hello")
	part(t, a, client, b, server)
	destroy(t, client, server, l)
	must.Do(t, b.m.Close())
	r, err := pcapfile.NewReader(&capture)
	must.Do(t, err)
	const before = 20 // BTH and DETH
	packets, reqs := 0, 0
	for p, err := r.Next(); err == nil; p, err = r.Next() {
		packets++
		if p.IP[1] != tos {
			t.Errorf("packet %d has type of service %#x", packets, p.IP[1])
		}
		if len(p.Payload) < before+mad.Size {
			continue
		}
		m := (*mad.MAD)(p.Payload[before:])
		if h := m.Header(); h.IsCM() && h.AttrID == mad.AttrREQ {
			reqs++
			var q mad.REQ
			if q.Decode(m); q.Primary.LocalAckTimeout != 15 || q.RetryCount != 5 || q.RNRRetryCount != 0 {
				t.Errorf("REQ %+v: want ACK timeout 15, 5 retries and no RNR retries", q)
			}
		}
	}
	if packets < 9 || reqs != 1 { // five messages of the connection manager, two SENDs, two ACKs
		t.Errorf("%d packets, %d REQs", packets, reqs)
	}
}

// ownedQP returns a QP of the program, which the ID does not know.
func ownedQP(t testing.TB, id *ID) *verbs.QP {
	t.Helper()
	pd, err := id.PD()
	must.Do(t, err)
	cq, err := id.Device().CreateCQ(16, nil)
	must.Do(t, err)
	attr := small()
	attr.Type, attr.SendCQ, attr.RecvCQ = ib.RC, cq, cq
	q, err := pd.CreateQP(attr)
	must.Do(t, err)
	return q
}

// walk moves a QP to RTS with the attributes of the connection.
func walk(t testing.TB, id *ID, q *verbs.QP) {
	t.Helper()
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		attr, mask, err := id.QPAttr(to)
		must.Do(t, err)
		must.Do(t, q.Modify(&attr, mask))
	}
}

// TestC11_PrivateData carries private data of every message, padded to its
// full length, and refuses what is too long.
func TestC11_PrivateData(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	full := func(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Fail(t, client.Connect(&ConnParam{PrivateData: full(57)}), ib.EINVAL, "Connect with 57 bytes")
	must.Do(t, client.Connect(&ConnParam{PrivateData: full(56)}))
	req := b.take(EventConnectRequest)
	if !bytes.Equal(req.Param.PrivateData, full(56)) {
		t.Errorf("CONNECT_REQUEST has %x", req.Param.PrivateData)
	}
	must.Fail(t, req.ID.Reject(full(149)), ib.EINVAL, "Reject with 149 bytes")
	must.Do(t, req.ID.Reject([]byte("no")))
	e := a.take(EventRejected)
	if e.Status != 28 || !bytes.Equal(e.Param.PrivateData, append([]byte("no"), make([]byte, 146)...)) {
		t.Errorf("REJECTED has status %d, %x", e.Status, e.Param.PrivateData)
	}
	var why *RejectError
	if !errors.As(e.Err, &why) || why.Reason != mad.RejConsumer || !errors.Is(e.Err, ib.ECONNREFUSED) {
		t.Errorf("REJECTED has the error %v", e.Err)
	}
	if s := client.QP().State(); s != ib.ERR {
		t.Errorf("the QP of a rejected connection is in %v, want ERR", s)
	}
	destroy(t, client, req.ID)

	client = withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(&ConnParam{PrivateData: full(3), RetryCount: 9, RNRRetryCount: 9}))
	req = b.take(EventConnectRequest)
	if p := req.Param; !bytes.Equal(p.PrivateData, append(full(3), make([]byte, 53)...)) || p.RetryCount != 7 || p.RNRRetryCount != 7 {
		t.Errorf("CONNECT_REQUEST has %+v", p)
	}
	server := withQP(t, req.ID)
	must.Do(t, server.Accept(&ConnParam{PrivateData: full(196)}))
	if e := a.take(EventEstablished); !bytes.Equal(e.Param.PrivateData, full(196)) {
		t.Errorf("ESTABLISHED has %x", e.Param.PrivateData)
	}
	if e := b.take(EventEstablished); e.Param.PrivateData != nil {
		t.Errorf("ESTABLISHED of the passive side has %x", e.Param.PrivateData)
	}
	destroy(t, client, server, l)
}

// TestC11_FailedAccept checks that a failed Accept rejects the request.
func TestC11_FailedAccept(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	server := b.take(EventConnectRequest).ID
	must.Fail(t, server.Accept(nil), ib.EINVAL, "Accept without a QP")
	withQP(t, server)
	must.Fail(t, server.Accept(&ConnParam{PrivateData: make([]byte, 197)}), ib.EINVAL, "Accept with 197 bytes")
	if e := a.take(EventRejected); e.Status != int(mad.RejConsumer) {
		t.Errorf("the peer was rejected for %v", mad.RejReason(e.Status))
	}
	must.Fail(t, server.Accept(nil), ib.EINVAL, "Accept of a rejected request")
	must.Fail(t, server.Reject(nil), ib.EINVAL, "Reject of a rejected request")
	destroy(t, client, server, l)
}

// TestC11_NoListener checks the reason of the REJ if there is no listener.
func TestC11_NoListener(t *testing.T) {
	a, b := newPair(t)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	if e := a.take(EventRejected); e.Status != int(mad.RejInvalidServiceID) {
		t.Errorf("rejected for %v, want invalid service id", mad.RejReason(e.Status))
	}
	must.Fail(t, client.Connect(nil), ib.EINVAL, "Connect after REJECTED")
	destroy(t, client)
}

// TestC11_Families connects over IPv6, and connects an adapter to itself.
func TestC11_Families(t *testing.T) {
	a, b := newPair(t)
	for _, tt := range []struct {
		what string
		from *host
		to   netip.Addr
	}{
		{"IPv6", a, b.m.devices[0].addrs[1]},
		{"IPv4 to a wildcard of IPv6", a, b.addr},
		{"to itself", b, b.addr},
		{"to itself by IPv6", b, b.m.devices[0].addrs[1]},
	} {
		t.Run(tt.what, func(t *testing.T) {
			l := b.id(TCP)
			must.Do(t, l.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), port)))
			must.Do(t, l.Listen(0))
			client := withQP(t, tt.from.resolved(TCP, netip.AddrPortFrom(tt.to, port)))
			must.Do(t, client.Connect(nil))
			req := b.take(EventConnectRequest)
			server := withQP(t, req.ID)
			if req.Listener != l || server.PeerAddr() != client.LocalAddr() || server.LocalAddr() != client.PeerAddr() {
				t.Errorf("the request is from %v to %v; the client is %v to %v", server.PeerAddr(), server.LocalAddr(), client.LocalAddr(), client.PeerAddr())
			}
			must.Do(t, server.Accept(nil))
			tt.from.take(EventEstablished)
			b.take(EventEstablished)
			message(t, client, server, "hello")
			message(t, server, client, "hello")
			destroy(t, client)
			b.take(EventDisconnected)
			destroy(t, server, l)
		})
	}
}
