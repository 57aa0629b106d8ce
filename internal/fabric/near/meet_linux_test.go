//go:build !portable

package near

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/must"
)

// visitor is a process that meets ports by itself.
type visitor struct {
	*meeting.Host
	met chan *meeting.Peer
}

// visit makes a visitor meet a port, and returns its end of the rings.
func visit(t testing.TB, p *Port, self meeting.Identity) *meeting.Peer {
	t.Helper()
	v := listen(t, p, self)
	must.Do(t, v.Invite(t.Context(), meeting.Key{Addr: p.Caps().Addrs[0], Slot: p.cfg.Slot}))
	m := <-v.met
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// listen makes a visitor that can meet a port.
func listen(t testing.TB, p *Port, self meeting.Identity) *visitor {
	t.Helper()
	v := &visitor{met: make(chan *meeting.Peer, 1)}
	var err error
	v.Host, err = meeting.Listen(meeting.Config{Self: self, Name: p.name, Ring: 1 << 16, Met: func(m *meeting.Peer) { v.met <- m }})
	must.Do(t, err)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// visitorAt returns the identity of a visitor.
func visitorAt(slot uint8) meeting.Identity {
	n := nextAddr.Add(1)
	return meeting.Identity{Addr: must4(127, 250, byte(n>>8), byte(n)), Slot: slot, Generation: 7}
}

// TestRemoteVisitor has a process give an address of another host as its own. The port refuses to
// meet it.
func TestRemoteVisitor(t *testing.T) {
	p := open(t, Config{})
	v := listen(t, p, meeting.Identity{Addr: must4(192, 0, 2, 1), Slot: 3, Generation: 7})
	if err := v.Invite(t.Context(), meeting.Key{Addr: p.Caps().Addrs[0], Slot: p.cfg.Slot}); !errors.Is(err, meeting.ErrRefused) {
		t.Errorf("the port answers: %v", err)
	}
	newEnd(p, p).settle(t)
	if n := len(p.Peers()); n != 0 {
		t.Errorf("the port has met %d processes", n)
	}
}

// TestPeersAreBounded has more processes meet the port than it has places. Those to which nothing
// was sent for the longest time leave.
func TestPeersAreBounded(t *testing.T) {
	p := open(t, Config{})
	e := newEnd(p, p)
	var all []meeting.Identity
	for i := range meeting.MaxPeers + 3 {
		all = append(all, visitorAt(uint8(i+1)))
		visit(t, p, all[i])
		for end := time.Now().Add(waitLimit); !e.has(all[i].Addr); pause(t, e.Port) {
			e.settle(t)
			if time.Now().After(end) {
				t.Fatalf("the port does not use process %d", i)
			}
		}
		if i == meeting.MaxPeers-1 { // something is sent to the first two
			for _, to := range all[:2] {
				e.path.Dst = to.Addr
				e.add(t, to.Slot, 64, 0, 1)
				e.flush(t)
			}
		}
	}
	for i, m := range all {
		if want := i < 2 || i > 4; e.has(m.Addr) != want {
			t.Errorf("the port has met process %d: %v, want %v", i, e.has(m.Addr), want)
		}
	}
	if n := len(p.Peers()); n != meeting.MaxPeers {
		t.Errorf("the port has met %d processes", n)
	}
}

// has reports whether the port has met a process at an address.
func (e *end) has(a netip.Addr) bool {
	return slices.ContainsFunc(e.Peers(), func(m Peer) bool { return m.Remote == a })
}

// TestGarbage has a peer write garbage into its memory. The port logs it and ends the meeting.
func TestGarbage(t *testing.T) {
	var mu sync.Mutex
	var told []string
	p := open(t, Config{Log: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, format)
	}})
	size := os.Getpagesize() + 1<<16
	memory, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must.Do(t, err)
	must.Do(t, unix.Fallocate(memory, 0, 0, int64(size)))
	words, err := unix.Mmap(memory, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.Do(t, err)
	defer func() { _ = unix.Munmap(words) }()
	_, err = unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
	must.Do(t, err)
	view, err := ring.Attach(memory)
	must.Do(t, err)
	own, err := ring.Create(1 << 16)
	must.Do(t, err)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must.Do(t, err)
	defer unix.Close(ends[1])
	p.met(p.Caps().Addrs[0], meeting.NewPeer(visitorAt(1), own, view, ends[0]))
	e := newEnd(p, p)
	e.awaitPeers(t, 1)
	words[0] = 3 // the head: no position
	e.awaitPeers(t, 0)
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !strings.Contains(told[0], "garbage") {
		t.Errorf("the log says %q", told)
	}
}

// TestPeerEnds closes the socket of a peer while nothing arrives. A port that waits forgets the
// peer, and then waits as long as it should.
func TestPeerEnds(t *testing.T) {
	p := open(t, Config{})
	e := newEnd(p, p)
	m := visit(t, p, visitorAt(1))
	e.awaitPeers(t, 1)
	must.Do(t, unix.Shutdown(m.FD(), unix.SHUT_RDWR))
	for end := time.Now().Add(waitLimit); len(p.Peers()) > 0; {
		must.Do(t, p.Wait(10*time.Millisecond, true, false))
		e.settle(t)
		if time.Now().After(end) {
			t.Fatal("the meeting goes on")
		}
	}
	for range 10 { // the end of the meeting may end some
		began := time.Now()
		must.Do(t, p.Wait(50*time.Millisecond, true, false))
		if time.Since(began) >= 40*time.Millisecond {
			return
		}
		e.settle(t)
	}
	t.Error("waiting ends at once")
}

// TestNotPermitted has owners of ports permit nothing: all packets take the network.
func TestNotPermitted(t *testing.T) {
	no := Config{Permit: func(netip.Addr) error { return unix.EPERM }}
	for _, c := range []struct {
		sender, receiver Config
	}{{no, no}, {no, Config{}}, {Config{}, no}} {
		a, b := open(t, c.sender), open(t, c.receiver)
		x, y := newEnd(a, b), newEnd(b, a)
		for i := range 3 * skipRuns {
			x.add(t, 0, 64, i, 1)
			x.flush(t)
			y.expect(t, i, 1)
		}
		for range 20 {
			pause(t, a)
			x.settle(t)
			y.settle(t)
		}
		x.awaitPeers(t, 0)
		y.awaitPeers(t, 0)
		x.routeOf(key{x.path.Src, x.path.Dst, 0}).skip = skipRuns // no other meeting now
		x.add(t, 0, 64, 7, 1)
		x.flush(t)
		y.expect(t, 7, 1)
	}
}
