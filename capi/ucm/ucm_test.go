//go:build linux

package ucm

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// TestSizes compares the structures with those of <rdma/rdma_user_cm.h>.
func TestSizes(t *testing.T) {
	for want, c := range map[int][]any{
		8:   {header{}, resolveRoute{}, listen{}, notify{}, getEvent{}, ece{}},
		24:  {createID{}, setOption{}},
		16:  {destroyID{}, query{}, initQPAttr{}, migrateID{}},
		40:  {bindIP{}},
		136: {bind{}},
		64:  {resolveIP{}, userPath{}},
		272: {resolveAddr{}, connParam{}},
		208: {queryRouteResp{}},
		280: {queryAddrResp{}},
		80:  {queryPathResp{}},
		304: {udParam{}},
		32:  {ahAttr{}},
		288: {connect{}},
		296: {accept{}},
		264: {reject{}},
		144: {qpAttr{}},
		48:  {joinIPMcast{}},
		152: {joinMcast{}},
		336: {eventResp{}},
		4:   {disconnect{}, numberResp{}},
	} {
		for _, s := range c {
			if n := binary.Size(s); n != want {
				t.Errorf("%T has %d bytes, want %d", s, n, want)
			}
		}
	}
}

// connected has a connect to b, over queue pairs that they move themselves, and returns
// their IDs.
func connected(t *testing.T, a, b *user, qa, qb *verbs.QP) (ida, idb uint32) {
	t.Helper()
	const offers, answers = "what a offers", "what b answers"
	l := b.listening(rdmacm.TCP, 100)
	ida = a.resolved(rdmacm.TCP, 7, b.host)
	a.move(qa, ida, ib.INIT)
	c := connect{ID: ida, Param: connParam{
		QPNum: uint32(qa.QPN()), ResponderResources: 4, InitiatorDepth: 3, RetryCount: 5, RNRRetryCount: 6, Valid: 1, PrivateDataLen: uint8(len(offers)),
	}}
	copy(c.Param.PrivateData[:], offers)
	must.Do(t, a.do(6, c))

	r := b.event(rdmacm.EventConnectRequest)
	p := params[connParam](t, r)
	if r.UID != 100 || r.ID == l || string(p.PrivateData[:len(offers)]) != offers || p.ResponderResources != 3 || p.InitiatorDepth != 4 ||
		p.RetryCount != 5 || p.QPNum != uint32(qa.QPN()) {
		t.Errorf("the request is of uid %d, ID %d, with %+v", r.UID, r.ID, p)
	}
	idb = r.ID
	b.move(qb, idb, ib.INIT, ib.RTR, ib.RTS)
	d := accept{ID: idb, UID: 101, Param: connParam{
		QPNum: uint32(qb.QPN()), ResponderResources: 3, InitiatorDepth: 4, RNRRetryCount: 7, Valid: 1, PrivateDataLen: uint8(len(answers)),
	}}
	copy(d.Param.PrivateData[:], answers)
	must.Do(t, b.do(8, d))

	r = a.event(rdmacm.EventConnectResponse)
	if p = params[connParam](t, r); r.UID != 7 || r.ID != ida || string(p.PrivateData[:len(answers)]) != answers || p.QPNum != uint32(qb.QPN()) {
		t.Errorf("the response is of uid %d, ID %d, with %+v", r.UID, r.ID, p)
	}
	a.move(qa, ida, ib.RTR, ib.RTS)
	must.Do(t, a.do(8, accept{ID: ida}))
	if r = b.event(rdmacm.EventEstablished); r.UID != 101 || r.ID != idb {
		t.Errorf("uid %d, ID %d is established, want 101, %d", r.UID, r.ID, idb)
	}
	if n := b.destroy(l); n != 1 {
		t.Errorf("%d events of the listener were taken, want 1", n)
	}
	return ida, idb
}

