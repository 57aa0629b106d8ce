//go:build linux && !portable

package udp_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// backlogOf returns the backlog of a socket on this host. It skips the test if the kernel reports none.
func backlogOf(t *testing.T, p *udp.Port, dst netip.Addr, to ib.QPN) fabric.Backlog {
	t.Helper()
	if p.Backlog(p.Caps().Addrs[0], 0) == nil {
		// Without this option the kernel reports nothing about UDP sockets.
		t.Skip("this kernel has no CONFIG_INET_UDP_DIAG")
	}
	f := p.Backlog(dst, to)
	if f == nil {
		t.Fatalf("no backlog of %v, which is on this host", dst)
	}
	return f
}

// run sends count packets of 4096 bytes to a queue pair.
func run(t *testing.T, p *udp.Port, path fabric.Path, to ib.QPN, count int) {
	t.Helper()
	b := fabric.NewBatch(1<<20, p.Caps())
	for range count {
		b.Aim(to)
		seg, _ := b.Append(&path, 4096)
		clear(seg)
		seg[5], seg[6], seg[7] = byte(to>>16), byte(to>>8), byte(to)
	}
	sendAll(t, p, b)
}

// empty receives what has arrived.
func empty(t *testing.T, p *udp.Port) {
	t.Helper()
	ds := make([]fabric.Datagram, 16)
	for {
		if n, err := p.Receive(ds); n == 0 || err != nil {
			must.Do(t, err)
			return
		}
	}
}

// TestBacklog shows that a port knows how full another port's socket is: about as full as the bytes
// sent to it, and empty after the other port has read.
func TestBacklog(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	f := backlogOf(t, a, b.Caps().Addrs[0], 0x100)
	if used, size := f(); used != 0 || size != b.Caps().RecvBuffer {
		t.Fatalf("%d bytes of %d in use, want 0 of %d", used, size, b.Caps().RecvBuffer)
	}
	run(t, a, path(a, b), 0x100, 8)
	if used, _ := f(); used < 8*4096 || used > 3*8*4096 {
		t.Errorf("%d bytes in use after 8 packets of 4096", used)
	}
	empty(t, b)
	if used, _ := f(); used != 0 {
		t.Errorf("%d bytes in use after the receiver has read all", used)
	}
	if n := testing.AllocsPerRun(100, func() { f() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	must.Do(t, b.Close())
	if used, size := f(); used != 0 || size != 0 {
		t.Errorf("%d bytes of %d in use of a closed socket", used, size)
	}
	must.Do(t, a.Close())
	if used, size := f(); used != 0 || size != 0 {
		t.Errorf("%d bytes of %d in use after the port was closed", used, size)
	}
	if a.Backlog(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) != nil {
		t.Error("a closed port tells a backlog")
	}
}

// TestBacklogElsewhere shows that an address of another host has no backlog.
func TestBacklogElsewhere(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a, err := udp.Open(udp.Config{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	must.Do(t, err)
	defer func() { _ = a.Close() }()
	for _, dst := range []string{"192.0.2.1", "2001:db8::1"} {
		if a.Backlog(netip.MustParseAddr(dst), 0) != nil {
			t.Errorf("%s is on this host", dst)
		}
	}
	here := netip.MustParseAddr("127.0.0.2")
	if f := backlogOf(t, a, here, 0); f == nil {
		t.Error("no backlog of a local address without a socket, which may come")
	} else if _, size := f(); size != 0 {
		t.Errorf("%d bytes of buffer without a socket", size)
	}
}

// TestBacklogOverIPv6 does the same as TestBacklog over the loopback address of IPv6.
func TestBacklogOverIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{netip.IPv6Loopback()}})
	must.Do(t, err)
	defer func() { _ = p.Close() }()
	f := backlogOf(t, p, netip.IPv6Loopback(), 5)
	run(t, p, path(p, p), 5, 8)
	if used, size := f(); used < 8*4096 || size != p.Caps().RecvBuffer {
		t.Errorf("%d bytes of %d in use after 8 packets of 4096", used, size)
	}
}

// TestBacklogOfASlot shows that a port finds the socket of each process that shares an address.
func TestBacklogOfASlot(t *testing.T) {
	const slots = 64
	a := open(t, udp.Config{})
	addr, fds := openGroup(t, slots)
	ports := make(map[int]*udp.Port)
	for i, fd := range fds {
		ports[i] = take(t, addr, fd, -1)
	}
	to := fabric.Path{Src: a.Caps().Addrs[0], Dst: addr, HopLimit: 64}
	for _, slot := range []int{0, 1, 2, 33, slots} {
		qpn := ib.QPN(slot<<16 | 0x100)
		f := backlogOf(t, a, addr, qpn)
		if used, size := f(); used != 0 || size == 0 {
			t.Fatalf("slot %d: %d bytes of %d in use before anything was sent", slot, used, size)
		}
		run(t, a, to, qpn, 4)
		if used, _ := f(); used < 4*4096 {
			t.Errorf("slot %d: %d bytes in use after 4 packets of 4096", slot, used)
		}
		if slot == 0 {
			empty(t, ports[udp.FirstSocket])
		} else {
			empty(t, ports[slot+udp.QP1Socket])
		}
		if used, _ := f(); used != 0 {
			t.Errorf("slot %d: %d bytes in use after its process has read all", slot, used)
		}
	}
	if a.Backlog(addr, ib.QPN((slots+1)<<16)) != nil {
		t.Error("a slot that no process can have has a backlog")
	}
}

// TestBacklogFollows shows that a port finds the socket again after its process has begun to share the
// address, and the new socket after another process has taken the address over.
func TestBacklogFollows(t *testing.T) {
	a, victim := open(t, udp.Config{}), open(t, udp.Config{})
	addr := victim.Caps().Addrs[0]
	must.Do(t, victim.Close())
	first, err := udp.OpenFirst(addr)
	must.Do(t, err)
	const qpn = 0x100
	f := backlogOf(t, a, addr, qpn)
	fds, err := udp.OpenGroup(addr, first, 16)
	must.Do(t, err)
	to := fabric.Path{Src: a.Caps().Addrs[0], Dst: addr, HopLimit: 64}
	run(t, a, to, qpn, 4)
	if used, _ := f(); used < 4*4096 {
		t.Errorf("%d bytes in use after 4 packets of 4096 to the first process of a group", used)
	}
	for _, fd := range fds {
		must.Do(t, unix.Close(fd))
	}
	b, err := udp.Open(udp.Config{Addrs: []netip.Addr{addr}, RecvBuffer: 100_000})
	must.Do(t, err)
	defer func() { _ = b.Close() }()
	if used, size := f(); used != 0 || size != 200_000 {
		t.Errorf("%d bytes of %d in use, want 0 of 200000: the new socket", used, size)
	}
}
