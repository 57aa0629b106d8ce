package rdmacm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// recvNothing is a receive for messages without bytes.
func recvNothing() verbs.RecvWR { return verbs.RecvWR{} }

// datagram sends text to a UD QP and waits for it at the other ID.
func datagram(t testing.TB, from, to *ID, way UDParam, text string) {
	t.Helper()
	pd, err := to.PD()
	must.Do(t, err)
	mr, err := pd.RegMR(make([]byte, 128), ib.AccessLocalWrite)
	must.Do(t, err)
	defer func() { must.Do(t, mr.Dereg()) }()
	must.Do(t, to.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 128)}}))
	send(t, from, way, text)
	wc, err := to.GetRecvComp(soon(t))
	must.Do(t, err)
	if got := string(mr.Bytes()[40:wc.ByteLen]); wc.Status != ib.WCSuccess || got != text || wc.SrcQP != from.QP().QPN() {
		t.Fatalf("%v from %v: %q, want %q", wc.Status, wc.SrcQP, got, text)
	}
}

// send sends text to a UD QP or a group.
func send(t testing.TB, from *ID, way UDParam, text string) {
	t.Helper()
	pd, err := from.PD()
	must.Do(t, err)
	ah, err := pd.CreateAH(way.AH)
	must.Do(t, err)
	must.Do(t, from.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte(text), AH: ah, RemoteQPN: way.QPN, RemoteQKey: way.QKey,
	}))
	wc, err := from.GetSendComp(soon(t))
	must.Do(t, err)
	if wc.Status != ib.WCSuccess {
		t.Fatalf("send: %v", wc.Status)
	}
	must.Do(t, ah.Destroy())
}

// TestC9_Service resolves a UD service and sends to it.
func TestC9_Service(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			a, b := network(t)
			l := b.listener(UDP, 0)
			client := a.id(UDP)
			must.Do(t, client.SetTOS(4))
			withQP(t, a.resolve(client, b.at(port)))
			if s := client.QP().State(); s != ib.RTS {
				t.Errorf("a UD QP is in %v, want RTS", s)
			}
			full := bytes.Repeat([]byte{7}, 180)
			must.Fail(t, client.Connect(&ConnParam{PrivateData: append(full, 0)}), ib.EINVAL, "Connect with 181 bytes")
			must.Do(t, client.Connect(&ConnParam{PrivateData: full}))
			e := b.take(EventConnectRequest)
			if !bytes.Equal(e.UD.PrivateData, full) || e.ID.PeerAddr() != client.LocalAddr() {
				t.Errorf("the request has %x, from %v", e.UD.PrivateData, e.ID.PeerAddr())
			}
			server := withQP(t, e.ID)
			must.Do(t, server.Accept(&ConnParam{PrivateData: []byte("yes")}))
			must.Fail(t, server.Accept(nil), ib.EINVAL, "a second Accept")
			way := a.take(EventEstablished).UD
			if way.QPN != server.QP().QPN() || way.QKey != DefaultQKey || !bytes.Equal(way.PrivateData, append([]byte("yes"), make([]byte, 133)...)) || way.AH.TrafficClass != 4 {
				t.Errorf("the service is %+v", way)
			}
			datagram(t, client, server, way, "by the address of the event")
			must.Do(t, client.Disconnect()) // does nothing
			must.Do(t, server.Disconnect())
			a.quiet("UD has no end")
			destroy(t, client, server, l)
			if n := a.conns() + b.conns(); n != 0 {
				t.Errorf("%d resolutions are left", n)
			}
		})
	}
}

// TestC9_Refused checks the status of services that are refused.
func TestC9_Refused(t *testing.T) {
	a, b := newPair(t)
	ask := func() *ID {
		client := a.resolved(UDP, b.at(port)) // without a QP: it only resolves the service
		must.Do(t, client.Connect(nil))
		return client
	}
	refused := func(what string, status mad.SIDRStatus) *Event {
		t.Helper()
		e := a.take(EventUnreachable)
		if e.Status != int(status) || !errors.Is(e.Err, ib.ECONNREFUSED) || len(e.UD.PrivateData) != 136 {
			t.Errorf("%s: status %d, %v, want %v", what, e.Status, e.Err, status)
		}
		return e
	}
	client := ask()
	refused("nobody listens", mad.SIDRUnsupportedService)
	destroy(t, client)

	l := b.listener(UDP, 0)
	client = ask()
	server := b.take(EventConnectRequest).ID
	must.Fail(t, server.Accept(nil), ib.EINVAL, "Accept without a QP")
	must.Fail(t, server.Reject(make([]byte, 137)), ib.EINVAL, "Reject with 137 bytes")
	must.Do(t, server.Reject([]byte("no")))
	if e := refused("rejected", mad.SIDRRejected); e.UD.PrivateData[0] != 'n' {
		t.Errorf("the private data is %x", e.UD.PrivateData)
	}
	must.Fail(t, server.Reject(nil), ib.EINVAL, "a second Reject")
	destroy(t, client, server)

	client = ask()
	destroy(t, b.take(EventConnectRequest).ID)
	refused("destroyed", mad.SIDRRejected)
	destroy(t, client)

	client = ask()
	server = b.take(EventConnectRequest).ID
	must.Fail(t, server.Accept(&ConnParam{QPN: 0x99, PrivateData: make([]byte, 137)}), ib.EINVAL, "Accept with 137 bytes")
	refused("a failed Accept", mad.SIDRRejected)
	destroy(t, client, server)

	client = ask()
	waitUntil(t, func() bool { return b.pending(l) == 1 })
	destroy(t, l)
	refused("the listener was destroyed", mad.SIDRRejected)
	destroy(t, client)
}

