//go:build !portable

package near

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/must"
)

var (
	meetings = flag.Int("near-meetings", 400, "meetings of a process that meets a port again and again")
	garbage  = flag.Int("near-garbage", 40, "processes that write garbage into their memory")
)

// drawSeed returns the source of what is random in a test, and prints its seed.
func drawSeed(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// memories returns the number of mappings of rings in this process.
func memories(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	must.Do(t, err)
	return strings.Count(string(b), "/memfd:softhca-ring")
}

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

// heldPeers returns the number of peers of which a port has the memory.
func (p *Port) heldPeers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers) + len(p.arrived)
}

// until receives at an end until a condition holds.
func (e *end) until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !holds(); pause(t, e.Port) {
		e.settle(t)
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// mostKept is the number of peers of which a port that is called again and again may have the memory:
// those that it uses, and those that left.
const mostKept = 2*meeting.MaxPeers + 1

// TestMeetsAgainAndAgain has a process meet a port again and again, in the name of any slot, and leave some
// meetings and not others. The port never has the memory of more peers than the bound, goes on with
// another peer, and forgets them all when they have ended.
func TestMeetsAgainAndAgain(t *testing.T) {
	random := drawSeed(t)
	p, other := open(t, Config{}), open(t, Config{})
	x, y := met(t, p, other)
	before := [2]int{memories(t), descriptors(t)}
	hosts := make(map[uint8]*visitor)
	var kept []*meeting.Peer
	self := visitorAt(0)
	for i := range *meetings {
		slot := uint8(1 + random.IntN(100))
		v := hosts[slot]
		if v == nil {
			v = newVisitor(t, p, meeting.Identity{Addr: self.Addr, Slot: slot, Generation: random.Uint64()})
			hosts[slot] = v
		}
		for v.invite(t, p) != nil { // it is meeting this process still
			x.settle(t)
		}
		switch m := <-v.met; {
		case random.IntN(4) == 0:
			must.Do(t, m.Close())
		case len(kept) < 4*meeting.MaxPeers:
			kept = append(kept, m)
		default:
			at := random.IntN(len(kept))
			must.Do(t, kept[at].Close())
			kept[at] = m
		}
		if i%8 == 0 {
			x.settle(t)
			if n := p.heldPeers(); n > mostKept {
				t.Fatalf("the port has the memory of %d peers after %d meetings", n, i)
			}
			if x.routed() != nil {
				x.add(t, 0, 200, i, 5)
				x.flush(t)
				y.expect(t, i, 5)
			}
		}
	}
	for _, m := range kept {
		must.Do(t, m.Close())
	}
	for _, v := range hosts {
		must.Do(t, v.Close())
	}
	x.until(t, "the port forgets processes that have ended", func() bool { return p.heldPeers() <= 1 })
	x.until(t, "nothing is left", func() bool { return memories(t) <= before[0] && descriptors(t) <= before[1] })
}

// TestArrivalsAreBounded has more processes meet a port than it may hold while nobody calls it.
func TestArrivalsAreBounded(t *testing.T) {
	p := open(t, Config{})
	for i := range meeting.MaxPeers + 10 {
		v := newVisitor(t, p, visitorAt(uint8(i+1)))
		must.Do(t, v.invite(t, p))
		m := <-v.met
		t.Cleanup(func() { _ = m.Close() })
	}
	if n := p.heldPeers(); n != meeting.MaxPeers {
		t.Errorf("%d processes wait until the port takes them, want %d", n, meeting.MaxPeers)
	}
	e := newEnd(p, p)
	e.awaitPeers(t, meeting.MaxPeers)
	v := newVisitor(t, p, visitorAt(200)) // there is room again
	must.Do(t, v.invite(t, p))
	m := <-v.met
	defer m.Close()
	e.until(t, "the port takes another process", func() bool { return e.has(v.self.Addr) })
}

// TestAllGarbage has processes write anything into the words of their memory while the port sends to
// them and receives. The port ends some of the meetings, and loses nothing of another peer.
func TestAllGarbage(t *testing.T) {
	random := drawSeed(t)
	p, other := open(t, Config{}), open(t, Config{})
	x, y := met(t, p, other)
	ended, n := 0, 0
	for range *garbage {
		in := intrude(t, p, visitorAt(1))
		e := newEnd(p, p)
		e.path.Dst = in.self.Addr
		e.until(t, "the port takes the process", func() bool { return e.has(in.self.Addr) })
		done := make(chan struct{})
		var writer sync.WaitGroup
		source := rand.New(rand.NewPCG(random.Uint64(), 1))
		writer.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					in.scribble(source)
				}
			}
		})
		// A busy host may leave the writer no CPU for a while.
		for i := 0; i < 20 || i < 1000 && e.has(in.self.Addr); i++ {
			e.add(t, 1, 200, 0, 3)
			e.flush(t)
			x.add(t, 0, 200, n, 3)
			x.flush(t)
			y.expect(t, n, 3)
			n += 3
			y.add(t, 0, 200, n, 1)
			y.flush(t)
			x.find(t, n, other.Caps().Addrs[0])
		}
		close(done)
		writer.Wait()
		if !e.has(in.self.Addr) {
			ended++
		}
		in.leave(t)
	}
	if ended < *garbage/4 {
		t.Errorf("%d of %d meetings have ended", ended, *garbage)
	}
	x.until(t, "the port forgets the processes", func() bool { return p.heldPeers() == 1 })
}

