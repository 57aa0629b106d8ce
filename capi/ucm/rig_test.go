//go:build linux

package ucm

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// waitMS bounds every wait for something that must come.
const waitMS = 20_000

const port = 7471

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is an adapter, and a process that connects over it.
type host struct {
	t    testing.TB
	m    *Manager
	cm   *rdmacm.Manager
	ctx  *verbs.Context
	pd   *verbs.PD
	addr netip.Addr
	kept []any
}

// newPair returns two hosts on a network in memory.
func newPair(t testing.TB) (a, b *host) {
	t.Helper()
	n := verbs.NewNetwork()
	return newHost(t, n, "10.0.0.1"), newHost(t, n, "10.0.0.2")
}

func newHost(t testing.TB, n *verbs.Network, addr string) *host {
	t.Helper()
	ctx, err := verbs.Open(verbs.Config{Network: n, Addr: addr})
	must.Do(t, err)
	cm, err := rdmacm.New(ctx)
	must.Do(t, err)
	t.Cleanup(func() {
		if n := cm.IDs(); n != 0 {
			t.Errorf("%d IDs are left when all files are closed", n)
		}
		must.Do(t, cm.Close())
		must.Do(t, ctx.Close())
	})
	pd, err := ctx.AllocPD()
	must.Do(t, err)
	m := New(cm, map[*verbs.Context]uint32{ctx: 1})
	return &host{t: t, m: m, cm: cm, ctx: ctx, pd: pd, addr: netip.MustParseAddr(addr)}
}

// user is an open file as a program has it: the end of the pipe, which can be closed.
type user struct {
	*host
	fd   int
	f    *File
	gone chan struct{}
}

// open opens a file. It is closed with the test.
func (h *host) open() *user {
	h.t.Helper()
	var ends [2]int
	must.Do(h.t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	u := &user{host: h, fd: ends[0], gone: make(chan struct{})}
	var err error
	u.f, err = h.m.Open(ends[1], func() { close(u.gone) })
	must.Do(h.t, err)
	h.t.Cleanup(u.close)
	return u
}

// close closes the program's end, and waits until what was left of the file is gone.
func (u *user) close() {
	u.t.Helper()
	if u.fd < 0 {
		return
	}
	must.Do(u.t, unix.Close(u.fd))
	u.fd = -1
	select {
	case <-u.gone:
	case <-time.After(waitMS * time.Millisecond):
		u.t.Fatal("no reader noticed that the file was closed")
	}
}

// command returns a command as a program writes it.
func command(cmd uint32, c any, room int) []byte {
	in, _ := binary.Append(nil, binary.NativeEndian, c)
	b, _ := binary.Append(nil, binary.NativeEndian, header{cmd, uint16(len(in)), uint16(room)})
	return append(b, in...)
}

// do writes a command without an answer.
func (u *user) do(cmd uint32, c any) error { return u.f.Write(command(cmd, c, 0)) }

// at returns the address of a value, as commands have it. It keeps the value on the
// heap, because a Go stack moves.
func (h *host) at(p any) uint64 {
	h.kept = append(h.kept, p)
	return uint64(reflect.ValueOf(p).Pointer())
}

// create creates an ID.
func (u *user) create(ps rdmacm.PortSpace, uid uint64) uint32 {
	u.t.Helper()
	var r numberResp
	must.Do(u.t, u.f.Write(command(0, createID{UID: uid, Response: u.at(&r), PS: uint16(ps), QPType: uint8(ib.RC)}, 4)))
	return r.N
}

// destroy destroys an ID and returns how many of its events were taken.
func (u *user) destroy(id uint32) uint32 {
	u.t.Helper()
	var r numberResp
	must.Do(u.t, u.f.Write(command(1, destroyID{Response: u.at(&r), ID: id}, 4)))
	return r.N
}

// waits returns the number of events that the descriptor shows: bytes in the
// pipe.
func (u *user) waits() (n int) {
	u.t.Helper()
	n, err := unix.IoctlGetInt(u.fd, unix.TIOCINQ)
	must.Do(u.t, err)
	return n
}

// event waits for the next event, which must be of a type.
func (u *user) event(want rdmacm.EventType) *eventResp {
	u.t.Helper()
	r := u.anyEvent()
	if rdmacm.EventType(r.Event) != want {
		u.t.Fatalf("event %v with status %d, want %v", rdmacm.EventType(r.Event), int32(r.Status), want)
	}
	return r
}

// anyEvent waits for the next event.
func (u *user) anyEvent() *eventResp {
	u.t.Helper()
	u.await()
	_, err := unix.Read(u.fd, make([]byte, 1))
	must.Do(u.t, err)
	r := new(eventResp)
	must.Do(u.t, u.f.Write(command(12, getEvent{u.at(r)}, int(unsafe.Sizeof(*r)))))
	return r
}

// await waits until an event waits, which must come.
func (u *user) await() {
	u.t.Helper()
	fds := []unix.PollFd{{Fd: int32(u.fd), Events: unix.POLLIN}}
	for n, err := 0, error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
		if n, err = unix.Poll(fds, waitMS); err == nil && n == 0 {
			u.t.Fatal("no event, where one was to come")
		}
	}
}

