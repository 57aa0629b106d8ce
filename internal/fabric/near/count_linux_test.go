//go:build !portable

package near

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/must"
)

// wantCounts compares all counts of shared memory. Counts that want lacks are 0.
func (p *Port) wantCounts(t testing.TB, want map[fabric.NearCount]uint64) {
	t.Helper()
	for i, n := range p.Stats().Near {
		if c := fabric.NearCount(i); n != want[c] {
			t.Errorf("%s is %d, want %d", c, n, want[c])
		}
	}
}

// TestCounts has two ports meet, exchange packets, and part. Each port counts what it has sent and
// received through memory, and nothing of what took the network.
func TestCounts(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	before := a.Stats().Near[fabric.NearSent]
	x.add(t, 0, 1024, 0, 70)
	x.add(t, 0, 64, 70, 3)
	x.flush(t)
	y.expect(t, 0, 73)
	x.batch.Aim(1) // a packet for QP1
	seg, _ := x.batch.Append(&x.path, 64)
	clear(seg)
	x.flush(t)
	y.expect(t, 0, 1)
	memory := uint64(os.Getpagesize() + ringSize)
	a.wantCounts(t, map[fabric.NearCount]uint64{
		fabric.NearSent: before + 73, fabric.NearReceived: b.Stats().Near[fabric.NearSent],
		fabric.NearMet: 1, fabric.NearPeers: 1, fabric.NearMemory: memory,
	})
	b.wantCounts(t, map[fabric.NearCount]uint64{
		fabric.NearSent: a.Stats().Near[fabric.NearReceived], fabric.NearReceived: before + 73,
		fabric.NearMet: 1, fabric.NearPeers: 1, fabric.NearMemory: memory,
	})
	must.Do(t, b.Close())
	b.wantCounts(t, map[fabric.NearCount]uint64{
		fabric.NearSent: a.Stats().Near[fabric.NearReceived], fabric.NearReceived: before + 73, fabric.NearMet: 1,
	})
	x.awaitPeers(t, 0)
	x.settle(t)
	a.wantCounts(t, map[fabric.NearCount]uint64{
		fabric.NearSent: before + 73, fabric.NearReceived: b.Stats().Near[fabric.NearSent], fabric.NearMet: 1,
	})
}

// TestDroppedAreCounted sends to a process that does not read. What its ring has no room for is counted.
func TestDroppedAreCounted(t *testing.T) {
	p := open(t, Config{})
	e := newEnd(p, p)
	who := visitorAt(1)
	visit(t, p, who)
	e.awaitPeers(t, 1)
	e.path.Dst = who.Addr
	all := 0
	for end := time.Now().Add(waitLimit); p.Stats().Near[fabric.NearDropped] < 100; all += 16 {
		if time.Now().After(end) {
			t.Fatal("nothing is dropped")
		}
		e.add(t, who.Slot, 4096, 0, 16)
		e.flush(t)
	}
	s := p.Stats()
	if sent, dropped := s.Near[fabric.NearSent], s.Near[fabric.NearDropped]; sent+dropped != uint64(all) || s.Overflows != dropped || s.SentPackets != sent {
		t.Errorf("of %d packets, %d are counted as sent and %d as dropped; the port has sent %d and dropped %d", all, sent, dropped, s.SentPackets, s.Overflows)
	}
}

// TestRefusalsAreCounted has others ask for a meeting in vain, and the port itself.
func TestRefusalsAreCounted(t *testing.T) {
	p := open(t, Config{})
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	must.Do(t, unix.Connect(fd, &unix.SockaddrUnix{Name: "@softhca/near/" + p.name(p.Caps().Addrs[0]) + "/0"}))
	_, err = unix.Write(fd, []byte("garbage"))
	must.Do(t, err)
	awaitCount(t, p, fabric.NearRefused, 1)
	if v := newVisitor(t, p, meeting.Identity{Addr: must4(192, 0, 2, 1), Slot: 3, Generation: 7}); v.invite(t, p) == nil {
		t.Error("the port meets a process of another host")
	}
	awaitCount(t, p, fabric.NearRefused, 2)
	p.countInvited(errors.New("another error"))
	p.wantCounts(t, map[fabric.NearCount]uint64{fabric.NearRefused: 2})
}

// TestRefusedInvitationIsCounted sends to a process that ends the connection of an invitation, and to
// a slot without a process.
func TestRefusedInvitationIsCounted(t *testing.T) {
	p := open(t, Config{})
	e := newEnd(p, p)
	e.path.Dst = must4(127, 251, 0, 1)
	e.add(t, 9, 64, 0, 1) // nobody has slot 9
	e.flush(t)
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must.Do(t, err)
	defer unix.Close(listener)
	must.Do(t, unix.Bind(listener, &unix.SockaddrUnix{Name: "@softhca/near/" + p.name(e.path.Dst) + "/3"}))
	must.Do(t, unix.Listen(listener, 1))
	e.add(t, 3, 64, 0, 1)
	e.flush(t)
	fd, _, err := unix.Accept(listener)
	must.Do(t, err)
	must.Do(t, unix.Close(fd))
	awaitCount(t, p, fabric.NearRefused, 1)
	p.wantCounts(t, map[fabric.NearCount]uint64{fabric.NearRefused: 1})
}

// awaitCount waits until a count has a value.
func awaitCount(t testing.TB, p *Port, c fabric.NearCount, want uint64) {
	t.Helper()
	for end := time.Now().Add(waitLimit); p.Stats().Near[c] != want; pause(t, p) {
		if time.Now().After(end) {
			t.Fatalf("%s is %d, want %d", c, p.Stats().Near[c], want)
		}
	}
}
