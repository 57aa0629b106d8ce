//go:build linux && !portable

package udp_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// group4 returns group n of this process: others on the host have others.
func group4(n int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{239, byte(pid >> 8), byte(pid), byte(n)})
}

// openAt opens a port on given addresses, in a sandbox.
func openAt(t *testing.T, addrs ...string) *udp.Port {
	t.Helper()
	c := udp.Config{GSO: udp.GSOOn}
	for _, a := range addrs {
		c.Addrs = append(c.Addrs, netip.MustParseAddr(a))
	}
	p, err := udp.Open(c)
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// toGroup is the way from address number i of a port to a group.
func toGroup(from *udp.Port, i int, g netip.Addr) fabric.Path {
	return fabric.Path{Src: from.Caps().Addrs[i], Dst: g, HopLimit: 64}
}

// silent fails the test if something waits at a port. The ports of these
// tests deliver what a Send sends before it returns.
func silent(t *testing.T, p *udp.Port, why string) {
	t.Helper()
	ds := make([]fabric.Datagram, 1)
	n, err := p.Receive(ds)
	must.Do(t, err)
	if n != 0 {
		t.Errorf("%s: a datagram from %v to %v arrived", why, ds[0].Src, ds[0].Dst)
	}
}

func TestGroupReachesAllItsMembers(t *testing.T) {
	a, b, c := open(t, udp.Config{}), open(t, udp.Config{}), open(t, udp.Config{GSO: udp.GSOOff, DisableGRO: true})
	dst := group4(1)
	batch := fabric.NewBatch(1<<17, a.Caps())
	way := toGroup(a, 0, dst)
	marked := way
	marked.TClass, marked.HopLimit = 0x68, 3
	send := func() []want {
		ws := fill(t, batch, group1(way), group{path: way, size: 1040, count: 20, last: 32}, group{path: marked, size: 96, count: 1})
		sendAll(t, a, batch)
		return ws
	}
	send()
	silent(t, b, "b is no member yet")
	must.Do(t, b.Join(dst))
	must.Do(t, c.Join(dst))
	ws := send()
	for _, p := range []*udp.Port{b, c} {
		gs := collect(t, p, len(ws))
		check(t, ws, gs, ownIndex)
		if d := gs[len(gs)-1].d; d.TClass != 0x68 || d.HopLimit != 3 || gs[0].d.HopLimit != 64 {
			t.Errorf("class %#x, hop limits %d and %d", d.TClass, gs[0].d.HopLimit, d.HopLimit)
		}
		silent(t, p, "every packet came once")
	}
	silent(t, a, "the sender is no member")
	must.Do(t, a.Join(dst))
	must.Do(t, b.Leave(dst))
	ws = send()
	check(t, ws, collect(t, a, len(ws)), ownIndex)
	check(t, ws, collect(t, c, len(ws)), ownIndex)
	silent(t, b, "b has left")
	ws = fill(t, batch, group1(path(a, c)))
	sendAll(t, a, batch)
	check(t, ws, collect(t, c, 1), ownIndex)
	if n := a.Stats().SendErrors; n != 0 {
		t.Errorf("%d packets were refused", n)
	}
}

// group1 is a single packet, which needs no control message.
func group1(p fabric.Path) group { return group{path: p, size: 64, count: 1} }

// A port of several addresses of one interface gets a packet once, and only
// what was sent to groups that it joined.
func TestGroupIsHeardOnce(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a, b := openAt(t, "127.0.0.1"), openAt(t, "127.0.0.2", "127.0.0.3")
	must.Do(t, b.Join(group4(1)))
	must.Do(t, b.Join(group4(2)))
	must.Do(t, b.Join(group4(1)))
	must.Do(t, b.Leave(group4(1)))
	batch := fabric.NewBatch(1<<14, a.Caps())
	fill(t, batch, group1(toGroup(a, 0, group4(3))))
	ws := fill(t, batch, group1(toGroup(a, 0, group4(1))), group1(toGroup(a, 0, group4(2))))
	sendAll(t, a, batch)
	check(t, ws, collect(t, b, 2), ownIndex)
	silent(t, b, "each packet came once, and the first is of another group")
}

// A port that sleeps must be woken by a packet of a group, and not by one of a
// group that it left.
func TestGroupEndsAWait(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	dst := group4(1)
	batch := fabric.NewBatch(1<<12, a.Caps())
	must.Do(t, b.Join(dst))
	for _, joined := range []bool{true, false} {
		fill(t, batch, group1(toGroup(a, 0, dst)))
		sendAll(t, a, batch)
		timeout := waitLimit
		if !joined {
			timeout = 20 * time.Millisecond
		}
		begin := time.Now()
		must.Do(t, b.Wait(timeout, true, false))
		if d := time.Since(begin); joined && d > waitLimit/2 || !joined && d < timeout*3/4 {
			t.Errorf("joined %t: the wait took %v", joined, d)
		}
		if joined {
			collect(t, b, 1)
			must.Do(t, b.Leave(dst))
		}
	}
}

// Packets sent on one network must not reach ports that joined the group on
// another: no packet of a real interface may arrive on the loopback interface,
// or vice versa.
func TestGroupStaysOnItsInterface(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	lo, tap := openAt(t, "127.0.0.1"), openAt(t, "10.9.0.1")
	dst := group4(1)
	must.Do(t, lo.Join(dst))
	must.Do(t, tap.Join(dst))
	for _, c := range []struct{ from, other *udp.Port }{{lo, tap}, {tap, lo}} {
		batch := fabric.NewBatch(1<<14, c.from.Caps())
		ws := fill(t, batch, group{path: toGroup(c.from, 0, dst), size: 96, count: 5})
		sendAll(t, c.from, batch)
		check(t, ws, collect(t, c.from, len(ws)), ownIndex)
		silent(t, c.other, "another network")
	}
	must.Do(t, tap.Close())
	both := openAt(t, "127.0.0.2", "10.9.0.1", "127.0.0.3")
	must.Do(t, both.Join(dst))
	batch := fabric.NewBatch(1<<14, both.Caps())
	ws := fill(t, batch, group1(toGroup(both, 0, dst)), group1(toGroup(both, 1, dst)))
	sendAll(t, both, batch)
	seen := map[netip.Addr]int{}
	for _, g := range collect(t, both, len(ws)) {
		seen[g.d.Src]++
	}
	if seen[ws[0].path.Src] != 1 || seen[ws[1].path.Src] != 1 {
		t.Errorf("a port on both networks heard %v", seen)
	}
	silent(t, both, "each network carried one packet")
}

// Packets from the network reach the ports that joined.
func TestGroupFromTheNetwork(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tun := sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64"))
	p := openAt(t, "10.9.0.1", "fd00::1")
	for _, c := range [][2]string{{"10.9.0.7", "239.1.2.3"}, {"fd00::7", "ff0e::77:2"}} {
		way := fabric.Path{Src: netip.MustParseAddr(c[0]), Dst: netip.MustParseAddr(c[1]), SrcPort: fabric.RoCEPort, HopLimit: 5}
		ws := fill(t, fabric.NewBatch(1<<12, p.Caps()), group1(way))
		arrive := func() {
			sandbox.Arrive(t, tun, &ipudp.Header{
				Src: way.Src, Dst: way.Dst, SrcPort: way.SrcPort, DstPort: fabric.RoCEPort, HopLimit: way.HopLimit,
			}, ws[0].bytes)
		}
		arrive()
		silent(t, p, "no member yet")
		must.Do(t, p.Join(way.Dst))
		arrive()
		check(t, ws, collect(t, p, 1), zero)
		must.Do(t, p.Leave(way.Dst))
		arrive()
		silent(t, p, "no member any more")
	}
}

// Routers and switches learn of a join and of a leave from the reports of IGMP and MLD.
func TestGroupIsReported(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tun := sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64"))
	p := openAt(t, "10.9.0.1", "fd00::1")
	for _, group := range []netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff0e::77:2")} {
		must.Do(t, p.Join(group))
		reported(t, tun, group)
		must.Do(t, p.Leave(group))
		reported(t, tun, group)
		reported(t, tun, group) // the host repeats what it reports: one of these is the leave
	}
}