// params reads the parameters of an event.
func params[T any](t testing.TB, r *eventResp) (p T) {
	t.Helper()
	_, err := binary.Decode(r.Param[:], binary.NativeEndian, &p)
	must.Do(t, err)
	return p
}

// sockaddr returns an address with a port.
func sockaddr(a netip.Addr, port uint16) (s sockaddrStorage, size uint16) {
	size = putSockaddr(s[:], netip.AddrPortFrom(a, port))
	return s, size
}

// bind binds an ID to a port of the host's address.
func (u *user) bind(id uint32, port uint16) error {
	s, size := sockaddr(u.addr, port)
	return u.do(20, bind{ID: id, AddrSize: size, Addr: s})
}

// resolve brings an ID to where it may connect.
func (u *user) resolve(id uint32, to *host) {
	u.t.Helper()
	s, size := sockaddr(to.addr, port)
	must.Do(u.t, u.do(21, resolveAddr{ID: id, TimeoutMS: 1000, DstSize: size, Dst: s}))
	u.event(rdmacm.EventAddrResolved)
	must.Do(u.t, u.do(4, resolveRoute{id, 1000}))
	u.event(rdmacm.EventRouteResolved)
}

// resolved creates an ID that may connect.
func (u *user) resolved(ps rdmacm.PortSpace, uid uint64, to *host) uint32 {
	u.t.Helper()
	id := u.create(ps, uid)
	u.resolve(id, to)
	return id
}

// listening returns an ID that listens on the port of the tests.
func (u *user) listening(ps rdmacm.PortSpace, uid uint64) uint32 {
	u.t.Helper()
	l := u.create(ps, uid)
	must.Do(u.t, u.bind(l, port))
	must.Do(u.t, u.do(7, listen{l, 8}))
	return l
}

// move moves a queue pair as the ID says.
func (u *user) move(qp *verbs.QP, id uint32, to ...ib.QPState) {
	u.t.Helper()
	for _, s := range to {
		var r qpAttr
		must.Do(u.t, u.f.Write(command(11, initQPAttr{Response: u.at(&r), ID: id, QPState: uint32(s)}, int(unsafe.Sizeof(r)))))
		a := ib.QPAttr{
			State: ib.QPState(r.State), PathMTU: ib.MTU(r.PathMTU), QKey: ib.QKey(r.QKey), RQPSN: ib.NewPSN(r.RQPSN), SQPSN: ib.NewPSN(r.SQPSN),
			DestQPN: ib.QPN(r.DestQPNum), AccessFlags: ib.Access(r.AccessFlags), PKeyIndex: r.PKeyIndex, Port: r.Port,
			AV: ib.AHAttr{
				DGID: r.AH.DGID, FlowLabel: r.AH.FlowLabel, SGIDIndex: r.AH.SGIDIndex, HopLimit: r.AH.HopLimit, TrafficClass: r.AH.TrafficClass, Port: r.AH.Port,
			},
			MaxRDAtomic: r.MaxRDAtomic, MaxDestRDAtomic: r.MaxDestRDAtomic, MinRNRTimer: r.MinRNRTimer, Timeout: r.Timeout, RetryCnt: r.RetryCnt, RNRRetry: r.RNRRetry,
		}
		must.Do(u.t, qp.Modify(&a, ib.AttrMask(r.Mask)))
	}
}

// newQP returns a queue pair of the host.
func (h *host) newQP(typ ib.QPType) (*verbs.QP, *verbs.CQ) {
	h.t.Helper()
	cq, err := h.ctx.CreateCQ(16, nil)
	must.Do(h.t, err)
	qp, err := h.pd.CreateQP(&verbs.QPInitAttr{
		Type: typ, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	})
	must.Do(h.t, err)
	return qp, cq
}

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }
