//go:build linux

package ucm

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
)

// private returns private data with a text.
func private(text string) (b [maxPrivateData]byte) {
	copy(b[:], text)
	return b
}

// TestCMParameters compares all parameters that events have with those that the peer gave: no two
// have the same value.
func TestCMParameters(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	b.listening(rdmacm.TCP, 1)
	id := a.resolved(rdmacm.TCP, 2, hb)
	offer := connParam{
		QPNum: 0x10203, SRQ: 1, ResponderResources: 4, InitiatorDepth: 3, FlowControl: 1, RetryCount: 5, RNRRetryCount: 6, Valid: 1,
		PrivateData: private("offer"), PrivateDataLen: 5,
	}
	must.Fail(t, a.do(6, connect{ID: id, Param: connParam{QPNum: 5}}), ib.EINVAL, "a connection without parameters")
	must.Do(t, a.do(6, connect{ID: id, Param: offer}))
	r := b.event(rdmacm.EventConnectRequest)
	asked := offer
	asked.ResponderResources, asked.InitiatorDepth = offer.InitiatorDepth, offer.ResponderResources // as the passive side names them
	asked.Valid, asked.PrivateDataLen = 0, 56
	if p := params[connParam](t, r); p != asked {
		t.Errorf("the request has\n%+v, want\n%+v", p, asked)
	}
	accepted := connParam{
		QPNum: 0x40506, SRQ: 1, ResponderResources: 2, InitiatorDepth: 1, FlowControl: 1, RNRRetryCount: 7, Valid: 1,
		PrivateData: private("answer"), PrivateDataLen: 6,
	}
	must.Do(t, b.do(8, accept{ID: r.ID, UID: 3, Param: accepted}))
	answer := accepted
	answer.ResponderResources, answer.InitiatorDepth = accepted.InitiatorDepth, accepted.ResponderResources
	answer.Valid, answer.PrivateDataLen = 0, 196
	if p := params[connParam](t, a.event(rdmacm.EventConnectResponse)); p != answer {
		t.Errorf("the response has\n%+v, want\n%+v", p, answer)
	}
	plain := b.create(rdmacm.TCP, 4)
	must.Fail(t, b.do(15, notify{plain, uint32(ib.EventCommEst)}), ib.EINVAL, "an event of the queue pair of an ID without a connection")
}

// TestCMOldPrograms checks that commands without the offer of extended connection establishment
// are executed, and that answers without the index of the adapter fit.
func TestCMOldPrograms(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	b.listening(rdmacm.TCP, 1)
	id := a.resolved(rdmacm.TCP, 2, hb)
	old := func(u *user, cmd uint32, c any) error {
		in, _ := binary.Append(nil, binary.NativeEndian, c)
		return u.f.Write(command(cmd, in[:len(in)-eceSize], 0))
	}
	must.Do(t, old(a, 6, connect{ID: id, Param: connParam{QPNum: 5, Valid: 1}}))
	r := b.event(rdmacm.EventConnectRequest)
	must.Do(t, old(b, 8, accept{ID: r.ID, UID: 3, Param: connParam{QPNum: 6, Valid: 1}}))
	a.event(rdmacm.EventConnectResponse)
	must.Fail(t, old(a, 9, reject{ID: id}), ib.EINVAL, "another command that is too short by as much")

	for _, c := range []struct {
		cmd, option uint32
		size        int
	}{{5, 0, int(unsafe.Sizeof(queryRouteResp{}))}, {19, queryAddr, int(unsafe.Sizeof(queryAddrResp{}))}, {19, queryGID, int(unsafe.Sizeof(queryAddrResp{}))}} {
		whole, part := make([]byte, c.size), make([]byte, c.size)
		for i := range part {
			part[i] = guard
		}
		must.Do(t, a.f.Write(command(c.cmd, query{Response: a.at(&whole[0]), ID: id, Option: c.option}, c.size)))
		must.Do(t, a.f.Write(command(c.cmd, query{Response: a.at(&part[0]), ID: id, Option: c.option}, c.size-indexedBefore)))
		if string(part[:c.size-indexedBefore]) != string(whole[:c.size-indexedBefore]) || string(part[c.size-indexedBefore:]) != string([]byte{guard, guard, guard, guard, guard, guard, guard, guard}) {
			t.Errorf("command %d, query %d: the short answer is %x, the whole one %x", c.cmd, c.option, part, whole)
		}
		must.Fail(t, a.f.Write(command(c.cmd, query{Response: a.at(&part[0]), ID: id, Option: c.option}, c.size-indexedBefore-1)), ib.ENOSPC, "an answer without room")
	}
}