// reported waits until the host reports a change of a group's members.
func reported(t *testing.T, tun *os.File, group netip.Addr) {
	t.Helper()
	const ether, igmp, hopByHop = 14, 2, 0
	frame, fd := make([]byte, 1<<12), int(tun.Fd())
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, int(waitLimit.Milliseconds())); errors.Is(err, unix.EINTR) {
			continue
		} else if n != 1 {
			t.Fatalf("no report of %v within %v: %v", group, waitLimit, err)
		}
		n, err := unix.Read(fd, frame)
		must.Do(t, err)
		ip := frame[ether:n]
		isReport := ip[9] == igmp
		if group.Is6() {
			isReport = ip[6] == hopByHop // the router alert of MLD
		}
		if isReport && bytes.HasSuffix(ip, group.AsSlice()) {
			return
		}
	}
}

func TestIPv6Groups(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"), netip.MustParsePrefix("fe80::7/64"))
	a, b := openAt(t, "fd00::1", "fe80::7"), openAt(t, "fd00::2")
	for _, s := range []string{"ff0e::77:2", "ff02::77:2", "ff05::1"} {
		dst := netip.MustParseAddr(s)
		must.Do(t, a.Join(dst))
		must.Do(t, b.Join(dst))
		batch := fabric.NewBatch(1<<16, a.Caps())
		far := toGroup(a, 0, dst)
		far.HopLimit, far.TClass = 9, 0x28
		ws := fill(t, batch, group1(far), group{path: toGroup(a, 0, dst), size: 1040, count: 7}, group1(toGroup(a, 1, dst)))
		sendAll(t, a, batch)
		for _, p := range []*udp.Port{a, b} {
			gs := collect(t, p, len(ws))
			check(t, ws, gs, zero)
			if d := &gs[0].d; d.HopLimit != 9 || d.TClass != 0x28 || gs[1].d.HopLimit != 64 {
				t.Errorf("%v: hop limits %d and %d, class %#x", dst, d.HopLimit, gs[1].d.HopLimit, d.TClass)
			}
			silent(t, p, "every packet came once")
		}
		must.Do(t, b.Leave(dst))
		must.Do(t, a.Leave(dst))
	}
	if n := a.Stats().SendErrors; n != 0 {
		t.Errorf("%d packets were refused", n)
	}
}

