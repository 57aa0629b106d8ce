package rdmacm_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// check ends an example on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open returns the connection manager of an adapter on a network in memory.
// Without Network it would be on an address of the host.
func open(n *verbs.Network, addr string) *rdmacm.Manager {
	m, err := rdmacm.Open(verbs.Config{Network: n, Addr: addr})
	check(err)
	return m
}

// expect takes the next event, which must have the given type, and acknowledges it.
func expect(ch *rdmacm.EventChannel, t rdmacm.EventType) *rdmacm.Event {
	e, err := ch.Get(context.Background())
	check(err)
	e.Ack()
	if e.Type != t {
		log.Fatalf("%v, status %d", e.Type, e.Status)
	}
	return e
}

// attr returns the attributes with which the examples create queue pairs.
func attr() *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	}
}

// buffer registers memory for a receive.
func buffer(id *rdmacm.ID, n int) *verbs.MR {
	pd, err := id.PD()
	check(err)
	mr, err := pd.RegMR(make([]byte, n), ib.AccessLocalWrite)
	check(err)
	check(id.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, uint32(n))}}))
	return mr
}

// A server and a client in the style of librdmacm: events report the result of each
// call, and the program drives both sides.
func Example() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()

	events := server.NewEventChannel()
	listener, err := server.CreateID(events, rdmacm.TCP)
	check(err)
	check(listener.BindAddr(netip.MustParseAddrPort("10.0.0.1:7471")))
	check(listener.Listen(8))

	answers := client.NewEventChannel()
	id, err := client.CreateID(answers, rdmacm.TCP)
	check(err)
	check(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7471")))
	expect(answers, rdmacm.EventAddrResolved)
	check(id.ResolveRoute())
	expect(answers, rdmacm.EventRouteResolved)
	check(id.CreateQP(nil, attr()))
	check(id.Connect(&rdmacm.ConnParam{PrivateData: []byte("hello"), RetryCount: 7, RNRRetryCount: 7}))

	request := expect(events, rdmacm.EventConnectRequest)
	fmt.Printf("request from %v: %s\n", request.ID.PeerAddr().Addr(), request.Param.PrivateData[:5])
	peer := request.ID
	check(peer.CreateQP(nil, attr()))
	mr := buffer(peer, 64)
	check(peer.Accept(nil))
	expect(answers, rdmacm.EventEstablished)
	expect(events, rdmacm.EventEstablished)

	check(id.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("over RDMA")}))
	wc, err := peer.GetRecvComp(context.Background())
	check(err)
	fmt.Printf("%v: %s\n", wc.Status, mr.Bytes()[:wc.ByteLen])

	check(id.Disconnect())
	expect(events, rdmacm.EventDisconnected)
	check(peer.Disconnect())
	expect(answers, rdmacm.EventDisconnected)
	check(mr.Dereg())
	// Output:
	// request from 10.0.0.2: hello
	// SUCCESS: over RDMA
}

// The calls of synchronous IDs wait for their events.
func ExampleID_GetRequest() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()

	listener, err := server.CreateID(nil, rdmacm.TCP)
	check(err)
	check(listener.BindAddr(netip.MustParseAddrPort("10.0.0.1:7471")))
	check(listener.Listen(0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		id, err := client.CreateID(nil, rdmacm.TCP)
		check(err)
		check(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7471")))
		check(id.ResolveRoute())
		check(id.CreateQP(nil, attr()))
		check(id.Connect(nil))
		check(id.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("hello")}))
		_, err = id.GetSendComp(context.Background())
		check(err)
		check(id.Disconnect())
	}()
	id, err := listener.GetRequest(context.Background())
	check(err)
	check(id.CreateQP(nil, attr()))
	mr := buffer(id, 64)
	check(id.Accept(nil))
	wc, err := id.GetRecvComp(context.Background())
	check(err)
	fmt.Printf("%s\n", mr.Bytes()[:wc.ByteLen])
	check(id.Disconnect())
	check(mr.Dereg())
	<-done
	// Output: hello
}