// TestCMQueriesInFull compares each byte of the queries' answers.
func TestCMQueriesInFull(t *testing.T) {
	ha, hb := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	src, size := sockaddr(ha.addr, 4000)
	dst, _ := sockaddr(hb.addr, port)
	must.Fail(t, a.do(21, resolveAddr{ID: id, SrcSize: size, DstSize: size, Src: src, Dst: dst, Reserved: 1}), ib.EINVAL, "a reserved field")
	must.Fail(t, a.do(20, bind{ID: id, AddrSize: size, Addr: src, Reserved: 1}), ib.EINVAL, "a reserved field")
	must.Do(t, a.do(21, resolveAddr{ID: id, SrcSize: size, DstSize: size, Src: src, Dst: dst}))
	a.event(rdmacm.EventAddrResolved)
	must.Do(t, a.do(4, resolveRoute{id, 1000}))
	a.event(rdmacm.EventRouteResolved)
	attr, err := ha.ctx.QueryDevice()
	must.Do(t, err)
	var guid be64
	binary.BigEndian.PutUint64(guid[:], uint64(attr.NodeGUID))
	ask := func(cmd, option uint32, r any, size int) {
		t.Helper()
		must.Do(t, a.f.Write(command(cmd, query{Response: a.at(r), ID: id, Option: option}, size)))
	}
	every := be16{0xff, 0xff}
	var r queryRouteResp
	ask(5, 0, &r, int(unsafe.Sizeof(r)))
	path := userPath{
		DGID: ib.GIDFromAddr(hb.addr), SGID: ib.GIDFromAddr(ha.addr), FlowLabel: r.Route[0].FlowLabel, Reversible: 1, MTU: uint32(ib.MTU4096), PKey: every,
		HopLimit: r.Route[0].HopLimit, NumbPath: 1, MTUSelector: 2, RateSelector: 2, Rate: 16, PacketLifeTimeSelector: 2, PacketLifeTime: r.Route[0].PacketLifeTime,
	}
	if want := (queryRouteResp{NodeGUID: guid, Route: [2]userPath{path}, Src: sockaddrIn6(src[:28]), Dst: sockaddrIn6(dst[:28]), NumPaths: 1, Port: 1, IBDevIndex: 1}); r != want {
		t.Errorf("the route is\n%+v, want\n%+v", r, want)
	}
	if path.HopLimit == 0 || path.PacketLifeTime == 0 {
		t.Errorf("the path has hop limit %d, lifetime %d", path.HopLimit, path.PacketLifeTime)
	}
	var addr queryAddrResp
	ask(19, queryAddr, &addr, int(unsafe.Sizeof(addr)))
	both := queryAddrResp{NodeGUID: guid, Port: 1, PKey: every, SrcSize: size, DstSize: size, Src: src, Dst: dst, IBDevIndex: 1}
	if addr != both {
		t.Errorf("the addresses are\n%+v, want\n%+v", addr, both)
	}
	ask(19, queryGID, &addr, int(unsafe.Sizeof(addr)))
	both.SrcSize, both.DstSize = sizeIB, sizeIB
	both.Src, both.Dst = addressIB(path.SGID, 4000), addressIB(path.DGID, port)
	if addr != both {
		t.Errorf("the GIDs are\n%+v, want\n%+v", addr, both)
	}
	var record queryPathResp
	ask(19, queryPath, &record, int(unsafe.Sizeof(record)))
	if record.NumPaths != 1 || record.Flags != 1|1<<1|1<<3|1<<5 || record.Path != recordOf(&path) {
		t.Errorf("the path is %+v", record)
	}
}

