//go:build !portable

package near

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/must"
)

// visitor is a host of package meeting that takes the part of another process.
type visitor struct {
	*meeting.Host
	self meeting.Identity
	met  chan *meeting.Peer
}

func newVisitor(t testing.TB, p *Port, self meeting.Identity) *visitor {
	t.Helper()
	v := &visitor{self: self, met: make(chan *meeting.Peer, 1)}
	var err error
	v.Host, err = meeting.Listen(meeting.Config{Self: self, Name: p.name, Ring: 1 << 16, Met: func(m *meeting.Peer) { v.met <- m }})
	must.Do(t, err)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// invite makes the visitor meet a port.
func (v *visitor) invite(t testing.TB, p *Port) error {
	return v.Invite(t.Context(), meeting.Key{Addr: p.Caps().Addrs[0], Slot: p.cfg.Slot})
}

// visit makes a visitor meet a port, and returns its end of the rings.
func visit(t testing.TB, p *Port, self meeting.Identity) *meeting.Peer {
	t.Helper()
	v := newVisitor(t, p, self)
	must.Do(t, v.invite(t, p))
	m := <-v.met
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// visitorAt returns the identity of a visitor.
func visitorAt(slot uint8) meeting.Identity {
	n := nextAddr.Add(1)
	return meeting.Identity{Addr: must4(127, 250, byte(n>>8), byte(n)), Slot: slot, Generation: 7}
}

// TestRemoteVisitor: a port refuses to meet a process whose address is not one of this host.
func TestRemoteVisitor(t *testing.T) {
	p := open(t, Config{})
	v := newVisitor(t, p, meeting.Identity{Addr: must4(192, 0, 2, 1), Slot: 3, Generation: 7})
	if err := v.invite(t, p); !errors.Is(err, meeting.ErrRefused) {
		t.Errorf("the port answers: %v", err)
	}
	newEnd(p, p).settle(t)
	if n := len(p.Peers()); n != 0 {
		t.Errorf("the port has met %d processes", n)
	}
}

// TestPeersAreBounded lets more than MaxPeers processes meet the port, which leaves the least
// recently used ones.
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
		if i == meeting.MaxPeers-1 { // use the first two again
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

// intruder is a process that a port has met, and that writes what it wants into its memory.
type intruder struct {
	self  meeting.Identity
	words []byte
	end   int // of the socket of wake-ups
}

// intrude makes a port meet an intruder.
func intrude(t testing.TB, p *Port, self meeting.Identity) *intruder {
	t.Helper()
	size := os.Getpagesize() + 1<<16
	memory, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must.Do(t, err)
	must.Do(t, unix.Fallocate(memory, 0, 0, int64(size)))
	words, err := unix.Mmap(memory, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.Do(t, err)
	_, err = unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
	must.Do(t, err)
	view, err := ring.Attach(memory)
	must.Do(t, err)
	own, err := ring.Create(1 << 16)
	must.Do(t, err)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	m := meeting.NewPeer(self, own, view, ends[0])
	p.Met(p.Caps().Addrs[0], Link{m.Identity, m.Out, m.In, m})
	return &intruder{self, words, ends[1]}
}

// leave ends the process of the intruder.
func (in *intruder) leave(t testing.TB) {
	t.Helper()
	must.Do(t, unix.Close(in.end))
	must.Do(t, unix.Munmap(in.words))
}

// The offsets of the words and records in the memory of an intruder.
var wordsAt = []int{0, 128, 256, 384}

// scribble writes something into the memory: often a position, or the header of a record.
func (in *intruder) scribble(random *rand.Rand) {
	put := func(at int, x uint64) {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&in.words[at])), x)
	}
	records := os.Getpagesize()
	n := uint64(1 + random.IntN(2000))
	switch random.IntN(4) {
	case 0: // a record of n bytes at any line
		put(records+64*random.IntN(1<<10), n|n<<26|1<<52)
	case 1:
		put(wordsAt[random.IntN(len(wordsAt))], 64*random.Uint64N(1<<11))
	case 2:
		put(wordsAt[random.IntN(len(wordsAt))], random.Uint64()>>random.IntN(64))
	case 3:
		put(records+8*random.IntN(1<<13), random.Uint64())
	}
	_ = unix.Sendto(in.end, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // the socket may be full, or the meeting over
}

// TestGarbage has peers write garbage into their memory: a head while the port reads, and a tail while it
// sends. The port logs it and ends the meeting.
func TestGarbage(t *testing.T) {
	for word, name := range []string{"head", "", "tail"} {
		if name == "" { // the port only compares it with the last one
			continue
		}
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var told []string
			p := open(t, Config{Log: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, format)
			}})
			in := intrude(t, p, visitorAt(1))
			e := newEnd(p, p)
			e.path.Dst = in.self.Addr
			e.awaitPeers(t, 1)
			in.words[wordsAt[word]] = 3 // no position
			for end := time.Now().Add(waitLimit); len(p.Peers()) > 0; e.settle(t) {
				if name == "tail" {
					e.add(t, 1, 1024, 0, 8)
					e.flush(t)
				}
				if time.Now().After(end) {
					t.Fatal("the meeting goes on")
				}
			}
			in.leave(t)
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 1 || !strings.Contains(told[0], "garbage") {
				t.Errorf("the log says %q", told)
			}
			if n := p.Stats().Near[fabric.NearGarbage]; n != 1 {
				t.Errorf("%d meetings count as ended by garbage", n)
			}
		})
	}
}

// TestPeerEnds closes the socket of a peer while nothing arrives. A port that waits forgets the
// peer, and its later waits do not end early.
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
	for range 10 { // the end of the meeting may end some early
		began := time.Now()
		must.Do(t, p.Wait(50*time.Millisecond, true, false))
		if time.Since(began) >= 40*time.Millisecond {
			return
		}
		e.settle(t)
	}
	t.Error("waiting ends at once")
}

// TestNotPermitted: if either side permits no address, all packets take the network.
func TestNotPermitted(t *testing.T) {
	no := Config{Permit: func(netip.Addr) error { return unix.EPERM }}
	for _, c := range []struct {
		sender, receiver Config
	}{{no, no}, {no, Config{}}, {Config{}, no}} {
		a, b := open(t, c.sender), open(t, c.receiver)
		x, y := newEnd(a, b), newEnd(b, a)
		for i := range 800 {
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
		x.routeOf(key{x.path.Src, x.path.Dst, 0}).next = clock.Never // no invitation now
		x.add(t, 0, 64, 7, 1)
		x.flush(t)
		y.expect(t, 7, 1)
	}
}
