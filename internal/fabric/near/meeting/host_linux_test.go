//go:build !portable

package meeting

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/must"
)

// waitLimit bounds each wait for something that should happen at once.
const waitLimit = 20 * time.Second

// node is a host and the peers that it has met.
type node struct {
	*Host
	self Identity
	met  chan *Peer
}

// name makes the names of the sockets of a test.
func name(a netip.Addr) string { return "test-" + strconv.Itoa(os.Getpid()) + "-" + a.String() }

// identity returns the identity of slot n.
func identity(n int) Identity {
	return Identity{netip.MustParseAddr("10.0.0.1"), uint8(n), uint64(1000 + n)}
}

// configOf returns the configuration of an identity, and the channel of its peers.
func configOf(self Identity) (Config, chan *Peer) {
	met := make(chan *Peer, 1000)
	return Config{Self: self, Name: name, Ring: 1 << 16, Met: func(p *Peer) { met <- p }}, met
}

func listen(t *testing.T, self Identity) *node {
	t.Helper()
	c, met := configOf(self)
	h, err := Listen(c)
	must.Do(t, err)
	n := &node{h, self, met}
	t.Cleanup(func() {
		_ = h.Close() // the test may have closed it
		for len(met) > 0 {
			must.Do(t, (<-met).Close())
		}
	})
	return n
}

// peer returns the next peer that a node has met.
func (n *node) peer(t *testing.T, want Identity) *Peer {
	t.Helper()
	select {
	case p := <-n.met:
		if p.Identity != want {
			t.Errorf("met %+v, want %+v", p.Identity, want)
		}
		return p
	case <-time.After(waitLimit):
		t.Fatalf("%+v has not met %+v", n.self, want)
	}
	return nil
}

// talk sends a record from one peer to the other, and wakes it.
func talk(t *testing.T, from, to *Peer) {
	t.Helper()
	if !to.In.Arm() {
		t.Fatal("there is something to read before anything was sent")
	}
	copy(from.Out.Reserve(5, 5), "hello")
	from.Out.Commit(5, 5, 1, 9)
	if !from.Out.Publish() {
		t.Fatal("the peer does not have to be woken")
	}
	must.Do(t, from.Wake())
	wait(t, to)
	must.Do(t, to.Woken())
	var r ring.Record
	if !to.In.Next(&r) || string(r.Bytes) != "hello" || r.Tag != 9 {
		t.Fatalf("received %q", r.Bytes)
	}
	to.In.Release()
}

// wait waits until the descriptor of a peer is readable.
func wait(t *testing.T, p *Peer) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
	for end := time.Now().Add(waitLimit); ; {
		n, err := unix.Poll(fds, int(waitLimit.Milliseconds()))
		if n == 1 {
			return
		}
		if !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			t.Fatalf("the peer's descriptor is not readable: %v", err)
		}
	}
}

// gone checks that a peer sees the end of the other.
func gone(t *testing.T, p *Peer) {
	t.Helper()
	wait(t, p)
	for range 100 {
		if err := p.Woken(); err != nil {
			must.Fail(t, err, ErrGone, "the end")
			must.Fail(t, p.Wake(), ErrGone, "wake a peer that has ended")
			must.Do(t, p.Close())
			return
		}
	}
	t.Error("a peer that has ended is not noticed")
}

func TestMeeting(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	must.Do(t, a.Invite(t.Context(), b.self.Key()))
	p, q := a.peer(t, b.self), b.peer(t, a.self)
	for range 3 {
		talk(t, p, q)
		talk(t, q, p)
	}
	if a.Met.Load() != 1 || b.Met.Load() != 1 || a.Refused.Load()+b.Refused.Load() != 0 {
		t.Errorf("met %d and %d times, refused %d and %d", a.Met.Load(), b.Met.Load(), a.Refused.Load(), b.Refused.Load())
	}
	must.Do(t, p.Close())
	gone(t, q)
}

// A wake-up never blocks, and the end of a peer that floods is noticed after its wake-ups.
func TestWakesNeverBlock(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	must.Do(t, a.Invite(t.Context(), b.self.Key()))
	p, q := a.peer(t, b.self), b.peer(t, a.self)
	for range 10000 {
		must.Do(t, p.Wake())
	}
	// Linux 6.16 refuses descriptors; on older kernels Woken discards them.
	if err := unix.Sendmsg(q.fd, []byte("any length"), unix.UnixRights(1, 2), nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		t.Fatal(err)
	}
	before := descriptors(t)
	must.Do(t, errors.Join(p.Woken(), q.Woken()))
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors after a wake-up with descriptors, %d before", after, before)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}, 0); n != 1 {
		t.Errorf("one call has taken all wake-ups of a flood (%v)", err)
	}
	for range 10000 {
		must.Do(t, q.Woken())
	}
	must.Do(t, p.Close())
	gone(t, q)
}

