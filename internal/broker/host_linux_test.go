//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// freeAddress returns a loopback address that no other test has.
func freeAddress(t *testing.T) netip.Addr {
	t.Helper()
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.Name(), os.Getpid())
	for salt := range uint32(64) {
		v := h.Sum32() + salt
		if a := netip.AddrFrom4([4]byte{127, byte(v>>16) | 1, byte(v >> 8), byte(v)}); udp.Vacant(a) == nil {
			return a
		}
	}
	t.Fatal("no loopback address is free")
	return netip.Addr{}
}

// enter returns a process that shares an address with those on it.
func enter(t *testing.T, a netip.Addr) *process {
	t.Helper()
	c := on(a)
	c.GUID += uint64(time.Now().UnixNano())
	lease, sockets, err := Enter(c)
	must.Do(t, err)
	port, err := udp.Open(udp.Config{Addrs: c.Addrs, Lease: sockets})
	must.Do(t, err)
	p := &process{t: t, Lease: lease, port: port}
	t.Cleanup(p.die)
	return p
}

// peerOf returns a peer of processes that share an address.
func peerOf(t *testing.T, a netip.Addr) *peer {
	t.Helper()
	return newPeer(t, &Broker{cfg: Config{Addrs: []netip.Addr{a}}})
}

// asked shows that a REQ comes to a process.
func asked(t *testing.T, p *peer, x *process, s mad.ServiceID, id uint32) {
	t.Helper()
	p.send(mad.AttrREQ, reqFor(s, id))
	if q := expect(t, x.port, mad.AttrREQ, &mad.REQ{}); q.LocalCommID != id {
		t.Errorf("the process in slot %d gets REQ %d, not %d", x.Slot, q.LocalCommID, id)
	}
}

// TestD3_SecondComes has further processes join a process that was alone on an
// address: its services stay its own, each process gets its own packets, and all have one
// GUID.
func TestD3_SecondComes(t *testing.T) {
	a := freeAddress(t)
	p, x := peerOf(t, a), enter(t, a)
	must.Do(t, errors.Join(x.Claim(service), x.Claim(service+1)))
	x.Release(service + 1)
	asked(t, p, x, service, 1) // alone
	if _, _, who, err := Who(a, rigSecret); err != nil || len(who) != 1 || who[0].PID != os.Getpid() || who[0].Services != 1 {
		t.Errorf("alone: %+v, %v", who, err)
	}
	y, z := enter(t, a), enter(t, a)
	if x.Slot != 0 || y.Slot == 0 || z.Slot == y.Slot || x.GUID != y.GUID || y.GUID != z.GUID {
		t.Errorf("slots %d, %d, %d and GUIDs %x, %x, %x", x.Slot, y.Slot, z.Slot, x.GUID, y.GUID, z.GUID)
	}
	must.Fail(t, y.Claim(service), unix.EADDRINUSE, "the first one's service")
	if err := errors.Join(y.Claim(service+1), z.Claim(service+2)); err != nil {
		t.Errorf("services that are free: %v", err)
	}
	must.Fail(t, x.Claim(service+2), unix.EADDRINUSE, "the first one takes another's service")
	if err := x.Claim(service + 3); err != nil {
		t.Errorf("the first one's next service: %v", err)
	}
	for i, m := range []*process{x, y, z, x} {
		asked(t, p, m, service+mad.ServiceID(i), uint32(10+i))
		p.packet(uint32(m.Slot)<<16|5, make([]byte, mad.Size), func([]byte) {})
		receive(t, m.port)
	}
	if _, slots, who, err := Who(a, rigSecret); err != nil || slots != hostedSlots || len(who) != 3 {
		t.Errorf("%+v, %v", who, err)
	}
	x.Release(service)
	settle(t, "another has the service that the first gave up", func() bool { return z.Claim(service) == nil })
	if _, err := Open(Config{Addrs: []netip.Addr{a}, Slots: 1}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a broker where processes share: %v", err)
	}
}

