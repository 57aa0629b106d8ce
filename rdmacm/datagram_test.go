package rdmacm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// rdEnd is a connected ID of RD, with the objects that it needs to send.
type rdEnd struct {
	*ID
	t    testing.TB
	peer ConnParam
	mr   *verbs.MR
}

func newRDEnd(t testing.TB, id *ID, peer ConnParam) *rdEnd {
	t.Helper()
	pd, err := id.PD()
	must.Do(t, err)
	mr, err := pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	must.Do(t, err)
	must.Do(t, id.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 64)}}))
	t.Cleanup(func() { must.Do(t, mr.Dereg()) })
	return &rdEnd{id, t, peer, mr}
}

// send sends a message to another one, which must get it over the same channel.
func (e *rdEnd) send(to *rdEnd, text string) {
	e.t.Helper()
	must.Do(e.t, e.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte(text),
		EEC: e.Channel().EEC(), RemoteQPN: e.peer.QPN, RemoteQKey: e.peer.QKey,
	}))
	wc, err := e.GetSendComp(soon(e.t))
	must.Do(e.t, err)
	if wc.Status != ib.WCSuccess {
		e.t.Fatalf("send of %q: %v", text, wc.Status)
	}
	wc, err = to.GetRecvComp(soon(e.t))
	must.Do(e.t, err)
	if got := to.mr.Bytes()[:wc.ByteLen]; wc.Status != ib.WCSuccess || string(got) != text || wc.SrcQP != e.QP().QPN() || wc.EEC != to.Channel().EEC().EECN() {
		e.t.Fatalf("%q came as %q with %+v", text, got, wc)
	}
	must.Do(e.t, to.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{to.mr.SGE(0, 64)}}))
}

// connectRD2 connects IDs of a and b, with the given settings, over a channel of a if
// there is one.
func connectRD2(t testing.TB, a, b *host, over *Channel, set ...func(*ID)) (client, server *rdEnd) {
	t.Helper()
	x := withQP(t, a.resolved(RD, b.at(port)))
	for _, f := range set {
		f(x)
	}
	must.Do(t, x.Connect(&ConnParam{
		ResponderResources: AllResources, InitiatorDepth: AllResources, RetryCount: 7, RNRRetryCount: 7, Channel: over, PrivateData: []byte("hello"),
	}))
	e := b.take(EventConnectRequest)
	y := withQP(t, e.ID)
	if e.Param.QPN != x.QP().QPN() || e.Param.QKey == 0 || (e.Param.Channel != nil) != (over != nil) || !bytes.HasPrefix(e.Param.PrivateData, []byte("hello")) {
		t.Errorf("CONNECT_REQUEST says %+v", e.Param)
	}
	for _, f := range set {
		f(y)
	}
	must.Do(t, y.Accept(nil))
	answer := a.take(EventEstablished)
	if answer.Param.QPN != y.QP().QPN() || answer.Param.QKey == 0 || answer.Param.Channel != x.Channel() {
		t.Errorf("ESTABLISHED says %+v", answer.Param)
	}
	b.take(EventEstablished)
	return newRDEnd(t, x, answer.Param), newRDEnd(t, y, e.Param)
}

func wantEEC(t testing.TB, k *Channel, want ib.QPState, users int) {
	t.Helper()
	if got := k.EEC().State(); got != want || k.Users() != users {
		t.Errorf("the EE context is in %v with %d users, want %v with %d", got, k.Users(), want, users)
	}
}