// TestCMConnection connects queue pairs that the programs move themselves, sends over
// them and parts.
func TestCMConnection(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	qa, cqa := ha.newQP(ib.RC)
	qb, cqb := hb.newQP(ib.RC)
	ida, idb := connected(t, a, b, qa, qb)

	must.Do(t, qb.PostRecv(verbs.RecvWR{WRID: 1}))
	must.Do(t, qa.PostSend(verbs.SendWR{WRID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled}))
	for _, cq := range []*verbs.CQ{cqa, cqb} {
		wc := make([]verbs.WC, 1)
		for n := 0; n == 0; {
			var err error
			n, err = cq.Poll(wc)
			must.Do(t, err)
		}
		if wc[0].Status != ib.WCSuccess {
			t.Errorf("the message ended with %v", wc[0].Status)
		}
	}

	must.Do(t, a.do(10, disconnect{ida}))
	if r := b.event(rdmacm.EventDisconnected); r.ID != idb || r.UID != 101 {
		t.Errorf("uid %d, ID %d is disconnected, want 101, %d", r.UID, r.ID, idb)
	}
	must.Do(t, b.do(10, disconnect{idb}))
	a.event(rdmacm.EventDisconnected)
	if n := a.destroy(ida); n != 4 {
		t.Errorf("%d events of the active side were taken, want 4", n)
	}
	if n := b.destroy(idb); n != 2 {
		t.Errorf("%d events of the passive side were taken, want 2", n)
	}
	must.Do(t, qa.Destroy())
	must.Do(t, qb.Destroy())
}

// TestCMFileOfADeadProgram checks that closing the last copy of a descriptor disconnects
// the peers, and frees the program's ports.
func TestCMFileOfADeadProgram(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	qa, _ := ha.newQP(ib.RC)
	qb, _ := hb.newQP(ib.RC)
	_, idb := connected(t, a, b, qa, qb)
	l := a.create(rdmacm.TCP, 1)
	must.Do(t, a.bind(l, port))

	second, err := unix.Dup(a.fd)
	must.Do(t, err)
	must.Do(t, unix.Close(a.fd))
	other := ha.open()
	must.Fail(t, other.bind(other.create(rdmacm.TCP, 1), port), ib.EADDRINUSE, "a port of which a copy of the descriptor is open")
	a.fd = second
	a.close()
	if r := b.event(rdmacm.EventDisconnected); r.ID != idb {
		t.Errorf("ID %d is disconnected, want %d", r.ID, idb)
	}
	must.Do(t, other.bind(other.create(rdmacm.TCP, 2), port))
	must.Do(t, qa.Destroy())
	must.Do(t, qb.Destroy())
}

// TestCMPortOfAClosedFile binds to the port of a file as soon as that is closed, time and
// again: the program does not know that there is anything to wait for.
func TestCMPortOfAClosedFile(t *testing.T) {
	a, _ := newPair(t)
	for i := range 300 {
		u := a.open()
		if err := u.bind(u.create(rdmacm.TCP, 1), port); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		must.Do(t, unix.Close(u.fd))
		u.fd = -1
		defer func() { <-u.gone }()
	}
}

// TestCMAckTimeout checks that the option of a passive side, set after the request came, is
// in the attributes with which the program moves its queue pair before it accepts.
func TestCMAckTimeout(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	b.listening(rdmacm.TCP, 1)
	id := a.resolved(rdmacm.TCP, 2, hb)
	must.Do(t, a.do(6, connect{ID: id, Param: connParam{Valid: 1, QPNum: 0x123}}))
	asked := b.event(rdmacm.EventConnectRequest).ID
	timeout := func() uint8 {
		var r qpAttr
		must.Do(t, b.f.Write(command(11, initQPAttr{Response: b.at(&r), ID: asked, QPState: uint32(ib.RTS)}, int(unsafe.Sizeof(r)))))
		return r.Timeout
	}
	path := timeout()
	v := new(uint8)
	for _, code := range []uint8{path + 3, path + 1} {
		*v = code
		must.Do(t, b.do(14, setOption{Optval: b.at(v), ID: asked, Optname: optionACKTimeout, Optlen: 1}))
		if got := timeout(); got != code {
			t.Errorf("the ACK timeout is %d after the option was set to %d", got, code)
		}
	}
}