// TestD3_HostGoes ends one host after another, voluntarily and in the middle of
// others' calls. Within a second the next host serves, knows services and
// connections, and disconnects the last host's peers; the address is free when all
// have ended.
func TestD3_HostGoes(t *testing.T) {
	a := freeAddress(t)
	p := peerOf(t, a)
	all := []*process{enter(t, a), enter(t, a), enter(t, a), enter(t, a)}
	for i, x := range all {
		must.Do(t, x.Claim(service+mad.ServiceID(i)))
		id := uint32(100 + i)
		asked(t, p, x, service+mad.ServiceID(i), id)
		p.send(mad.AttrRTU, &mad.RTU{LocalCommID: id, RemoteCommID: uint32(x.Slot)<<24 | id})
		expect(t, x.port, mad.AttrRTU, &mad.RTU{})
	}
	for len(all) > 1 {
		i := slices.IndexFunc(all, func(x *process) bool { return x.hosts() != nil })
		if i < 0 {
			t.Fatal("nobody is the host")
		}
		host := all[i]
		all = slices.Delete(all, i, i+1)
		began := time.Now()
		host.die()
		d := expect(t, p.port, mad.AttrDREQ, &mad.DREQ{})
		if d.LocalCommID>>24 != uint32(host.Slot) || time.Since(began) > runnable(t)*toldLimit {
			t.Errorf("%+v after %v, when slot %d died", d, time.Since(began), host.Slot)
		}
		p.send(mad.AttrDREP, &mad.DREP{LocalCommID: d.RemoteCommID, RemoteCommID: d.LocalCommID})
		for _, x := range all {
			s := mad.ServiceID(0)
			for id := range x.claims {
				s = id
			}
			id := 1000 + uint32(len(all)*100) + uint32(x.Slot)
			asked(t, p, x, s, id)
			p.send(mad.AttrREJ, &mad.REJ{LocalCommID: id, Message: mad.WhichOther}) // it has thought better of it
			expect(t, x.port, mad.AttrREJ, &mad.REJ{})
		}
		settle(t, "one is the host", func() bool {
			return slices.ContainsFunc(all, func(x *process) bool { return x.hosts() != nil })
		})
		fresh := enter(t, a)
		if fresh.Slot == 0 || slices.ContainsFunc(all, func(x *process) bool { return x.Slot == fresh.Slot }) {
			t.Errorf("who comes gets slot %d of somebody", fresh.Slot)
		}
		fresh.die()
	}
	all[0].die()
	if err := udp.Vacant(a); err != nil {
		t.Errorf("all are gone: %v", err)
	}
}

// TestAllAtOnce has many processes begin at once on a free address. One becomes
// the host, each gets its own slot, and each its own packets.
func TestAllAtOnce(t *testing.T) {
	a := freeAddress(t)
	p := peerOf(t, a)
	all := make([]*process, 24)
	var began sync.WaitGroup
	for i := range all {
		began.Go(func() {
			lease, sockets, err := Enter(on(a))
			if err != nil {
				t.Error(err)
				return
			}
			port, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}, Lease: sockets})
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = &process{t: t, Lease: lease, port: port}
			t.Cleanup(all[i].die)
		})
	}
	began.Wait()
	if t.Failed() {
		return
	}
	seen := make(map[uint8]bool)
	for _, x := range all {
		if seen[x.Slot] {
			t.Fatalf("two processes have slot %d", x.Slot)
		}
		seen[x.Slot] = true
		p.packet(uint32(x.Slot)<<16|9, make([]byte, mad.Size), func([]byte) {})
		receive(t, x.port)
	}
	if !seen[0] {
		t.Error("nobody is the first")
	}
}

// TestNamespaces has a process in each of two network namespaces open the same
// address: they do not share it, and further processes join the one in their
// namespace.
func TestNamespaces(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a := netip.AddrFrom4([4]byte{127, 0, 0, 9})
	here, there := enter(t, a), (*Lease)(nil)
	sandbox.NewPlace(t).Do(t, "enter", func() (err error) {
		var sockets *udp.Lease
		if there, sockets, err = Enter(on(a)); err == nil {
			closeAll(append(sockets.Sockets, sockets.Forwarded))
		}
		return err
	})
	if there == nil || there.Slot != 0 || there.GUID == here.GUID {
		t.Fatalf("in another network there is %+v", there)
	}
	there.Close()
	second := enter(t, a)
	if second.Slot == 0 || second.GUID != here.GUID {
		t.Errorf("who comes to the first has slot %d and GUID %x", second.Slot, second.GUID)
	}
	if _, _, all, err := Who(a, rigSecret); err != nil || len(all) != 2 {
		t.Errorf("%+v are on (%v)", all, err)
	}
}
