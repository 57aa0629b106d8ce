//go:build linux

package raw_test

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/raw"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// silent fails the test if something waits at a port. Interfaces of the host
// deliver what a Send sends before it returns.
func silent(t *testing.T, p fabric.Port, why string) {
	t.Helper()
	ds := make([]fabric.Datagram, 1)
	n, err := p.Receive(ds)
	must.Do(t, err)
	if n != 0 {
		t.Errorf("%s: a datagram from %v to %v arrived", why, ds[0].Src, ds[0].Dst)
	}
}

// toGroup is the way from address number i of a port to a group.
func toGroup(p fabric.Port, i int, group netip.Addr) fabric.Path {
	return fabric.Path{Src: p.Caps().Addrs[i], Dst: group, SrcPort: 0xC123, TClass: 0x28, HopLimit: 5}
}

// The loopback interface shows what is sent as arriving, others only as
// leaving: a port must hear both once, whatever kind of port sent it.
func TestGroupReachesAllItsMembers(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("fd00::2/64"))
	for _, c := range []struct{ a, b, u, group string }{
		{"127.0.0.1", "127.0.0.2", "127.0.0.3", "239.1.2.3"},
		{"fd00::1", "10.9.0.1", "fd00::2", "ff0e::77:2"},
		{"fd00::1", "10.9.0.1", "fd00::2", "ff02::77:2"},
	} {
		a, b, u := openRaw(t, c.a), openRaw(t, c.b), openUDP(t, c.u)
		group := netip.MustParseAddr(c.group)
		ports := []fabric.Port{a, u}
		if a.Caps().Addrs[0].Is4() == b.Caps().Addrs[0].Is4() {
			ports = append(ports, b)
		}
		for _, from := range []fabric.Port{a, u} {
			p := toGroup(from, 0, group)
			if from == u {
				p.SrcPort = fabric.RoCEPort
			}
			stray, _ := runs(t, p, [2]int{96, 3})
			must.Do(t, from.Send(stray))
			for _, to := range ports {
				silent(t, to, "nobody is a member")
			}
			for _, to := range ports {
				must.Do(t, to.Join(group))
			}
			batch, segs := runs(t, p, [2]int{96, 3}, [2]int{64, 1})
			must.Do(t, from.Send(batch))
			for _, to := range ports {
				gs := transfer(t, to, to, batch, len(segs))
				if to != u { // which does not see identifications
					check(t, p, segs, gs)
				}
				silent(t, to, "every packet came once")
				must.Do(t, to.Leave(group))
			}
		}
		silent(t, b, "no member")
		must.Do(t, errors.Join(a.Close(), b.Close(), u.Close()))
	}
}

func TestGroupStaysOnItsInterface(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	lo, tap := openRaw(t, "127.0.0.1"), openRaw(t, "10.9.0.1")
	group := netip.MustParseAddr("239.1.2.3")
	must.Do(t, errors.Join(lo.Join(group), tap.Join(group)))
	for _, c := range []struct{ from, other *raw.Port }{{lo, tap}, {tap, lo}} {
		p := toGroup(c.from, 0, group)
		batch, segs := runs(t, p, [2]int{96, 5})
		check(t, p, segs, transfer(t, c.from, c.from, batch, len(segs)))
		silent(t, c.other, "another network")
	}
}

// Packets from the network reach the ports that joined, unchanged.
func TestGroupFromTheNetwork(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tun := sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00::1/64"))
	r := openRaw(t, "10.9.0.1", "fd00::1")
	for _, c := range [][2]string{{"10.9.0.7", "239.1.2.3"}, {"fd00::7", "ff0e::77:2"}} {
		p := fabric.Path{
			Src: netip.MustParseAddr(c[0]), Dst: netip.MustParseAddr(c[1]), SrcPort: 0xC123, TClass: 0x28, HopLimit: 5,
		}
		_, segs := runs(t, p, [2]int{96, 1})
		arrive := func() {
			sandbox.Arrive(t, tun, &ipudp.Header{
				Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: fabric.RoCEPort, TClass: p.TClass, HopLimit: p.HopLimit,
			}, segs[0])
		}
		arrive()
		silent(t, r, "no member yet")
		must.Do(t, r.Join(p.Dst))
		arrive()
		none := fabric.NewBatch(1<<13, r.Caps())
		check(t, p, segs, transfer(t, r, r, none, 1))
		must.Do(t, r.Leave(p.Dst))
		arrive()
		silent(t, r, "no member any more")
	}
}

func TestGroupsAreBoundedAndLeaveNothing(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(all)
	}
	before := descriptors()
	addrs := make([]string, 16)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{127, 3, 0, byte(i)}).String()
	}
	addrs[0] = "::1"
	p := openRaw(t, addrs...)
	group := func(i int) netip.Addr {
		if i%2 == 0 {
			return netip.AddrFrom4([4]byte{239, 0, 0, byte(i)})
		}
		return netip.AddrFrom16([16]byte{0xff, 0x0e, 15: byte(i)})
	}
	for i := range fabric.MaxGroups { // the largest filter is loaded without complaint
		must.Do(t, p.Join(group(i)))
	}
	if err := p.Join(group(fabric.MaxGroups)); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("one group too many: %v, want ENOMEM", err)
	}
	must.Do(t, p.Leave(group(3)))
	must.Do(t, p.Join(group(5)))
	if err := p.Leave(group(3)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("leave again: %v, want EINVAL", err)
	}
	if err := p.Join(netip.MustParseAddr("10.0.0.1")); !errors.Is(err, unix.EINVAL) {
		t.Errorf("join an address: %v, want EINVAL", err)
	}
	last := toGroup(p, 1, group(fabric.MaxGroups-2))
	batch, segs := runs(t, last, [2]int{96, 2})
	check(t, last, segs, transfer(t, p, p, batch, len(segs)))
	must.Do(t, p.Close())
	if n := descriptors(); n != before {
		t.Errorf("%d descriptors are open after the port was closed, %d before it was opened", n, before)
	}
	must.Fail(t, p.Join(group(0)), fabric.ErrClosed, "join after close")
	must.Fail(t, p.Leave(group(0)), fabric.ErrClosed, "leave after close")
}
