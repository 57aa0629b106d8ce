//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
)

// TestCMFullPipe queues more events than the pipe has room for: the pipe is refilled when the
// program has read.
func TestCMFullPipe(t *testing.T) {
	const room, events = 6, 10
	ha, hb := newPair(t)
	a := ha.open()
	size, err := unix.FcntlInt(uintptr(a.fd), unix.F_SETPIPE_SZ, 1)
	must.Do(t, err)
	others := make([]byte, size-room)
	_, err = unix.Write(a.f.fd, others)
	must.Do(t, err)
	s, n := sockaddr(hb.addr, port)
	for i := range uint64(events) {
		must.Do(t, a.do(21, resolveAddr{ID: a.create(rdmacm.TCP, i+1), DstSize: n, Dst: s}))
	}
	if n := a.waits(); n != size {
		t.Errorf("%d bytes are in the pipe, want %d", n, size)
	}
	_, err = unix.Read(a.fd, others)
	must.Do(t, err)
	for i := range uint64(events) {
		if r := a.event(rdmacm.EventAddrResolved); r.UID != i+1 {
			t.Errorf("event %d is of uid %d", i+1, r.UID)
		}
	}
	if n := a.waits(); n != 0 {
		t.Errorf("%d bytes are in the pipe, and no event waits", n)
	}
}

// ends returns the descriptors of this process that refer to the pipe of a file.
func ends(t *testing.T, pipe string) (all []int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	for _, f := range files {
		if link, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && link == pipe {
			var fd int
			_, err := fmt.Sscan(f.Name(), &fd)
			must.Do(t, err)
			all = append(all, fd)
		}
	}
	return all
}

// TestCMPipeIsClosed checks that the end of the pipe that the file has is marked while the file is
// open, and closed with it.
func TestCMPipeIsClosed(t *testing.T) {
	h, _ := newPair(t)
	a := h.open()
	var s unix.Stat_t
	must.Do(t, unix.Fstat(a.fd, &s))
	pipe := fmt.Sprintf("pipe:[%d]", s.Ino)
	both := ends(t, pipe)
	marked := 0
	for _, fd := range both {
		if fd != a.fd && fdmark.Marked(fd) {
			marked++
		}
	}
	if len(both) != 2 || marked != 1 {
		t.Errorf("the pipe has the descriptors %v, and %d of the file's are marked, want one", both, marked)
	}
	a.close()
	if left := ends(t, pipe); len(left) != 0 {
		t.Errorf("the descriptors %v of a closed file are open", left)
	}
}

// TestCMNumbers gives out all numbers around those that IDs and joins have.
func TestCMNumbers(t *testing.T) {
	h, _ := newPair(t)
	a := h.open()
	id := a.create(rdmacm.UDP, 1)
	must.Do(t, a.bind(id, 0))
	s, size := sockaddr(addrOf("239.1.2.3"), 0)
	join := func() uint32 {
		var r numberResp
		must.Do(t, a.f.Write(command(22, joinMcast{Response: a.at(&r), UID: 9, ID: id, AddrSize: size, Addr: s}, 4)))
		a.event(rdmacm.EventMulticastJoin)
		return r.N
	}
	first := join()
	taken := map[uint32]bool{id: true, first: true}
	for _, last := range []uint32{id - 1, first - 1, ^uint32(0)} {
		for range 3 {
			h.m.mu.Lock()
			h.m.last = last
			h.m.mu.Unlock()
			for _, n := range []uint32{a.create(rdmacm.TCP, 1), join()} {
				if taken[n] {
					t.Errorf("number %d is given out twice", n)
				}
				taken[n] = true
			}
		}
	}
}