// TestCMPart checks that the end of a program ends everything for its peers: a
// connection, a request that it has not read, and a request that waits for its
// answer.
func TestCMPart(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	qa, _ := ha.newQP(ib.RC)
	qb, _ := hb.newQP(ib.RC)
	_, idb := connected(t, a, b, qa, qb)
	l := a.listening(rdmacm.TCP, 1)
	var asks []uint32
	for i := range uint64(2) {
		id := b.resolved(rdmacm.TCP, i+1, ha)
		must.Do(t, b.do(6, connect{ID: id, Param: connParam{Valid: 1, QPNum: 0x123}}))
		asks = append(asks, id)
	}
	a.event(rdmacm.EventConnectRequest)
	ha.m.Shutdown()
	heard := make(map[uint32]rdmacm.EventType)
	for range 3 {
		r := b.anyEvent()
		heard[r.ID] = rdmacm.EventType(r.Event)
	}
	if heard[idb] != rdmacm.EventDisconnected || heard[asks[0]] != rdmacm.EventRejected || heard[asks[1]] != rdmacm.EventRejected {
		t.Errorf("the peer of a program that has ended heard %v of the connection %d and the requests %v", heard, idb, asks)
	}
	if n := ha.cm.IDs(); n != 0 {
		t.Errorf("%d IDs are left of a program that has ended", n)
	}
	must.Fail(t, a.do(7, listen{ID: l}), ib.ENOENT, "an ID of a program that has ended")
	must.Do(t, qa.Destroy())
	must.Do(t, qb.Destroy())
}

// TestCMReject checks that a request is rejected for the reasons that the kernel lets a
// program give.
func TestCMReject(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	l := b.create(rdmacm.TCP, 1)
	must.Do(t, b.bind(l, port))
	must.Do(t, b.do(7, listen{l, 0}))
	for reason, told := range map[uint8]uint32{0: 28, 28: 28, 35: 35} {
		id := a.resolved(rdmacm.TCP, 2, hb)
		must.Do(t, a.do(6, connect{ID: id, Param: connParam{QPNum: 5, Valid: 1}}))
		r := b.event(rdmacm.EventConnectRequest)
		must.Fail(t, b.do(9, reject{ID: r.ID, Reason: 1}), ib.EINVAL, "a reason that is not the program's to give")
		must.Do(t, b.do(9, reject{ID: r.ID, Reason: reason, PrivateDataLen: 2, PrivateData: [256]byte{'n', 'o'}}))
		b.destroy(r.ID)
		r = a.event(rdmacm.EventRejected)
		if p := params[connParam](t, r); r.Status != told || string(p.PrivateData[:2]) != "no" {
			t.Errorf("rejected for %d with %q, want %d with no", r.Status, p.PrivateData[:2], told)
		}
		a.destroy(id)
	}
}

// TestCMDatagrams resolves a UD service, whose answer has its queue pair and
// Q_Key.
func TestCMDatagrams(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	b.listening(rdmacm.UDP, 1)
	id := a.resolved(rdmacm.UDP, 2, hb)
	must.Do(t, a.do(6, connect{ID: id, Param: connParam{Valid: 1, PrivateDataLen: 2, PrivateData: [256]byte{'h', 'i'}}}))
	r := b.event(rdmacm.EventConnectRequest)
	if p := params[udParam](t, r); string(p.PrivateData[:2]) != "hi" || p.PrivateDataLen != 180 {
		t.Errorf("the request has %d bytes: %q", p.PrivateDataLen, p.PrivateData[:2])
	}
	must.Do(t, b.do(8, accept{ID: r.ID, UID: 3, Param: connParam{QPNum: 0x1234, QKey: 0x77, Valid: 1}}))
	p := params[udParam](t, a.event(rdmacm.EventEstablished))
	if p.QPNum != 0x1234 || p.QKey != 0x77 || p.AH.IsGlobal != 1 || p.AH.DGID.Addr() != hb.addr || p.AH.Port != 1 {
		t.Errorf("the service is %+v", p)
	}
}