// Reliable datagrams: two pairs of queue pairs are connected over one channel. Each
// request names the EE context of the channel, and the number and Q_Key of the peer's
// queue pair, which the connection has reported.
func ExampleID_Channel() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()
	listener, err := server.CreateID(nil, rdmacm.RD)
	check(err)
	check(listener.BindAddr(netip.MustParseAddrPort("10.0.0.1:7471")))
	check(listener.Listen(0))

	connect := func(over *rdmacm.Channel) *rdmacm.ID {
		id, err := client.CreateID(nil, rdmacm.RD)
		check(err)
		check(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7471")))
		check(id.ResolveRoute())
		check(id.CreateQP(nil, attr()))
		check(id.Connect(&rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7, Channel: over}))
		return id
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := connect(nil)
		second := connect(first.Channel())
		fmt.Printf("%d connections, one channel: %v\n", first.Channel().Users(), first.Channel() == second.Channel())
		for i, id := range []*rdmacm.ID{first, second} {
			peer := id.Event().Param // of ESTABLISHED
			check(id.QP().PostSend(verbs.SendWR{
				Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: fmt.Appendf(nil, "from queue pair %d", i+1),
				EEC: first.Channel().EEC(), RemoteQPN: peer.QPN, RemoteQKey: peer.QKey,
			}))
			_, err := id.GetSendComp(context.Background())
			check(err)
		}
		check(first.Disconnect())
		check(second.Disconnect())
	}()
	var ids [2]*rdmacm.ID
	var buffers [2]*verbs.MR
	for i := range ids {
		id, err := listener.GetRequest(context.Background())
		check(err)
		check(id.CreateQP(nil, attr()))
		ids[i], buffers[i] = id, buffer(id, 64)
		check(id.Accept(nil))
	}
	for i, id := range ids {
		wc, err := id.GetRecvComp(context.Background())
		check(err)
		fmt.Printf("%s\n", buffers[i].Bytes()[:wc.ByteLen])
	}
	for i, id := range ids {
		check(id.Disconnect())
		check(buffers[i].Dereg())
	}
	<-done
	// Unordered output:
	// from queue pair 1
	// from queue pair 2
	// 2 connections, one channel: true
}

// A client resolves a UD service to its queue pair, and then sends a message to it.
func ExampleID_Connect_datagrams() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1"), open(n, "10.0.0.2")
	defer server.Close()
	defer client.Close()

	events := server.NewEventChannel()
	listener, err := server.CreateID(events, rdmacm.UDP)
	check(err)
	check(listener.BindAddr(netip.MustParseAddrPort("10.0.0.1:7174")))
	check(listener.Listen(0))

	answers := client.NewEventChannel()
	id, err := client.CreateID(answers, rdmacm.UDP)
	check(err)
	check(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7174")))
	expect(answers, rdmacm.EventAddrResolved)
	check(id.ResolveRoute())
	expect(answers, rdmacm.EventRouteResolved)
	check(id.CreateQP(nil, attr()))
	check(id.Connect(nil))

	service := expect(events, rdmacm.EventConnectRequest).ID
	check(service.CreateQP(nil, attr()))
	mr := buffer(service, 128)
	check(service.Accept(nil))

	to := expect(answers, rdmacm.EventEstablished).UD
	pd, err := id.PD()
	check(err)
	ah, err := pd.CreateAH(to.AH)
	check(err)
	check(id.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("a datagram"),
		AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
	}))
	wc, err := service.GetRecvComp(context.Background())
	check(err)
	fmt.Printf("%s\n", mr.Bytes()[40:wc.ByteLen]) // after the GRH
	check(ah.Destroy())
	check(mr.Dereg())
	// Output: a datagram
}