// find receives until the packet with a number arrives from an address. Hostile processes send others.
func (e *end) find(t testing.TB, number int, from netip.Addr) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	for end := time.Now().Add(waitLimit); ; {
		found := false
		for _, d := range e.next(t, ds) {
			found = found || d.Src == from && len(d.Bytes) == 200 && int(d.Bytes[14])<<8|int(d.Bytes[15]) == number
		}
		if found {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("packet %d does not arrive", number)
		}
	}
}

// TestBackToTheNetwork sends packets to a peer that must leave for others in the meantime, since nothing was sent
// to it for the longest time. It receives all packets, in order, although it reads late: first those in
// the ring, then those that took the network.
func TestBackToTheNetwork(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	x.add(t, 0, 256, 0, 50)
	x.flush(t)
	for i := range meeting.MaxPeers {
		v := newVisitor(t, a, visitorAt(uint8(i+1)))
		must.Do(t, v.invite(t, a))
		m := <-v.met
		t.Cleanup(func() { _ = m.Close() })
		for end := time.Now().Add(waitLimit); !x.has(v.self.Addr); pause(t, a) {
			x.settle(t)
			if time.Now().After(end) {
				t.Fatalf("the port does not use process %d", i)
			}
		}
	}
	x.routeOf(key{x.path.Src, x.path.Dst, 0}).next = clock.Never // no other meeting now
	if x.routed() != nil {
		t.Fatal("the peer does not leave")
	}
	x.add(t, 0, 256, 50, 50)
	x.flush(t)
	y.expect(t, 0, 100)
	if x.routed() != nil {
		t.Error("the two have met again: the test shows nothing")
	}
}

// role is the variable of the environment that makes the test binary a process of another user: its
// address and that of the port under test.
const role = "SOFTHCA_TEST_NEAR"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if err := foreigner(os.Getenv(role)); err != nil {
		fmt.Fprintln(os.Stderr, "the stranger:", err)
		os.Exit(1)
	}
}

// foreigner is a process of another user that knows the user's secret. It sends packets to a port until
// its input ends.
func foreigner(where string) error {
	var own, to string
	if _, err := fmt.Sscan(where, &own, &to); err != nil {
		return err
	}
	const user = 54321
	if err := errors.Join(unix.Setuid(user), unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)); err != nil {
		return err
	}
	p, err := openAt(netip.MustParseAddr(own), Config{})
	if err != nil {
		return err
	}
	end := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		close(end)
	}()
	x := newEnd(p, p)
	x.path.Dst = netip.MustParseAddr(to)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		x.batch.Aim(slotQPN(0))
		seg, _ := x.batch.Append(&x.path, 64)
		clear(seg)
		if err := p.Send(x.batch); err != nil {
			return err
		}
		select {
		case <-end:
			if n := p.heldPeers(); n > 0 {
				return fmt.Errorf("has met %d processes", n)
			}
			return p.Close()
		case <-tick.C:
		}
	}
}

// TestStranger has a process of another user, which knows the secret, send to a port, and the port to it. Both
// use the network, and the port counts the meetings that it refuses.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users") // the test needs one
	}
	p, free := open(t, Config{}), open(t, Config{})
	at := free.Caps().Addrs[0]
	must.Do(t, free.Close())
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", role, at, p.Caps().Addrs[0]))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	e := newEnd(p, p)
	e.path.Dst = at
	ds := make([]fabric.Datagram, inboxLen)
	host := p.system.(*kernel).hosts[p.Caps().Addrs[0]]
	for got, late := 0, time.Now().Add(waitLimit); got < 2500 || host.Refused.Load() == 0; {
		e.add(t, 0, 64, 0, 1)
		e.flush(t)
		for _, d := range e.next(t, ds) {
			if d.Src != at {
				t.Fatalf("a packet from %s", d.Src)
			}
			got++
		}
		if time.Now().After(late) {
			t.Fatalf("%d packets from the stranger, %d meetings refused", got, host.Refused.Load())
		}
	}
	if n := p.heldPeers(); n != 0 || host.Met.Load() != 0 {
		t.Errorf("the port has met %d strangers", n)
	}
	must.Do(t, errors.Join(in.Close(), cmd.Wait()))
}