// TestCMGroupsInVain joins an address that is not a group, again and again, and does not
// leave it: the join numbers that are kept are bounded, and the last ones can still be left.
func TestCMGroupsInVain(t *testing.T) {
	h, _ := newPair(t)
	a := h.open()
	id := a.create(rdmacm.UDP, 7)
	must.Do(t, a.bind(id, 0))
	s, size := sockaddr(addrOf("10.0.0.2"), 0)
	var numbers []uint32
	for range 10 * maxFailed {
		var r numberResp
		must.Do(t, a.f.Write(command(22, joinMcast{Response: a.at(&r), UID: 9, ID: id, AddrSize: size, JoinFlags: joinFull, Addr: s}, 4)))
		h.kept = nil
		if e := a.event(rdmacm.EventMulticastError); e.ID != r.N || e.UID != 9 {
			t.Fatalf("the event is of %d of uid %d, not of join %d", e.ID, e.UID, r.N)
		}
		numbers = append(numbers, r.N)
	}
	if n := len(h.m.joins); n != maxFailed {
		t.Errorf("%d joins that have failed are kept, want %d", n, maxFailed)
	}
	leave := func(number uint32) error {
		var left numberResp
		err := a.f.Write(command(17, destroyID{Response: a.at(&left), ID: number}, 4))
		if err == nil && left.N != 1 {
			t.Errorf("%d events of join %d were taken, want 1", left.N, number)
		}
		return err
	}
	kept := numbers[len(numbers)-maxFailed:]
	must.Fail(t, leave(numbers[0]), ib.ENOENT, "the first join is left, long after it failed")
	for _, n := range []uint32{kept[0], kept[maxFailed/2], kept[maxFailed-1]} {
		must.Do(t, leave(n))
		must.Fail(t, leave(n), ib.ENOENT, "a join is left twice")
	}
	if n := len(h.m.joins); n != maxFailed-3 {
		t.Errorf("%d joins are kept once three have been left, want %d", n, maxFailed-3)
	}
	a.destroy(id)
	if n := len(h.m.joins); n != 0 {
		t.Errorf("%d joins are left without an ID", n)
	}
}

// TestCMGroups joins groups: the event is that of the join, and both it and the ID count
// it.
func TestCMGroups(t *testing.T) {
	ha, _ := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.UDP, 2)
	must.Do(t, a.bind(id, 0))
	g := new(numberResp)
	join := func(flags uint16) error {
		s, size := sockaddr(addrOf("239.1.2.3"), 0)
		return a.f.Write(command(22, joinMcast{Response: a.at(g), UID: 9, ID: id, AddrSize: size, JoinFlags: flags, Addr: s}, 4))
	}
	must.Fail(t, join(2), ib.EINVAL, "flags that there are not")
	must.Do(t, join(joinSendOnly))
	r := a.event(rdmacm.EventMulticastJoin)
	if p := params[udParam](t, r); r.UID != 9 || r.ID != g.N || p.AH.DGID.Addr() != addrOf("239.1.2.3") || p.QPNum != 0xffffff {
		t.Errorf("join %d of uid %d: %+v", r.ID, r.UID, p)
	}
	left := new(numberResp)
	must.Do(t, a.f.Write(command(17, destroyID{Response: a.at(left), ID: g.N}, 4)))
	must.Fail(t, a.f.Write(command(17, destroyID{Response: a.at(left), ID: g.N}, 4)), ib.ENOENT, "to leave a group twice")
	if n := a.destroy(id); left.N != 1 || n != 1 {
		t.Errorf("%d events of the join and %d of the ID were taken, want 1 and 1", left.N, n)
	}
}