// TestC14_SharedChannel connects three pairs of queue pairs over one channel, one of
// them from the other side, and ends one after the other.
func TestC14_SharedChannel(t *testing.T) {
	a, b := newPair(t)
	la, lb := a.listener(RD, 0), b.listener(RD, 0)
	a1, b1 := connectRD2(t, a, b, nil)
	a2, b2 := connectRD2(t, a, b, a1.Channel())
	b3, a3 := connectRD2(t, b, a, b2.Channel())
	k, far := a1.Channel(), b1.Channel()
	for _, e := range []*rdEnd{a2, a3} {
		if e.Channel() != k {
			t.Error("an ID that joins has another channel")
		}
	}
	if k.EEC() == nil || b2.Channel() != far || b3.Channel() != far {
		t.Error("the peer's IDs have different channels")
	}
	wantEEC(t, k, ib.RTS, 3)
	wantEEC(t, far, ib.RTS, 3)
	for _, p := range [][2]*rdEnd{{a1, b1}, {b2, a2}, {a3, b3}, {b1, a1}} {
		p[0].send(p[1], "over one channel")
	}

	part(t, a, a1.ID, b, b1.ID)
	wantEEC(t, k, ib.RTS, 2)
	a2.send(b2, "the others go on")
	destroy(t, a1.ID, b1.ID)
	b3.send(a3, "and on")
	destroy(t, a2.ID)
	b.take(EventDisconnected)
	wantEEC(t, far, ib.RTS, 1)
	must.Do(t, b3.Disconnect())
	a.take(EventDisconnected)
	wantEEC(t, k, ib.ERR, 0)
	wantEEC(t, far, ib.ERR, 0)
	must.Do(t, a3.Disconnect())
	b.take(EventDisconnected)

	x := withQP(t, a.resolved(RD, b.at(port)))
	must.Fail(t, x.Connect(&ConnParam{Channel: k}), ib.ENOTCONN, "connect over a channel that has ended")
	destroy(t, a3.ID, b2.ID, b3.ID)
	if k.EEC().State() != ib.RESET {
		t.Error("the EE context outlives the last ID")
	}
	must.Fail(t, x.Connect(&ConnParam{Channel: k}), ib.ENOTCONN, "connect over a channel that is gone")
	must.Do(t, x.Connect(nil))
	request := b.take(EventConnectRequest)
	must.Do(t, request.ID.RejectWith(mad.RejNoEEC, nil))
	if e := a.take(EventRejected); e.Status != int(mad.RejNoEEC) {
		t.Errorf("REJECTED with %d", e.Status)
	}
	destroy(t, x, request.ID, la, lb)
}

// TestC14_V15_ChannelMigrates loads an alternate path by one of two connections over a
// channel, and cuts the first path: the messages of both continue over the alternate
// path, and both end there.
func TestC14_V15_ChannelMigrates(t *testing.T) {
	n := verbs.NewNetwork()
	a := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1,10.0.1.1", Faults: verbs.Faults{Rules: "drop path=primary nth=60 every=1", Seed: 1}})
	b := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2,10.0.1.2"})
	l := b.listener(RD, 0)
	set := func(id *ID) {
		must.Do(t, id.SetAckTimeout(14))
		must.Do(t, id.SetAltPath(AutoAltPath))
	}
	a1, b1 := connectRD2(t, a, b, nil, set)
	a2, b2 := connectRD2(t, a, b, a1.Channel(), set)
	must.Do(t, a2.LoadAltPath(AltPath{a.m.devices[0].addrs[1], b.m.devices[0].addrs[1]}))
	a.take(EventAltPathLoaded)
	b.take(EventAltPathLoaded)
	for range 40 {
		a1.send(b1, "from one")
		b2.send(a2, "and the other")
	}
	for who, h := range map[string]*host{"client": a, "server": b} {
		e, err := h.m.Devices()[0].GetAsyncEvent(soon(t))
		if err != nil || e.Type != ib.EventEECPathMig {
			t.Fatalf("the %s has the event %v, %v", who, e, err)
		}
		e.Ack()
	}
	for _, p := range [][2]*rdEnd{{a1, b1}, {a2, b2}} {
		must.Do(t, p[0].Disconnect())
		b.take(EventDisconnected)
		must.Do(t, p[1].Disconnect())
		if e := a.take(EventDisconnected); e.Status != 0 {
			t.Errorf("disconnected with %v", e.Err)
		}
	}
	destroy(t, a1.ID, a2.ID, b1.ID, b2.ID, l)
}

// TestC14_OverUDP connects over UDP sockets.
func TestC14_OverUDP(t *testing.T) {
	a, b := newUDPPair(t)
	l := b.listener(RD, 0)
	a1, b1 := connectRD2(t, a, b, nil)
	a2, b2 := connectRD2(t, a, b, a1.Channel())
	a1.send(b1, "one")
	b2.send(a2, "two")
	a2.send(b2, "three")
	destroy(t, a1.ID, a2.ID, b1.ID, b2.ID, l)
}