// Linux has no route for IPv6 groups on its loopback interface. Packets sent
// there must only be counted.
func TestIPv6GroupOnLoopbackIsRefused(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	p := openAt(t, "::1")
	dst := netip.MustParseAddr("ff0e::77:2")
	must.Do(t, p.Join(dst))
	batch := fabric.NewBatch(1<<14, p.Caps())
	fill(t, batch, group1(toGroup(p, 0, dst)))
	ws := fill(t, batch, group1(path(p, p)))
	sendAll(t, p, batch)
	check(t, ws, collect(t, p, 1), zero)
	if n := p.Stats().SendErrors; n != 1 {
		t.Errorf("%d packets counted as refused, not 1", n)
	}
}

func TestJoinExplainsWhatIsWrong(t *testing.T) {
	p := open(t, udp.Config{})
	dst := group4(1)
	for _, c := range []struct {
		what string
		call func(netip.Addr) error
		addr netip.Addr
		want error
	}{
		{"join an address", p.Join, netip.MustParseAddr("10.0.0.1"), syscall.EINVAL},
		{"join nothing", p.Join, netip.Addr{}, syscall.EINVAL},
		{"join a group of the other family", p.Join, netip.MustParseAddr("ff0e::1"), syscall.EADDRNOTAVAIL},
		{"leave what was not joined", p.Leave, dst, syscall.EINVAL},
	} {
		if err := c.call(c.addr); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	must.Do(t, p.Close())
	must.Fail(t, p.Join(dst), fabric.ErrClosed, "join after close")
	must.Fail(t, p.Leave(dst), fabric.ErrClosed, "leave after close")
}

// descriptors returns how many descriptors the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

func TestGroupsAreBoundedAndLeaveNothing(t *testing.T) {
	before := descriptors(t)
	p := open(t, udp.Config{RecvBuffer: 4096})
	alone := descriptors(t)
	for i := range fabric.MaxGroups {
		must.Do(t, p.Join(group4(i)))
	}
	if err := p.Join(group4(fabric.MaxGroups)); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("one group too many: %v, want ENOMEM", err)
	}
	if n := descriptors(t) - alone; n != fabric.MaxGroups {
		t.Errorf("%d groups take %d descriptors", fabric.MaxGroups, n)
	}
	for i := range fabric.MaxGroups / 2 {
		must.Do(t, p.Leave(group4(i)))
	}
	if n := descriptors(t) - alone; n != fabric.MaxGroups/2 {
		t.Errorf("the %d groups that are left take %d descriptors", fabric.MaxGroups/2, n)
	}
	must.Do(t, p.Join(group4(1)))
	must.Do(t, p.Close())
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors are open after the port was closed, %d before it was opened", n, before)
	}
}