// TestC9_Losses resolves a service over IPv6 although a SIDR message is lost once, at either
// side. The server may see the request again when its answer is lost, and answers as before.
func TestC9_Losses(t *testing.T) {
	eachLoss(t, func(t *testing.T, a, b *host) {
		to := netip.AddrPortFrom(b.m.devices[0].addrs[1], port)
		l := b.id(UDP)
		must.Do(t, l.BindAddr(to))
		must.Do(t, l.Listen(0))
		client := a.id(UDP)
		shortTimeout(t, client, 15)
		withQP(t, a.resolve(client, to))
		server := accepted(t, b, client, nil)
		for a.ch.Len() == 0 {
			select {
			case <-a.ch.Ready():
			case <-b.ch.Ready():
				e, ok := b.ch.TryGet()
				if !ok {
					continue
				}
				e.Ack()
				if e.Type != EventConnectRequest || e.ID.PeerAddr() != server.PeerAddr() {
					t.Fatalf("%v from %v, want a request from %v again", e.Type, e.ID.PeerAddr(), server.PeerAddr())
				}
				must.Do(t, e.ID.Accept(&ConnParam{QPN: server.QP().QPN(), QKey: DefaultQKey}))
				destroy(t, e.ID)
			}
		}
		datagram(t, client, server, a.take(EventEstablished).UD, "to the service")
		destroy(t, client, server, l)
	}, "SIDR_REQ", "SIDR_REP")
}

// TestC9_OwnQP accepts with a QP that the program has created itself.
func TestC9_OwnQP(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(UDP, 0)
	client := a.resolved(UDP, b.at(port))
	must.Do(t, client.Connect(nil))
	server := b.take(EventConnectRequest).ID
	must.Do(t, server.Accept(&ConnParam{QPN: 0x99, QKey: 5}))
	if way := a.take(EventEstablished).UD; way.QPN != 0x99 || way.QKey != 5 {
		t.Errorf("the service is %+v", way)
	}
	destroy(t, client, server, l)
	id := a.id(UDP)
	must.Do(t, id.BindAddr(a.at(0)))
	for to, mask := range map[ib.QPState]ib.AttrMask{
		ib.INIT: ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey, ib.RTR: ib.AttrState, ib.RTS: ib.AttrState | ib.AttrSQPSN,
	} {
		attr, got, err := id.QPAttr(to)
		if err != nil || got != mask || attr.State != to {
			t.Errorf("attributes for %v: %+v, %v, %v", to, attr, got, err)
		}
	}
	must.Fail(t, id.SetAckTimeout(3), ib.EINVAL, "an ACK timeout of UD")
	must.Fail(t, id.SetQPType(ib.RC), ib.EINVAL, "RC in port space UDP")
	tcp := a.id(TCP)
	must.Fail(t, tcp.SetQPType(ib.UD), ib.EINVAL, "UD in port space TCP")
	destroy(t, tcp)
	attr := small()
	attr.Type = ib.RC
	must.Fail(t, id.CreateQP(nil, attr), ib.EINVAL, "an RC QP in port space UDP")
	destroy(t, id)
}

// TestC9_PortSpaceIB resolves a datagram service in port space IB. Listeners for
// connections do not answer.
func TestC9_PortSpaceIB(t *testing.T) {
	a, b := newPair(t)
	client := withQP(t, a.resolve(a.typed(ib.UD), b.at(port)))
	l := b.listener(IB, 0)
	must.Do(t, client.Connect(nil))
	a.take(EventUnreachable)
	destroy(t, client, l)
	l = b.listen(b.typed(ib.UD), 0)
	client = withQP(t, a.resolve(a.typed(ib.UD), b.at(port)))
	must.Do(t, client.Connect(&ConnParam{PrivateData: []byte("hello")}))
	e := b.take(EventConnectRequest)
	if string(e.UD.PrivateData[:5]) != "hello" {
		t.Errorf("the request has the private data %q", e.UD.PrivateData)
	}
	server := withQP(t, e.ID)
	must.Do(t, server.Accept(nil))
	datagram(t, client, server, a.take(EventEstablished).UD, "by the port space IB")
	destroy(t, client, server, l)
}

// TestC11_UC connects UC queue pairs, which RC listeners do not accept.
func TestC11_UC(t *testing.T) {
	a, b := newPair(t)
	client := withQP(t, a.resolve(a.typed(ib.UC), b.at(port)))
	l := b.listener(IB, 0)
	must.Do(t, client.Connect(nil))
	if e := a.take(EventRejected); e.Status != int(mad.RejConsumer) {
		t.Errorf("rejected for %v", mad.RejReason(e.Status))
	}
	destroy(t, client, l)
	l = b.listen(b.typed(ib.UC), 0)
	client = withQP(t, a.resolve(a.typed(ib.UC), b.at(port)))
	server := established(t, a, b, client)
	message(t, client, server, "unreliable")
	destroy(t, client)
	b.take(EventDisconnected)
	destroy(t, server, l)
}