// addressIB returns an address of family AF_IB.
func addressIB(gid ib.GID, port uint16) (s sockaddrStorage) {
	binary.NativeEndian.PutUint16(s[:], unix.AF_IB)
	s[2], s[3] = 0xff, 0xff // any P_Key
	copy(s[8:], gid[:])
	binary.BigEndian.PutUint64(s[24:], uint64(mad.IPServiceID(rdmacm.TCP, port)))
	for i := range 8 {
		s[32+i] = 0xff // the mask of the service ID
	}
	return s
}

// TestCMPathRecord compares a path record with its bytes in IBA 15.2.5.16.
func TestCMPathRecord(t *testing.T) {
	p := userPath{
		DGID: ib.GID{1, 2}, SGID: ib.GID{3, 4}, FlowLabel: [4]byte{0, 0xa, 0xbc, 0xde}, HopLimit: 9, TrafficClass: 0x48, NumbPath: 5, PKey: be16{0x12, 0x34},
		SL: 3, MTU: 4, Rate: 16, PacketLifeTime: 14,
	}
	const want = "0000000000000000" + "0102000000000000" + "0000000000000000" + "0304000000000000" + "0000000000000000" + "00000000" +
		"0abcde09" + "48" + "85" + "1234" + "00" + "03" + "84" + "90" + "8e" + "00000000000000"
	b := recordOf(&p)
	if got := hex.EncodeToString(b[:]); got != want {
		t.Errorf("the record is\n%s, want\n%s", got, want)
	}
}

// TestCMAttributes compares the address vector of a connection with its path.
func TestCMAttributes(t *testing.T) {
	ha, hb := newPair(t)
	a := ha.open()
	id := a.create(rdmacm.TCP, 1)
	s, size := sockaddr(hb.addr, port)
	must.Do(t, a.do(21, resolveAddr{ID: id, DstSize: size, Dst: s}))
	a.event(rdmacm.EventAddrResolved)
	path := userPath{
		DGID: ib.GIDFromAddr(hb.addr), SGID: ib.GIDFromAddr(ha.addr), HopLimit: 9, TrafficClass: 0x48, FlowLabel: [4]byte{0, 0xa, 0xbc, 0xde}, SL: 3,
		MTU: uint32(ib.MTU512), PacketLifeTime: 14,
	}
	v, err := binary.Append(nil, binary.NativeEndian, pathData{Flags: pathFlags, Path: recordOf(&path)})
	must.Do(t, err)
	must.Do(t, a.do(14, setOption{Optval: a.at(v), ID: id, Level: levelIB, Optname: optionPath, Optlen: uint32(len(v))}))
	a.event(rdmacm.EventRouteResolved)
	b := hb.open()
	b.listening(rdmacm.TCP, 2)
	must.Do(t, a.do(6, connect{ID: id, Param: connParam{Valid: 1, QPNum: 0x123}}))
	r := b.event(rdmacm.EventConnectRequest)
	must.Do(t, b.do(8, accept{ID: r.ID, UID: 3, Param: connParam{Valid: 1, QPNum: 0x456}}))
	a.event(rdmacm.EventConnectResponse)
	var q qpAttr
	ask := func(state uint32) error {
		return a.f.Write(command(11, initQPAttr{Response: a.at(&q), ID: id, QPState: state}, int(unsafe.Sizeof(q))))
	}
	must.Do(t, ask(uint32(ib.RTR)))
	if want := (ahAttr{
		DGID: path.DGID, FlowLabel: 0xabcde, SGIDIndex: q.AH.SGIDIndex, HopLimit: 9, TrafficClass: 0x48, SL: 3, StaticRate: q.AH.StaticRate, IsGlobal: 1, Port: 1,
	}); q.AH != want {
		t.Errorf("the address vector is\n%+v, want\n%+v", q.AH, want)
	}
	if q.DestQPNum != 0x456 || q.PathMTU != uint32(ib.MTU512) {
		t.Errorf("the attributes are %+v", q)
	}
	must.Fail(t, ask(uint32(ib.ERR)+1), ib.EINVAL, "a state that there is not")
}