// Two processes that invite each other at the same time have the same meetings, and the same last
// one.
func TestInvitationsCross(t *testing.T) {
	for range 100 {
		a, b := listen(t, identity(1)), listen(t, identity(2))
		var both sync.WaitGroup
		for _, x := range [][2]*node{{a, b}, {b, a}} {
			both.Go(func() {
				if err := x[0].Invite(context.Background(), x[1].self.Key()); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, ErrRefused) {
					t.Errorf("%d invites %d: %v", x[0].self.Slot, x[1].self.Slot, err)
				}
			})
		}
		both.Wait()
		must.Do(t, errors.Join(a.Close(), b.Close()))
		meetings := len(a.met)
		if len(b.met) != meetings || meetings < 1 || meetings > 2 {
			t.Fatalf("%d and %d meetings", meetings, len(b.met))
		}
		for i := range meetings {
			p, q := a.peer(t, b.self), b.peer(t, a.self)
			if i == meetings-1 {
				talk(t, p, q)
			}
			must.Do(t, errors.Join(p.Close(), q.Close()))
		}
	}
}

// If two processes invite each other, the one with the higher key accepts, and the other only
// waits until its own invitation has ended.
func TestLowerInvites(t *testing.T) {
	low, high := listen(t, identity(1)), listen(t, identity(2))
	begin := func(n *node, with *node, number uint64, change ...func(*attempt)) *attempt {
		n.mu.Lock()
		defer n.mu.Unlock()
		a, err := n.begin(with.self.Key(), number)
		must.Do(t, err)
		for _, f := range change {
			f(a)
		}
		return a
	}
	end := func(n *node, with *node, a *attempt) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.end(with.self.Key(), a)
	}
	own := begin(high, low, 7)
	must.Do(t, low.Invite(t.Context(), high.self.Key()))
	low.peer(t, high.self).Close()
	high.peer(t, low.self).Close()
	end(high, low, own)
	if !own.met {
		t.Error("the invitation of the higher process has failed although the two have met")
	}
	own = begin(low, high, 7)
	time.AfterFunc(20*time.Millisecond, func() { end(low, high, own) })
	must.Fail(t, high.Invite(t.Context(), low.self.Key()), ErrRefused, "the higher invites while the lower does")
	select {
	case <-own.ended:
	default:
		t.Error("the lower does not wait until its own invitation has ended")
	}
	own = begin(high, low, 7, func(a *attempt) { a.offered = make(chan struct{}) }) // high is answering an offer of low
	must.Fail(t, low.Invite(t.Context(), high.self.Key()), ErrRefused, "invite while an offer is answered")
	end(high, low, own)
	own = begin(high, low, 7, func(a *attempt) { a.accepts = true })
	must.Fail(t, low.Invite(t.Context(), high.self.Key()), ErrRefused, "invite while the higher accepts another invitation")
	end(high, low, own)
	own = begin(low, high, 0) // low is accepting an invitation
	must.Fail(t, high.Invite(t.Context(), low.self.Key()), ErrRefused, "invite while an invitation is accepted")
	must.Fail(t, low.Invite(t.Context(), high.self.Key()), unix.EBUSY, "invite a process whose invitation is accepted")
	end(low, high, own)
	must.Do(t, high.Invite(t.Context(), low.self.Key()))
}

// Only one host at a time can have a name.
func TestNames(t *testing.T) {
	a := listen(t, identity(1))
	c, _ := configOf(identity(1))
	_, err := Listen(c)
	must.Fail(t, err, unix.EADDRINUSE, "listen at a name that is taken")
	must.Fail(t, a.Invite(t.Context(), identity(2).Key()), ErrNone, "invite nobody")
	must.Fail(t, a.Invite(t.Context(), a.self.Key()), unix.EINVAL, "invite itself")
	must.Do(t, a.Close())
	must.Do(t, listen(t, identity(1)).Close())
}

func TestInviteEnds(t *testing.T) {
	a := listen(t, identity(1))
	silent := silentSocket(t, identity(2))
	defer unix.Close(silent)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := a.Invite(ctx, identity(2).Key()); err == nil {
		t.Error("a process that does not answer was met")
	}
	began := time.Now()
	must.Fail(t, a.Invite(t.Context(), identity(2).Key()), os.ErrDeadlineExceeded, "invite a process that does not answer")
	if d := time.Since(began); d < helloTime || d > helloTime+waitLimit {
		t.Errorf("the invitation ends after %v, want %v", d, helloTime)
	}
}

// silentSocket returns a socket that listens at the name of a process, and accepts nothing.
func silentSocket(t *testing.T, as Identity) int {
	t.Helper()
	fd, err := newSocket()
	must.Do(t, err)
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: nameOf(name(as.Addr), as.Slot)}))
	must.Do(t, unix.Listen(fd, 100))
	return fd
}

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

// mappings returns the number of mappings of rings.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	must.Do(t, err)
	return strings.Count(string(b), "/memfd:softhca-ring")
}

// A thousand meetings of the same two processes leave no descriptors and no mappings.
func TestMeetingsLeaveNothing(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	var before [2]int
	for i := range 1000 {
		must.Do(t, a.Invite(t.Context(), b.self.Key()))
		p, q := a.peer(t, b.self), b.peer(t, a.self)
		must.Do(t, errors.Join(p.Close(), q.Close()))
		switch i {
		case 9:
			before = [2]int{descriptors(t), mappings(t)}
		case 999:
			if after := [2]int{descriptors(t), mappings(t)}; after[0] > before[0]+8 || after[1] != before[1] {
				t.Errorf("%d descriptors and %d mappings after 1000 meetings, %d and %d after 10", after[0], after[1], before[0], before[1])
			}
		}
	}
}
