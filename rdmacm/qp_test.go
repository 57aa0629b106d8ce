package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// TestC11_CreateQP checks that queue pairs that do not fit the ID are refused.
func TestC11_CreateQP(t *testing.T) {
	a, b := newPair(t)
	id := a.resolved(TCP, b.at(port))
	foreign, err := b.m.devices[0].defaultPD()
	must.Do(t, err)
	must.Fail(t, id.CreateQP(foreign, small()), ib.EINVAL, "a protection domain of another adapter")
	must.Fail(t, id.CreateQP(nil, nil), ib.EINVAL, "no attributes")
	ud := small()
	ud.Type = ib.UD
	must.Fail(t, id.CreateQP(nil, ud), ib.EINVAL, "another service")
	big := small()
	big.Cap.MaxSendSGE = 1 << 20
	must.Fail(t, id.CreateQP(nil, big), verbs.ErrTooManySGEs, "more than the adapter has")

	attr := small()
	must.Do(t, id.CreateQP(nil, attr))
	if attr.Cap.MaxSendWR < 8 || id.SendCQ() == nil || id.RecvCQ() == nil || id.SendCQ() == id.RecvCQ() {
		t.Errorf("the queue pair has %+v, and the CQs %p and %p", attr.Cap, id.SendCQ(), id.RecvCQ())
	}
	must.Fail(t, id.CreateQP(nil, small()), ib.EINVAL, "a second queue pair")
	must.Do(t, id.DestroyQP())
	must.Fail(t, id.DestroyQP(), ib.EINVAL, "a second DestroyQP")
	if id.QP() != nil || id.SendCQ() != nil || id.RecvCQ() != nil {
		t.Error("a destroyed QP is still returned")
	}
	withQP(t, id)
	must.Do(t, id.QP().Destroy()) // without DestroyQP
	must.Fail(t, id.Connect(nil), ib.EINVAL, "Connect with a queue pair that is destroyed")
	destroy(t, id)
}

// TestC11_ReadyAfterDestroyQP shows that Ready has an element after the queue pair was destroyed by
// its own Destroy, and again after DestroyQP.
func TestC11_ReadyAfterDestroyQP(t *testing.T) {
	a, b := newPair(t)
	id := withQP(t, a.resolved(TCP, b.at(port)))
	for _, end := range []func() error{id.QP().Destroy, id.DestroyQP} {
		for len(a.ch.Ready()) > 0 {
			<-a.ch.Ready()
		}
		must.Do(t, end())
		if len(a.ch.Ready()) == 0 {
			t.Errorf("the channel is not ready; the ID's queue pair is %v", id.QP())
		}
	}
	destroy(t, id)
}

// TestC11_Completions ends waits for completions.
func TestC11_Completions(t *testing.T) {
	a, b := newPair(t)
	id := a.resolved(TCP, b.at(port))
	_, err := id.GetSendComp(soon(t))
	must.Fail(t, err, ib.EINVAL, "a completion without a queue pair")
	_, err = id.GetRecvComp(soon(t))
	must.Fail(t, err, ib.EINVAL, "a completion without a queue pair")
	withQP(t, id)
	if n := testing.AllocsPerRun(10, func() { _ = id.QP() }); n != 0 {
		t.Errorf("QP allocates %v objects", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	wait := func(ctx context.Context) {
		_, err := id.GetRecvComp(ctx)
		got <- err
	}
	go wait(ctx)
	cancel()
	must.Fail(t, <-got, context.Canceled, "a completion with a context that ends")
	go wait(soon(t))
	must.Do(t, id.QP().Destroy())
	must.Fail(t, <-got, ib.EINVAL, "a completion of a queue pair that the verb destroyed")
	must.Do(t, id.DestroyQP())
	withQP(t, id)
	go wait(soon(t))
	must.Do(t, id.DestroyQP())
	must.Fail(t, <-got, ib.EINVAL, "a completion of a queue pair that is destroyed")

	cq, err := id.Device().CreateCQ(16, nil)
	must.Do(t, err)
	attr := small()
	attr.SendCQ, attr.RecvCQ = cq, cq
	must.Do(t, id.CreateQP(nil, attr))
	_, err = id.GetSendComp(soon(t))
	must.Fail(t, err, ib.EINVAL, "a completion of the program's own queue")
	destroy(t, id)
	must.Do(t, cq.Destroy())
}

// TestC11_Resources checks that more resources than the adapter has are refused, in port
// space TCP.
func TestC11_Resources(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Fail(t, client.Connect(&ConnParam{ResponderResources: 200}), ib.EINVAL, "200 READs to serve")
	must.Fail(t, client.Connect(&ConnParam{InitiatorDepth: 200}), ib.EINVAL, "200 READs outstanding")
	must.Do(t, client.Connect(&ConnParam{InitiatorDepth: AllResources}))
	e := b.take(EventConnectRequest)
	if e.Param.ResponderResources != 128 || e.Param.InitiatorDepth != 0 {
		t.Errorf("the request says %+v", e.Param)
	}
	server := withQP(t, e.ID)
	must.Fail(t, server.Accept(&ConnParam{ResponderResources: 200}), ib.EINVAL, "200 READs to serve")
	must.Do(t, server.Accept(nil)) // the request is still pending
	a.take(EventEstablished)
	destroy(t, client, server, l)

	id := a.id(TCP)
	must.Fail(t, id.SetAckTimeout(32), ib.EINVAL, "an ACK timeout of 6 bits")
	must.Fail(t, id.SetResponseTimeout(32, 1), ib.EINVAL, "a response timeout of 6 bits")
	must.Fail(t, id.SetResponseTimeout(1, 16), ib.EINVAL, "16 repetitions")
	destroy(t, id)
}

// TestC11_FaultsOfObjects makes the verbs of an ID's own objects fail.
func TestC11_FaultsOfObjects(t *testing.T) {
	t.Run("destroy", func(t *testing.T) {
		a, b := newFaultyPair(t, "fail errno=EIO nth=1 op=DestroyQP")
		l := connect2(t, a, b)
		must.Fail(t, l.client.Destroy(), ib.EIO, "Destroy")
		message(t, l.client, l.server, "nothing has changed")
		destroy(t, l.client, l.server, l.listener)
	})
	t.Run("destroy, CQ", func(t *testing.T) {
		a, b := newFaultyPair(t, "fail errno=EIO nth=1 op=DestroyCQ")
		client := withQP(t, a.resolved(TCP, b.at(port)))
		must.Fail(t, client.Destroy(), ib.EIO, "Destroy")
		destroy(t, client)
	})
	t.Run("UD", func(t *testing.T) {
		a, _ := newFaultyPair(t, "fail errno=EINVAL nth=2 op=ModifyQP")
		id := a.id(UDP)
		must.Do(t, id.BindAddr(a.at(0)))
		must.Fail(t, id.CreateQP(nil, small()), ib.EINVAL, "CreateQP")
		withQP(t, id)
		destroy(t, id)
	})
	t.Run("multicast", func(t *testing.T) {
		a, _ := newFaultyPair(t, "fail errno=ENOMEM nth=1 op=AttachMcast")
		id := a.id(UDP)
		must.Do(t, id.BindAddr(a.at(0)))
		withQP(t, id)
		group := netip.MustParseAddrPort("239.77.0.1:0")
		must.Do(t, id.JoinMulticast(group, nil))
		if e := a.take(EventMulticastError); e.Status != -1 || !errors.Is(e.Err, ib.ENOMEM) {
			t.Errorf("MULTICAST_ERROR has status %d, %v", e.Status, e.Err)
		}
		destroy(t, id)
	})
}