// A group that cannot be joined on one of two networks is joined on none, and
// leaves nothing behind. When the network is back it can be joined.
func TestFailedJoinLeavesNothing(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tun := sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	p := openAt(t, "127.0.0.1", "10.9.0.1")
	before := descriptors(t)
	must.Do(t, tun.Close()) // with it goes the interface
	for i := range 3 {
		if err := p.Join(group4(1)); err == nil {
			t.Fatal("a group was joined on an interface that is gone")
		}
		if n := descriptors(t); n != before-1 {
			t.Fatalf("after %d failed joins %d descriptors are open, want %d", i+1, n, before-1)
		}
	}
	if err := p.Leave(group4(1)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("leave a group that could not be joined: %v, want EINVAL", err)
	}
	batch := fabric.NewBatch(1<<12, p.Caps())
	fill(t, batch, group1(toGroup(p, 0, group4(1))))
	sendAll(t, p, batch)
	silent(t, p, "the port is in no group")
}

// Groups may come and go while others send, receive, wait and close.
func TestGroupsDuringTraffic(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	steady := group4(200)
	must.Do(t, b.Join(steady))
	var wg sync.WaitGroup
	var changes atomic.Int64
	wg.Go(func() {
		batch := wide(1 << 14)
		ways := []fabric.Path{path(a, b), toGroup(a, 0, steady), toGroup(a, 0, group4(1))}
		for i := 0; ; i++ {
			if seg, index := batch.Append(&ways[i%3], 96); seg != nil {
				seal(seg, &ways[i%3], index, 0)
			}
			if err := a.Send(batch); errors.Is(err, fabric.ErrClosed) {
				return
			}
		}
	})
	wg.Go(func() {
		ds := make([]fabric.Datagram, 8)
		for {
			if _, err := b.Receive(ds); errors.Is(err, fabric.ErrClosed) {
				return
			}
		}
	})
	wg.Go(func() {
		for b.Wait(-1, true, false) == nil {
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := errors.Join(b.Join(group4(i%5)), b.Leave(group4(i%5)))
				if errors.Is(err, fabric.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
				}
				changes.Add(1)
			}
		})
	}
	for changes.Load() < 500 {
		runtime.Gosched()
	}
	collectAtLeastOne(b)
	must.Do(t, errors.Join(a.Close(), b.Close()))
	wg.Wait()
}

func TestGroupAllocatesNothing(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	dst := group4(1)
	must.Do(t, b.Join(dst))
	batch := fabric.NewBatch(1<<16, a.Caps())
	ds := make([]fabric.Datagram, 16)
	p := toGroup(a, 0, dst)
	round := func() {
		for range 10 {
			batch.Append(&p, 96)
		}
		must.Do(t, a.Send(batch))
		for n := 10; n > 0; {
			k, err := b.Receive(ds)
			must.Do(t, err)
			for i := range ds[:k] {
				n -= segments(&ds[i])
			}
		}
	}
	if avg := testing.AllocsPerRun(100, round); avg != 0 {
		t.Errorf("%v allocations per round of Send and Receive", avg)
	}
}

// TestFailedJoin joins a group of which the second interface is gone: the port closes the
// socket on the first one and is in no group. It can join once the interface is back.
func TestFailedJoin(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tap := sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	both, peer := openAt(t, "127.0.0.2", "10.9.0.1"), openAt(t, "127.0.0.3")
	must.Do(t, tap.Close()) // the interface goes, too
	before := openFiles(t)
	dst := group4(1)
	for range 5 {
		if err := both.Join(dst); !errors.Is(err, unix.ENODEV) {
			t.Fatalf("a join by an interface that is gone: %v", err)
		}
	}
	if now := openFiles(t); now != before {
		t.Errorf("%d descriptors are open after failed joins, %d were before", now, before)
	}
	if err := both.Leave(dst); err == nil {
		t.Error("the port leaves a group that it failed to join")
	}
	batch := fabric.NewBatch(1<<12, peer.Caps())
	fill(t, batch, group1(toGroup(peer, 0, dst)))
	sendAll(t, peer, batch)
	silent(t, both, "the join has failed")
}

// openFiles returns how many descriptors this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}
