//go:build !portable

package udp_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// openGroup opens a group on a loopback address that no other test has.
func openGroup(t *testing.T, slots int) (netip.Addr, []int) {
	t.Helper()
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.Name(), os.Getpid())
	for salt := range uint32(64) {
		v := h.Sum32() + salt
		a := netip.AddrFrom4([4]byte{127, byte(v>>16) | 1, byte(v >> 8), byte(v)})
		first, err := udp.OpenFirst(a)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		fds, err := udp.OpenGroup(a, first, slots)
		must.Do(t, err)
		return a, fds
	}
	t.Fatal("no loopback address is free")
	return netip.Addr{}, nil
}

// take opens the port of one socket of a group.
func take(t *testing.T, a netip.Addr, fd, mail int) *udp.Port {
	t.Helper()
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}, Lease: &udp.Lease{Sockets: []int{fd}, Forwarded: mail}})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// packetTo appends a packet to a queue pair.
func packetTo(t *testing.T, b *fabric.Batch, path fabric.Path, qpn uint32) {
	t.Helper()
	b.Aim(ib.QPN(qpn))
	seg, index := b.Append(&path, 64)
	if seg == nil {
		t.Fatal("the batch is too small")
	}
	clear(seg)
	seg[5], seg[6], seg[7] = byte(qpn>>16), byte(qpn>>8), byte(qpn)
	roce.Seal(seg, prefix(&path, len(seg)).WithID(uint16(index)))
}

// TestSteering sends to queue pairs of every slot of an address: each packet reaches the process of
// its slot, packets for QP1 the socket of QP1, and packets for no slot, or too short for a slot,
// the first process. A process that dies and one that comes in its place change nothing for the
// others, as long as a process keeps the socket open.
func TestSteering(t *testing.T) {
	const slots = uint32(5)
	addr, fds := openGroup(t, int(slots))
	ports := make([]*udp.Port, len(fds))
	for i, fd := range fds {
		kept, err := unix.Dup(fd)
		must.Do(t, err)
		t.Cleanup(func() { _ = unix.Close(kept) })
		ports[i] = take(t, addr, fd, -1)
		if i == 2 { // it dies
			_ = ports[i].Close()
			again, _ := unix.Dup(kept)
			ports[i] = take(t, addr, again, -1)
		}
	}
	peer := open(t, udp.Config{})
	to := fabric.Path{Src: peer.Caps().Addrs[0], Dst: addr, HopLimit: 64}
	b := fabric.NewBatch(1<<20, peer.Caps())
	want := make([]int, len(fds))
	for round := range uint32(8) {
		for top := range uint32(256) {
			packetTo(t, b, to, top<<16|0x100+round)
			want[socketOf(top, slots)]++
			if b.Room() == 0 { // a batch has few runs
				sendAll(t, peer, b)
			}
		}
		packetTo(t, b, to, 1)
		want[udp.QP1Socket]++
		sendAll(t, peer, b)
	}
	for i, p := range ports {
		for _, g := range collect(t, p, want[i]) {
			at := int(socketOf(uint32(g.bytes[5]), slots))
			if g.bytes[5] == 0 && g.bytes[6] == 0 && g.bytes[7] == 1 {
				at = udp.QP1Socket
			}
			if at != i {
				t.Fatalf("socket %d got a packet of slot %d", i, g.bytes[5])
			}
		}
		ds := make([]fabric.Datagram, 1)
		if n, _ := p.Receive(ds); n != 0 {
			t.Errorf("socket %d got more than %d packets", i, want[i])
		}
	}
	short, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(short)
	for n := range 6 {
		must.Do(t, unix.Sendto(short, []byte{3, 3, 3, 3, 3, 3}[:n], 0, &unix.SockaddrInet4{Port: fabric.RoCEPort, Addr: addr.As4()}))
	}
	collect(t, ports[0], 5) // an empty datagram has no segment
}

// socketOf returns the place of the socket of a slot.
func socketOf(slot, slots uint32) uint32 {
	if slot == 0 || slot > slots {
		return udp.FirstSocket
	}
	return slot + udp.QP1Socket
}

// TestHandingOver has a process that is alone on an address get packets while a
// group is made around its socket. All of them come to it, and those for others
// that come afterwards to them.
func TestHandingOver(t *testing.T) {
	const slots = 64
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.Name(), os.Getpid())
	v := h.Sum32()
	addr := netip.AddrFrom4([4]byte{127, byte(v>>16) | 1, byte(v >> 8), byte(v)})
	first, err := udp.OpenFirst(addr)
	must.Do(t, err)
	lone := take(t, addr, first, -1)
	peer := open(t, udp.Config{})
	to := fabric.Path{Src: peer.Caps().Addrs[0], Dst: addr, HopLimit: 64}
	made := make(chan []int, 1)
	go func() {
		fds, err := udp.OpenGroup(addr, first, slots)
		if err != nil {
			t.Error(err)
		}
		made <- fds
	}()
	b := fabric.NewBatch(1<<16, peer.Caps())
	var fds []int
	for sent := 0; fds == nil; {
		for range 16 {
			packetTo(t, b, to, 0x1234)
			sent++
		}
		sendAll(t, peer, b)
		collect(t, lone, 16)
		select {
		case fds = <-made:
			t.Logf("%d packets came", sent)
		default:
		}
	}
	defer func() {
		for _, fd := range fds[1:] {
			_ = unix.Close(fd)
		}
	}()
	packetTo(t, b, to, slots<<16)
	packetTo(t, b, to, 0x4321)
	sendAll(t, peer, b)
	collect(t, lone, 1)
	collect(t, take(t, addr, dup(t, fds[slots+udp.QP1Socket]), -1), 1)
}