// TestC14_NobodyTakesRD connects to a peer without RD, such as Linux: the peer rejects
// the request, and the error says what to do.
func TestC14_NobodyTakesRD(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	x := withQP(t, a.resolved(RD, b.at(port)))
	must.Do(t, x.Connect(nil))
	e := a.take(EventRejected)
	var reject *RejectError
	if !errors.As(e.Err, &reject) || reject.Reason != mad.RejInvalidServiceID || !strings.Contains(e.Err.Error(), "port space TCP") {
		t.Errorf("REJECTED: %v", e.Err)
	}
	destroy(t, x, l)

	y := withQP(t, a.resolved(TCP, b.at(port+1)))
	must.Do(t, y.Connect(nil))
	if e := a.take(EventRejected); strings.Contains(e.Err.Error(), "datagrams") {
		t.Errorf("of RC: %v", e.Err)
	}
	destroy(t, y)
}

// TestC14_NoEEC creates no EE context: the passive side rejects with that reason, and the
// active side sends no request.
func TestC14_NoEEC(t *testing.T) {
	n := verbs.NewNetwork()
	a := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1", Faults: verbs.Faults{Rules: "fail op=CreateEEC errno=ENOMEM count=1", Seed: 1}})
	b := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2", Faults: verbs.Faults{Rules: "fail op=CreateEEC errno=ENOMEM count=1", Seed: 1}})
	l := b.listener(RD, 0)
	x := withQP(t, a.resolved(RD, b.at(port)))
	must.Fail(t, x.Connect(nil), ib.ENOMEM, "connect without an EE context")
	if x.Channel() != nil {
		t.Error("an ID that could not connect has a channel")
	}
	must.Do(t, x.Connect(nil))
	y := withQP(t, b.take(EventConnectRequest).ID)
	must.Fail(t, y.Accept(nil), ib.ENOMEM, "accept without an EE context")
	if e := a.take(EventRejected); e.Status != int(mad.RejNoEEC) {
		t.Errorf("REJECTED with %d, want %d", e.Status, mad.RejNoEEC)
	}
	must.Fail(t, y.Accept(nil), ib.EINVAL, "accept of a request that was rejected")
	destroy(t, x, y, l)
}

// TestC14_Misuse checks that invalid calls fail and change nothing.
func TestC14_Misuse(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(RD, 0)
	a1, b1 := connectRD2(t, a, b, nil)
	x := a.resolved(RD, b.at(port))
	rdd, err := a.m.devices[0].ctx.AllocRDD()
	must.Do(t, err)
	attr := small()
	attr.RDD = rdd
	must.Fail(t, x.CreateQP(nil, attr), ib.EINVAL, "a queue pair of another domain")
	must.Do(t, rdd.Dealloc())
	must.Fail(t, x.Connect(nil), ib.EINVAL, "connect without a queue pair")
	if x.Channel() != nil {
		t.Error("an ID that could not connect has a channel")
	}
	withQP(t, x)
	must.Fail(t, x.Connect(&ConnParam{Channel: b1.Channel()}), ib.EINVAL, "a channel of another adapter")
	_, _, err = a1.QPAttr(ib.RTR)
	must.Fail(t, err, ib.EINVAL, "attributes of an RD queue pair")
	must.Fail(t, x.SetQPType(ib.RC), ib.EINVAL, "RC in the space of RD")
	must.Fail(t, x.Accept(nil), ib.EINVAL, "accept of nothing")
	must.Do(t, x.Connect(nil))
	y := withQP(t, a.resolved(RD, b.at(port)))
	must.Fail(t, y.Connect(&ConnParam{Channel: x.Channel()}), ib.ENOTCONN, "a channel that is not up yet")
	request := b.take(EventConnectRequest).ID
	must.Do(t, request.Reject(nil))
	a.take(EventRejected)
	idle := a.id(RD)
	if _, err := idle.RDD(); !errors.Is(err, ib.EINVAL) {
		t.Errorf("domain of an ID without an adapter: %v", err)
	}
	must.Fail(t, idle.Connect(nil), ib.EINVAL, "connect of an ID that knows no route")
	a1.send(b1, "still up")
	destroy(t, x, y, idle, request, a1.ID, b1.ID, l)
}