// A message to a group reaches every queue pair that has joined the group.
func ExampleID_JoinMulticast() {
	n := verbs.NewNetwork()
	group := netip.MustParseAddrPort("239.77.0.1:0")
	join := func(addr string) (*rdmacm.Manager, *rdmacm.ID, rdmacm.UDParam) {
		m := open(n, addr)
		events := m.NewEventChannel()
		id, err := m.CreateID(events, rdmacm.UDP)
		check(err)
		check(id.ResolveAddr(netip.AddrPort{}, group))
		expect(events, rdmacm.EventAddrResolved)
		check(id.CreateQP(nil, attr()))
		check(id.JoinMulticast(group, nil))
		return m, id, expect(events, rdmacm.EventMulticastJoin).UD
	}
	one, receiver, _ := join("10.0.0.1")
	two, sender, to := join("10.0.0.2")
	defer one.Close()
	defer two.Close()
	mr := buffer(receiver, 128)

	pd, err := sender.PD()
	check(err)
	ah, err := pd.CreateAH(to.AH)
	check(err)
	check(sender.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("to all"),
		AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
	}))
	wc, err := receiver.GetRecvComp(context.Background())
	check(err)
	fmt.Printf("%s\n", mr.Bytes()[40:wc.ByteLen]) // after the GRH
	check(ah.Destroy())
	check(mr.Dereg())
	// Output: to all
}

// A connection with two paths. Both sides set the policy; the side that connected
// requests the alternate path. When the queue pair has migrated, the previous path
// becomes the alternate path.
func ExampleID_LoadAltPath() {
	n := verbs.NewNetwork()
	server, client := open(n, "10.0.0.1,10.0.1.1"), open(n, "10.0.0.2,10.0.1.2")
	defer server.Close()
	defer client.Close()

	events, answers := server.NewEventChannel(), client.NewEventChannel()
	listener, err := server.CreateID(events, rdmacm.TCP)
	check(err)
	check(listener.BindAddr(netip.MustParseAddrPort("10.0.0.1:7471")))
	check(listener.Listen(8))
	id, err := client.CreateID(answers, rdmacm.TCP)
	check(err)
	check(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7471")))
	expect(answers, rdmacm.EventAddrResolved)
	check(id.ResolveRoute())
	expect(answers, rdmacm.EventRouteResolved)
	check(id.CreateQP(nil, attr()))
	check(id.SetAltPath(rdmacm.AutoAltPath))
	check(id.Connect(nil))
	peer := expect(events, rdmacm.EventConnectRequest).ID
	check(peer.CreateQP(nil, attr()))
	check(peer.SetAltPath(rdmacm.AutoAltPath))
	check(peer.Accept(nil))
	expect(answers, rdmacm.EventEstablished)
	expect(events, rdmacm.EventEstablished)

	check(id.LoadAltPath(rdmacm.AltPath{Local: netip.MustParseAddr("10.0.1.2"), Remote: netip.MustParseAddr("10.0.1.1")}))
	loaded := expect(answers, rdmacm.EventAltPathLoaded)
	fmt.Printf("alternate path of the first: from %v to %v\n", loaded.AltPath.Local, loaded.AltPath.Remote)

	// The first message arms both sides. Then the path could fail; here the program
	// migrates.
	mr := buffer(peer, 64)
	check(id.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("armed")}))
	wc, err := peer.GetRecvComp(context.Background())
	check(err)
	fmt.Printf("received: %s\n", mr.Bytes()[:wc.ByteLen])
	_, err = id.GetSendComp(context.Background())
	check(err)
	check(id.QP().Modify(&verbs.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState))
	loaded = expect(answers, rdmacm.EventAltPathLoaded)
	fmt.Printf("alternate path of the second: from %v to %v\n", loaded.AltPath.Local, loaded.AltPath.Remote)

	// Output:
	// alternate path of the first: from 10.0.1.2 to 10.0.1.1
	// received: armed
	// alternate path of the second: from 10.0.0.2 to 10.0.0.1
}