// dup returns a copy of a descriptor.
func dup(t *testing.T, fd int) int {
	t.Helper()
	again, err := unix.Dup(fd)
	must.Do(t, err)
	return again
}

// TestNobodyElseJoins shows that an address in use is given to no second
// group, also one of the same user, and that members cannot change the program.
func TestNobodyElseJoins(t *testing.T) {
	addr, fds := openGroup(t, 2)
	for _, fd := range fds {
		defer unix.Close(fd)
	}
	if _, err := udp.OpenFirst(addr); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second group: %v", err)
	}
	if _, err := udp.Open(udp.Config{Addrs: []netip.Addr{addr}}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a lone port: %v", err)
	}
	f := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	for i, fd := range fds {
		err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &f[0]})
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("socket %d replaces the program: %v", i, err)
		}
	}
	for _, slots := range []int{0, udp.MaxSlots + 1} {
		if _, err := udp.OpenGroup(addr, fds[0], slots); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
}

// TestMail shows that a port receives what another forwards as if it had come
// itself, and nothing of what cannot have been forwarded.
func TestMail(t *testing.T) {
	addr, fds := openGroup(t, 1)
	defer unix.Close(fds[udp.FirstSocket])
	first := take(t, addr, fds[udp.QP1Socket], -1)
	mail, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(mail[1])
	member := take(t, addr, fds[2], mail[0])
	peer := open(t, udp.Config{})
	b := fabric.NewBatch(1<<16, peer.Caps())
	path := fabric.Path{Src: peer.Caps().Addrs[0], Dst: addr, HopLimit: 7, TClass: 0x20}
	packetTo(t, b, path, 1)
	sendAll(t, peer, b)
	must.Do(t, first.Wait(waitLimit, true, false))
	ds := make([]fabric.Datagram, 4)
	if n, err := first.Receive(ds); n != 1 || err != nil {
		t.Fatalf("%d datagrams, %v", n, err)
	}
	buf := make([]byte, 4096)
	if n := udp.PutForwarded(buf[:udp.ForwardHeader+63], &ds[0]); n != 0 {
		t.Errorf("%d bytes where there is no room", n)
	}
	n := udp.PutForwarded(buf, &ds[0])
	for _, m := range [][]byte{buf[:0], buf[:10], buf[:udp.ForwardHeader], buf[:n]} {
		if err := unix.Sendto(mail[1], m, 0, nil); err != nil && len(m) > 0 {
			t.Fatal(err)
		}
	}
	g := collect(t, member, 1)[0]
	if got, want := g.d, ds[0]; got.Src != want.Src || got.Dst != addr || got.SrcPort != want.SrcPort || got.DstPort != fabric.RoCEPort ||
		got.TClass != 0x20 || got.HopLimit != 7 || string(g.bytes) != string(want.Bytes) {
		t.Errorf("forwarded %+v\nof        %+v", got, want)
	}
}

// TestMailAfterWait shows that a waiting process gets forwarded packets with its
// next call, and a polling one soon.
func TestMailAfterWait(t *testing.T) {
	addr, fds := openGroup(t, 1)
	defer unix.Close(fds[udp.FirstSocket])
	defer unix.Close(fds[udp.QP1Socket])
	mail, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(mail[1])
	member := take(t, addr, fds[2], mail[0])
	buf := make([]byte, 256)
	d := fabric.Datagram{Bytes: make([]byte, 64), Src: addr, Dst: addr, SrcPort: fabric.RoCEPort, DstPort: fabric.RoCEPort}
	forward := func() {
		must.Do(t, unix.Sendto(mail[1], buf[:udp.PutForwarded(buf, &d)], 0, nil))
	}
	ds := make([]fabric.Datagram, 4)
	calls := func() int {
		for i := 1; ; i++ {
			n, err := member.Receive(ds)
			if err != nil || i > 1000 {
				t.Fatalf("%d calls: %v", i, err)
			}
			if n == 1 {
				return i
			}
		}
	}
	for range 3 {
		forward()
		must.Do(t, member.Wait(waitLimit, true, false))
		if n := calls(); n != 1 {
			t.Errorf("it comes with call %d after Wait", n)
		}
	}
	forward()
	if n := calls(); n > 64 {
		t.Errorf("who polls gets it with call %d", n)
	}
}

// TestSeatIsClosed shows that a port that cannot be opened closes the sockets
// that it was given.
func TestSeatIsClosed(t *testing.T) {
	addr, fds := openGroup(t, 1)
	defer unix.Close(fds[1])
	defer unix.Close(fds[2])
	if _, err := udp.Open(udp.Config{Addrs: []netip.Addr{addr, netip.MustParseAddr("127.0.0.1")}, Lease: &udp.Lease{Sockets: fds[:1], Forwarded: -1}}); err == nil {
		t.Fatal("one socket for two addresses is enough")
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("the socket is open: %v", err)
	}
}

// TestOpenFirstAtOnce calls OpenFirst from many threads at once: one call succeeds, and the
// others report that the address is in use.
func TestOpenFirstAtOnce(t *testing.T) {
	addr, fds := openGroup(t, 1) // finds an address
	closeFiles(fds)
	for range 300 {
		var all sync.WaitGroup
		begin, got := make(chan struct{}), make(chan int, 4)
		for range cap(got) {
			all.Go(func() {
				<-begin
				fd, err := udp.OpenFirst(addr)
				if err == nil {
					got <- fd
				} else if !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		close(got)
		var won []int
		for fd := range got {
			won = append(won, fd)
		}
		closeFiles(won)
		if len(won) != 1 {
			t.Fatalf("%d of %d calls at a time have the address", len(won), cap(got))
		}
	}
}

// closeFiles closes descriptors.
func closeFiles(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