// TestC14_ChannelFails checks that neither side can join a channel whose EE context has
// failed or was destroyed by the program.
func TestC14_ChannelFails(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(RD, 0)
	a1, b1 := connectRD2(t, a, b, nil)
	must.Do(t, b1.Channel().EEC().Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState))
	x := withQP(t, a.resolved(RD, b.at(port)))
	must.Do(t, x.Connect(&ConnParam{Channel: a1.Channel()}))
	if e := a.take(EventRejected); e.Status != int(mad.RejRDCNotExist) || !strings.Contains(e.Err.Error(), "new one") {
		t.Errorf("REJECTED with %d: %v", e.Status, e.Err)
	}
	must.Do(t, a1.Channel().EEC().Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState))
	y := withQP(t, a.resolved(RD, b.at(port)))
	must.Fail(t, y.Connect(&ConnParam{Channel: a1.Channel()}), ib.ENOTCONN, "connect over a channel that has failed")

	must.Do(t, a1.Channel().EEC().Destroy())
	must.Fail(t, y.Connect(&ConnParam{Channel: a1.Channel()}), ib.ENOTCONN, "connect over a channel whose EE context is destroyed")
	must.Do(t, y.Connect(nil))
	request := b.take(EventConnectRequest).ID
	must.Do(t, y.Channel().EEC().Destroy())
	must.Do(t, withQP(t, request).Accept(nil))
	a.take(EventConnectError)
	b.take(EventRejected)
	destroy(t, x, y, request, a1.ID, b1.ID, l)
}

// TestC14_OwnQueuePair checks that an RD queue pair of the program serves any number of
// connections, on both sides.
func TestC14_OwnQueuePair(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(RD, 0)
	own := func(h *host, id *ID, key ib.QKey) *verbs.QP {
		pd, err := id.PD()
		must.Do(t, err)
		rdd, err := id.RDD()
		must.Do(t, err)
		cq, err := h.m.devices[0].ctx.CreateCQ(8, nil)
		must.Do(t, err)
		attr := small()
		attr.Type, attr.RDD, attr.SendCQ, attr.RecvCQ = ib.RD, rdd, cq, cq
		q, err := pd.CreateQP(attr)
		must.Do(t, err)
		must.Do(t, q.ModifyToRTS(verbs.QPAttr{Port: 1, QKey: key}))
		t.Cleanup(func() { must.Do(t, q.Destroy()); must.Do(t, cq.Destroy()) })
		return q
	}
	x := a.resolved(RD, b.at(port))
	qa := own(a, x, 0x111)
	param := func(q *verbs.QP, key ib.QKey, k *Channel) *ConnParam {
		return &ConnParam{QPN: q.QPN(), QKey: key, RetryCount: 7, RNRRetryCount: 7, Channel: k}
	}
	must.Do(t, x.Connect(param(qa, 0x111, nil)))
	e := b.take(EventConnectRequest)
	qb := own(b, e.ID, 0x222)
	if e.Param.QPN != qa.QPN() || e.Param.QKey != 0x111 {
		t.Errorf("CONNECT_REQUEST says %+v", e.Param)
	}
	must.Do(t, e.ID.Accept(param(qb, 0x222, nil)))
	if r := a.take(EventEstablished); r.Param.QPN != qb.QPN() || r.Param.QKey != 0x222 {
		t.Errorf("ESTABLISHED says %+v", r.Param)
	}
	b.take(EventEstablished)
	y := a.resolved(RD, b.at(port))
	must.Do(t, y.Connect(param(qa, 0x111, x.Channel())))
	second := b.take(EventConnectRequest).ID
	must.Do(t, second.Accept(param(qb, 0x222, nil)))
	a.take(EventEstablished)
	b.take(EventEstablished)
	destroy(t, x)
	b.take(EventDisconnected)
	destroy(t, e.ID)
	wantEEC(t, y.Channel(), ib.RTS, 1)
	destroy(t, y, second, l)
}