// TestCMEventsThatGo checks that the descriptor tells exactly which events wait, also when an ID goes
// or moves to another file.
func TestCMEventsThatGo(t *testing.T) {
	ha, hb := newPair(t)
	a, other := ha.open(), ha.open()
	s, size := sockaddr(hb.addr, port)
	first, second := a.create(rdmacm.TCP, 1), a.create(rdmacm.TCP, 2)
	for _, id := range []uint32{first, second} {
		must.Do(t, a.do(21, resolveAddr{ID: id, DstSize: size, Dst: s}))
		must.Do(t, a.do(4, resolveRoute{id, 1}))
	}
	if n := a.waits(); n != 4 {
		t.Errorf("%d events wait, want 4", n)
	}
	if n := a.destroy(first); n != 0 || a.waits() != 2 {
		t.Errorf("%d events were taken and %d wait after the end of one of two IDs", n, a.waits())
	}
	moved := new(numberResp)
	must.Do(t, other.f.Write(command(18, migrateID{Response: a.at(moved), ID: second, FD: uint32(a.fd)}, 4)))
	if moved.N != 0 || a.waits() != 0 || other.waits() != 2 {
		t.Errorf("%d events were taken, %d and %d wait after an ID has moved", moved.N, a.waits(), other.waits())
	}
	must.Fail(t, a.do(4, resolveRoute{ID: second}), ib.EINVAL, "an ID of another file")
	other.event(rdmacm.EventAddrResolved)
	if n := other.destroy(second); n != 1 || other.waits() != 0 {
		t.Errorf("%d events were taken, %d wait", n, other.waits())
	}
	// The byte of an event that was dropped before it was read.
	third := a.create(rdmacm.TCP, 3)
	must.Do(t, a.do(21, resolveAddr{ID: third, DstSize: size, Dst: s}))
	_, err := unix.Read(a.fd, make([]byte, 1))
	must.Do(t, err)
	a.destroy(third)
	r := new(eventResp)
	must.Fail(t, a.f.Write(command(12, getEvent{a.at(r)}, int(unsafe.Sizeof(*r)))), ErrAgain, "an event that has gone")
	if n := a.waits(); n != 0 {
		t.Errorf("%d bytes are in the pipe, and no event waits", n)
	}
}

// TestCMQueries checks that both queries return the addresses of an ID.
func TestCMQueries(t *testing.T) {
	ha, hb := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	var route queryRouteResp
	ask := func() {
		must.Do(t, a.f.Write(command(5, query{Response: a.at(&route), ID: id}, int(unsafe.Sizeof(route)))))
	}
	if ask(); route.Port != 0 || route.NumPaths != 0 || route.Src != (sockaddrIn6{}) {
		t.Errorf("an ID without an address has %+v", route)
	}
	a.resolve(id, hb)
	ask()
	dst, _ := parseSockaddr(route.Dst[:])
	if route.Port != 1 || route.IBDevIndex != 1 || route.NumPaths != 1 || dst.Addr() != hb.addr || dst.Port() != port ||
		route.Route[0].DGID.Addr() != hb.addr || route.Route[0].SGID.Addr() != ha.addr || route.NodeGUID == (be64{}) {
		t.Errorf("the route is %+v", route)
	}
	var addr queryAddrResp
	must.Do(t, a.f.Write(command(19, query{Response: a.at(&addr), ID: id, Option: queryAddr}, int(unsafe.Sizeof(addr)))))
	if src, _ := parseSockaddr(addr.Src[:]); src.Addr() != ha.addr || addr.SrcSize != sizeIn4 || addr.NodeGUID != route.NodeGUID {
		t.Errorf("the addresses are %+v", addr)
	}
	must.Do(t, a.f.Write(command(19, query{Response: a.at(&addr), ID: id, Option: queryGID}, int(unsafe.Sizeof(addr)))))
	if addr.DstSize != sizeIB || ib.GID(addr.Dst[8:24]).Addr() != hb.addr {
		t.Errorf("the GIDs are %+v", addr)
	}
	var path queryPathResp
	must.Do(t, a.f.Write(command(19, query{Response: a.at(&path), ID: id, Option: queryPath}, int(unsafe.Sizeof(path)))))
	if path.NumPaths != 1 || ib.GID(path.Path[8:24]).Addr() != hb.addr {
		t.Errorf("the path is %+v", path)
	}
	must.Fail(t, a.f.Write(command(19, query{Response: a.at(&path), ID: id, Option: 3}, 512)), syscall.ENOSYS, "another query")
}