// TestCMGroupsOfOthers checks that a file can leave only its own joins, and that a join whose
// number cannot be delivered is undone.
func TestCMGroupsOfOthers(t *testing.T) {
	h, _ := newPair(t)
	a, other := h.open(), h.open()
	id := a.create(rdmacm.UDP, 1)
	must.Do(t, a.bind(id, 0))
	s, size := sockaddr(addrOf("239.1.2.3"), 0)
	var r, left numberResp
	join := joinMcast{Response: a.at(&r), UID: 9, ID: id, AddrSize: size, Addr: s}
	must.Do(t, a.f.Write(command(22, join, 4)))
	leave := destroyID{Response: a.at(&left), ID: r.N}
	must.Fail(t, other.f.Write(command(17, leave, 4)), ib.EINVAL, "a join of another file is left")
	a.event(rdmacm.EventMulticastJoin)
	must.Do(t, a.f.Write(command(17, leave, 4)))
	join.Response = 8 // the first page, which is never mapped
	const more = 70   // than an ID can have
	for range more {
		must.Fail(t, a.f.Write(command(22, join, 4)), ib.EFAULT, "a join whose number can go nowhere")
	}
	if n := len(h.m.joins); n != 0 || a.waits() != 0 {
		t.Errorf("%d joins and %d events are left of joins that were undone", n, a.waits())
	}
	must.Fail(t, a.f.Write(command(22, join, 3)), ib.ENOSPC, "a join without room for its number")
}

// TestCMIDsOfBadTypes checks that a service type that there is not leaves no ID.
func TestCMIDsOfBadTypes(t *testing.T) {
	h, _ := newPair(t)
	a := h.open()
	var r numberResp
	before := h.cm.IDs()
	must.Fail(t, a.f.Write(command(0, createID{UID: 1, Response: a.at(&r), PS: uint16(rdmacm.IB), QPType: 99}, 4)), ib.EINVAL, "a service type that there is not")
	if n := h.cm.IDs(); n != before {
		t.Errorf("%d IDs are left, and there were %d", n, before)
	}
}

// TestCMOptionsOff switches an option on and off: an ID that no longer shares its port is refused
// one that is taken.
func TestCMOptionsOff(t *testing.T) {
	h, _ := newPair(t)
	a := h.open()
	reuse := func(id, on uint32) {
		v := &on
		must.Do(t, a.do(14, setOption{Optval: a.at(v), ID: id, Optname: optionReuseAddr, Optlen: 4}))
	}
	first, second, third := a.create(rdmacm.TCP, 1), a.create(rdmacm.TCP, 2), a.create(rdmacm.TCP, 3)
	for _, id := range []uint32{first, second, third} {
		reuse(id, 1)
	}
	reuse(third, 0)
	must.Do(t, a.bind(first, port))
	must.Do(t, a.bind(second, port))
	must.Fail(t, a.bind(third, port), ib.EADDRINUSE, "a port that others share")
}

// TestCMFailedAccept checks that an ID keeps the program's number only if its accept succeeds.
func TestCMFailedAccept(t *testing.T) {
	ha, hb := newPair(t)
	a, b := ha.open(), hb.open()
	b.listening(rdmacm.TCP, 1)
	id := a.resolved(rdmacm.TCP, 2, hb)
	must.Do(t, a.do(6, connect{ID: id, Param: connParam{QPNum: 5, Valid: 1}}))
	asked := b.event(rdmacm.EventConnectRequest).ID
	must.Fail(t, b.do(8, accept{ID: asked, UID: 77, Param: connParam{Valid: 1}}), ib.EINVAL, "a request is accepted without a queue pair")
	hb.m.mu.Lock()
	uid := hb.m.ids[asked].uid
	hb.m.mu.Unlock()
	if uid != 0 {
		t.Errorf("the ID has uid %d after its accept failed", uid)
	}
	must.Do(t, b.do(8, accept{ID: asked, UID: 78, Param: connParam{QPNum: 6, Valid: 1}}))
	a.event(rdmacm.EventConnectResponse)
	must.Do(t, a.do(8, accept{ID: id}))
	if r := b.event(rdmacm.EventEstablished); r.UID != 78 {
		t.Errorf("uid %d is established, want 78", r.UID)
	}
}

// TestCMMovedCounts checks that a moved ID takes the count of its events along.
func TestCMMovedCounts(t *testing.T) {
	ha, hb := newPair(t)
	a, other := ha.open(), ha.open()
	id := a.resolved(rdmacm.TCP, 1, hb)
	var moved numberResp
	must.Do(t, other.f.Write(command(18, migrateID{Response: other.at(&moved), ID: id, FD: uint32(a.fd)}, 4)))
	if n := other.destroy(id); moved.N != 2 || n != 2 {
		t.Errorf("%d events were taken when the ID moved and %d when it was destroyed, want 2 and 2", moved.N, n)
	}
	if err := a.do(10, disconnect{id}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("an ID that is gone: %v", err)
	}
}