// TestCMOptions sets the options that the kernel lets a program set, with the sizes
// that the kernel requires.
func TestCMOptions(t *testing.T) {
	ha, _ := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	v := new(uint32)
	*v = 1
	for name, size := range map[uint32]uint32{optionTOS: 1, optionReuseAddr: 4, optionAFOnly: 4, optionACKTimeout: 1} {
		must.Do(t, a.do(14, setOption{Optval: a.at(v), ID: id, Optname: name, Optlen: size}))
		must.Fail(t, a.do(14, setOption{Optval: a.at(v), ID: id, Optname: name, Optlen: 5 - size}), ib.EINVAL, "a size that is another option's")
	}
	must.Fail(t, a.do(14, setOption{Optval: 8, ID: id, Optname: optionTOS, Optlen: 1}), ib.EFAULT, "an option that is nowhere")
	for _, size := range []uint32{0, 1, 4} {
		must.Fail(t, a.do(14, setOption{Optval: a.at(v), ID: id, Optname: 9, Optlen: size}), syscall.ENOSYS, "an option that there is not")
		must.Fail(t, a.do(14, setOption{Optval: a.at(v), ID: id, Level: 1, Optname: 2, Optlen: size}), syscall.ENOSYS, "an option of InfiniBand that there is not")
	}
	must.Fail(t, a.do(14, setOption{Optval: a.at(v), ID: id, Optname: optionTOS, Optlen: maxOption + 1}), ib.EINVAL, "an option without end")

	// REUSEADDR was set: another ID that has it may have the port, others not.
	must.Do(t, a.bind(id, port))
	must.Fail(t, a.bind(a.create(rdmacm.TCP, 1), port), ib.EADDRINUSE, "a port that is taken")
}

// TestCMPath gives an ID a route by a path record, which queries return afterwards.
func TestCMPath(t *testing.T) {
	ha, hb := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	good := userPath{
		DGID: ib.GIDFromAddr(hb.addr), SGID: ib.GIDFromAddr(ha.addr), HopLimit: 9, TrafficClass: 0x48, FlowLabel: [4]byte{0, 0xa, 0xbc, 0xde}, SL: 3,
		MTU: uint32(ib.MTU512), PacketLifeTime: 14,
	}
	set := func(flags, size uint32, p userPath) error {
		v := &[2]pathData{{Flags: pathFlags | 4, Path: recordOf(&userPath{})}, {Flags: flags, Path: recordOf(&p)}}
		b, err := binary.Append(nil, binary.NativeEndian, v)
		must.Do(t, err)
		return a.do(14, setOption{Optval: a.at(b), ID: id, Level: levelIB, Optname: optionPath, Optlen: size})
	}
	must.Fail(t, set(pathFlags, 144, good), ib.EINVAL, "a path of an ID without an adapter")
	s, size := sockaddr(hb.addr, port)
	must.Do(t, a.do(21, resolveAddr{ID: id, DstSize: size, Dst: s}))
	a.event(rdmacm.EventAddrResolved)
	other := good
	other.DGID = good.SGID
	wide := good
	wide.MTU = 9
	for what, err := range map[string]error{
		"no path": set(pathFlags, 0, good), "half a path": set(pathFlags, 108, good), "paths for something else": set(pathFlags, 72, good),
		"a path for one direction": set(pathGMP|pathPrimary, 144, good), "a path to elsewhere": set(pathFlags, 144, other), "an MTU that there is not": set(pathFlags, 144, wide),
	} {
		must.Fail(t, err, ib.EINVAL, what)
	}
	must.Do(t, set(pathFlags, 144, good))
	a.event(rdmacm.EventRouteResolved)
	must.Fail(t, set(pathFlags, 144, good), ib.EINVAL, "a second route")
	var r queryRouteResp
	must.Do(t, a.f.Write(command(5, query{Response: a.at(&r), ID: id}, int(unsafe.Sizeof(r)))))
	var q queryPathResp
	must.Do(t, a.f.Write(command(19, query{Response: a.at(&q), ID: id, Option: queryPath}, int(unsafe.Sizeof(q)))))
	p := r.Route[0]
	if q.Path != recordOf(&p) || q.Path.route() != (rdmacm.Route{FlowLabel: 0xabcde, TrafficClass: 0x48, HopLimit: 9, SL: 3, MTU: ib.MTU512, Lifetime: 14}) {
		t.Errorf("the path is %+v and its record %x, want those that were set", p, q.Path)
	}
	a.destroy(id)
}

// TestGarbage checks that any bytes written are refused, or executed, and do no harm.
func TestGarbage(t *testing.T) {
	ha, _ := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	for cmd := range uint32(len(commands) + 2) {
		for _, n := range []int{0, 3, 4, 8, 15, 16, 40, 64, 300} {
			in := make([]byte, n)
			for i := 0; i+4 <= n; i += 4 {
				binary.NativeEndian.PutUint32(in[i:], id)
			}
			if err := a.f.Write(command(cmd, in, 512)); err != nil && !errors.As(err, new(syscall.Errno)) {
				t.Errorf("command %d with %d bytes: error %v without a number", cmd, n, err)
			}
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 7), command(0, createID{PS: uint16(rdmacm.TCP)}, 4)[:20]} {
		must.Fail(t, a.f.Write(b), ib.EINVAL, "a command that is cut short")
	}
	must.Fail(t, a.f.Write(command(13, destroyID{}, 4)), syscall.ENOSYS, "GET_OPTION")
	ids := ha.cm.IDs()
	must.Fail(t, a.f.Write(command(0, createID{UID: 1, Response: 8, PS: uint16(rdmacm.TCP)}, 4)), ib.EFAULT, "an answer that can go nowhere")
	if n := ha.cm.IDs(); n != ids {
		t.Errorf("%d IDs after a command for an unknown ID, and %d before", n, ids)
	}
	must.Fail(t, a.f.Write(command(0, createID{UID: 1, PS: uint16(rdmacm.RD)}, 4)), ib.EINVAL, "a port space that Linux does not have")
	must.Fail(t, a.f.Write(command(0, createID{UID: 1, PS: uint16(rdmacm.TCP)}, 3)), ib.ENOSPC, "an answer without room")
	id = a.create(rdmacm.TCP, 1)
	must.Fail(t, a.do(20, bind{ID: id, AddrSize: 48, Addr: sockaddrStorage{27}}), ib.EINVAL, "an address of InfiniBand")
	must.Fail(t, a.do(20, bind{ID: id, AddrSize: 48, Addr: sockaddrStorage{27}}), ErrNoAFIB, "an address of InfiniBand")
	four, _ := sockaddr(ha.addr, port)
	must.Fail(t, a.do(20, bind{ID: id, AddrSize: sizeIn6, Addr: four}), ib.EINVAL, "an address of IPv4 with the size of IPv6")
	must.Fail(t, a.do(4, resolveRoute{ID: id}), ib.EINVAL, "a route in no time")
}
