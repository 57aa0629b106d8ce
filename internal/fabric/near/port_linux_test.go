//go:build !portable

package near

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

func slotQPN(slot uint8) ib.QPN { return ib.QPN(slot)<<16 | 5 }

// TestMeet sends packets of several sizes in both directions. They arrive once, in order, with the
// addresses of the meeting and the fields of their path, and none arrives by the network.
func TestMeet(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	before := y.network()
	for i, e := range []*end{x, y} {
		other := []*end{y, x}[i]
		first := 0
		for _, size := range []int{20, 64, 1024, 4136} {
			e.add(t, 0, size, first, 70) // more than a run holds
			e.add(t, 0, size/2+8, first+70, 1)
			e.flush(t)
			other.expect(t, first, 71)
			first += 71
		}
	}
	x.add(t, 0, 64, 7, 3)
	x.flush(t)
	ds := y.next(t, make([]fabric.Datagram, 4))
	d := &ds[0]
	if len(ds) != 1 || d.Src != x.path.Src || d.Dst != x.path.Dst || d.TClass != 8 || d.HopLimit != 64 || d.Stride != 64 || !d.IDKnown || d.ID != 0 || d.SrcPort != fabric.RoCEPort || d.DstPort != fabric.RoCEPort || d.Segments() != 3 {
		t.Errorf("a run of 3 arrives as %+v", ds)
	}
	if n := y.network() - before; n != 0 {
		t.Errorf("%d packets came by the network", n)
	}
	if s, r := a.Stats().SentPackets, b.Stats().ReceivedPackets; s < 4*71+3 || r < 4*71+3 {
		t.Errorf("%d packets sent and %d received are counted", s, r)
	}
}

// network returns the number of packets that the wrapped port has received.
func (e *end) network() uint64 {
	near := uint64(0)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.peers {
		near += r.In.Counts().Packets
	}
	return e.Stats().ReceivedPackets - near
}

// TestNetworkFollowsRing sends packets by ring and a packet for QP1 by the network, again and
// again. Each packet of QP1 arrives after all that were sent before it.
func TestNetworkFollowsRing(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	for round := range 200 {
		n := 1 + round%40
		x.add(t, 0, 256, 0, n)
		x.flush(t)
		x.batch.Aim(ib.QPNGSI)
		seg, _ := x.batch.Append(&x.path, 256)
		clear(seg)
		seg[15] = byte(n)
		x.flush(t)
		y.expect(t, 0, n+1)
	}
}

// TestFirstByNetwork sends packets before and after two ports meet, and only then receives. The
// earlier packets, in the network, arrive first.
func TestFirstByNetwork(t *testing.T) {
	for range 20 {
		a, b := open(t, Config{}), open(t, Config{})
		x, y := newEnd(a, b), newEnd(b, a)
		n := 0
		for end := time.Now().Add(waitLimit); x.routed() == nil && time.Now().Before(end); n++ {
			x.add(t, 0, 64, n, 1)
			x.flush(t)
			pause(t, a)
		}
		x.add(t, 0, 64, n, 50)
		x.flush(t)
		y.expect(t, 0, n+50)
	}
}

// TestSleepers has one end wait for each packet of the other. No wake-up is lost.
func TestSleepers(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			y.expect(t, i, 1)
			y.add(t, 0, 64, i, 1)
			y.flush(t)
		}
	}()
	for i := range 2000 {
		x.add(t, 0, 64, i, 1)
		x.flush(t)
		x.expect(t, i, 1)
	}
	<-done
	for _, e := range []*end{x, y} {
		if wakes := e.routed().Out.Counts().Wakes; wakes == 0 {
			t.Error("nobody slept: the test shows nothing")
		}
	}
}

// TestFullRing sends to a peer that does not read. The port waits for fullTime, then drops the
// packets for this peer only. When the peer reads again, packets arrive again.
func TestFullRing(t *testing.T) {
	a, b, c := open(t, Config{}), open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	z, w := met(t, a, c)
	blocked := time.Time{}
	for n := 0; x.Stats().Overflows == 0; {
		if len(x.batch.Pending()) == 0 {
			x.add(t, 0, 4096, n, 16)
			n += 16
		}
		if err := x.Send(x.batch); errors.Is(err, fabric.ErrBlocked) {
			if blocked.IsZero() {
				blocked = time.Now()
			}
			must.Do(t, x.Wait(-1, true, true)) // ends although there is never room
		} else {
			must.Do(t, err)
		}
		if n > 1<<16 {
			t.Fatal("the ring is never full")
		}
	}
	if took := time.Since(blocked); blocked.IsZero() || took < fullTime/2 {
		t.Errorf("packets are lost %v after the ring was full", took)
	}
	z.add(t, 0, 64, 0, 1)
	must.Do(t, z.Send(z.batch))
	w.expect(t, 0, 1)
	lost := x.Stats().Overflows
	must.Do(t, x.Send(x.batch)) // without waiting
	y.settle(t)
	x.add(t, 0, 4096, 0, 64)
	x.flush(t)
	y.expect(t, 0, 64)
	if now := x.Stats().Overflows; now < lost {
		t.Errorf("%d packets are lost, and %d before", now, lost)
	}
}

// TestNothingIsLost sends much more than a ring holds to a peer that reads slowly.
func TestNothingIsLost(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	const all = 4096
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.expect(t, 0, all)
	}()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, seed))
	for n := 0; n < all; {
		k := min(1+draw.IntN(60), all-n)
		x.add(t, 0, 20+draw.IntN(4000), n, k)
		x.flush(t)
		n += k
	}
	<-done
	if n := x.Stats().Overflows; n != 0 {
		t.Errorf("%d packets are lost", n)
	}
}

// TestPeerLeaves closes one of two ports that have met. Packets that the closed port sent still
// arrive. The other port then sends by the network, and meets the next port at that address.
func TestPeerLeaves(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	y.add(t, 0, 64, 0, 10)
	y.flush(t)
	at := b.Caps().Addrs[0]
	must.Do(t, b.Close())
	x.expect(t, 0, 10)
	for end := time.Now().Add(waitLimit); len(a.Peers()) > 0; pause(t, a) {
		x.settle(t)
		if time.Now().After(end) {
			t.Fatal("the peer is not forgotten")
		}
	}
	x.add(t, 0, 64, 0, 1)
	x.flush(t) // the process there has ended
	b, err := openAt(at, Config{})
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	x.routeOf(key{x.path.Src, x.path.Dst, 0}).next = 0 // the pause has passed
	x, y = met(t, a, b)
	x.add(t, 0, 64, 0, 5)
	x.flush(t)
	y.expect(t, 0, 5)
}

// TestBothConnect has two ports send to each other at the same time, again and again. Each
// ends up with one peer.
func TestBothConnect(t *testing.T) {
	for range 30 {
		a, b := open(t, Config{}), open(t, Config{})
		x, y := newEnd(a, b), newEnd(b, a)
		x.add(t, 0, 64, 0, 1)
		y.add(t, 0, 64, 0, 1)
		x.flush(t)
		y.flush(t)
		met(t, a, b)
		for range 5 {
			pause(t, a) // a second meeting may replace the first
		}
		x.awaitPeers(t, 1)
		y.awaitPeers(t, 1)
		must.Do(t, a.Close())
		must.Do(t, b.Close())
	}
}

// TestToItself sends to the port's own address: by the network.
func TestToItself(t *testing.T) {
	a := open(t, Config{})
	x := newEnd(a, a)
	for i := range 500 {
		x.add(t, 0, 64, i, 1)
		x.flush(t)
		x.expect(t, i, 1)
	}
	if n := len(a.Peers()); n != 0 {
		t.Errorf("the port has met %d processes", n)
	}
}

// TestRoutesAreBounded sends to more destinations than a port remembers.
func TestRoutesAreBounded(t *testing.T) {
	a := open(t, Config{})
	e := newEnd(a, a)
	for i := range maxRoutes + 100 {
		e.path.Dst = must4(127, 1, byte(i>>8), byte(i))
		a.routeOf(key{e.path.Src, e.path.Dst, 1})
	}
	if n := len(a.routes); n > maxRoutes {
		t.Errorf("%d routes", n)
	}
}

// TestPausesAreBounded: the pause between invitations of a process that never answers grows to
// mostPause.
func TestPausesAreBounded(t *testing.T) {
	var r route
	now := instant()
	for last := time.Duration(0); last < mostPause; last = r.pause {
		r.again(now)
		if r.pause <= last || r.next != now.Add(r.pause) {
			t.Fatalf("the pause after %v is %v, until %v", last, r.pause, r.next.Sub(now))
		}
	}
	r.again(now)
	if r.pause != mostPause {
		t.Errorf("the pause grows to %v", r.pause)
	}
}

// TestRareMessages sends one message to an address before and one after a process opens there. The second one is
// sent after the pause, and makes the two meet.
func TestRareMessages(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	at := b.Caps().Addrs[0]
	must.Do(t, b.Close())
	x := newEnd(a, a)
	x.path.Dst = at
	x.add(t, 0, 64, 0, 1)
	x.flush(t)
	b, err := openAt(at, Config{})
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	x.add(t, 0, 64, 1, 1)
	x.batch.Now = instant().Add(firstPause)
	must.Do(t, x.Send(x.batch))
	newEnd(b, a).awaitPeers(t, 1)
	x.awaitPeers(t, 1)
}

// TestPauseAfterMeeting: after a meeting that has lasted for goodTime, the pause before the next one is the
// first again, however long it was. After a shorter meeting, and after garbage, it is longer than before.
func TestPauseAfterMeeting(t *testing.T) {
	const before = 10 * time.Second
	for _, c := range []struct {
		why     string
		lasted  time.Duration
		garbled bool
		want    time.Duration
	}{
		{"a good meeting", goodTime, false, firstPause},
		{"a short meeting", goodTime / 2, false, 2 * before},
		{"a long meeting that ends with garbage", goodTime, true, 2 * before},
	} {
		a, b := open(t, Config{}), open(t, Config{})
		x, _ := met(t, a, b)
		r := x.routed()
		to := x.routeOf(r.key)
		to.pause, r.since, r.garbled = before, time.Now().Add(-c.lasted), c.garbled
		must.Do(t, b.Close())
		for end := time.Now().Add(waitLimit); x.routed() != nil && time.Now().Before(end); pause(t, a) {
			x.settle(t)
		}
		if to.pause != c.want || to.next != a.now.Add(c.want) {
			t.Errorf("%s: the pause is %v, until %v after the last message, want %v", c.why, to.pause, to.next.Sub(a.now), c.want)
		}
	}
}

// TestPeersMeanwhile asks for the peers of a port, in another goroutine, while the port leaves them. The race detector
// judges it.
func TestPeersMeanwhile(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	ended, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for first := true; ; first = false {
			_ = a.Peers()
			select {
			case <-ended:
				return
			default:
			}
			if first {
				asked <- struct{}{}
			}
		}
	}()
	<-asked
	a.unroute(x.routed())
	close(ended)
	<-asked
	y.settle(t)
	if n := len(a.Peers()); n != 0 {
		t.Errorf("the port has %d peers", n)
	}
}

// busyNetwork is a port of a network that never falls silent.
type busyNetwork struct{ Inner }

func (busyNetwork) Receive(ds []fabric.Datagram) (int, error) {
	for i := range ds {
		ds[i] = fabric.Datagram{Bytes: make([]byte, 64), Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2")}
	}
	return len(ds), nil
}

// TestBusyNetwork meets a peer while the network never falls silent. The ring is read after more datagrams than
// can have waited at the meeting, and not before.
func TestBusyNetwork(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, _ := met(t, a, b)
	b.Inner = busyNetwork{b.Inner}
	n, err := b.Inner.Receive(b.inbox[:3]) // not passed on at the meeting
	must.Do(t, err)
	b.held, b.read = b.inbox[:n], b.read+uint64(n)
	b.peers[0].fresh, b.peers[0].before, b.empty = true, b.read, false
	x.add(t, 0, 64, 0, 1)
	x.flush(t)
	ds := make([]fabric.Datagram, 2*inboxLen)
	for network := 0; network < 2*mostQueued; {
		n, err := b.Receive(ds)
		must.Do(t, err)
		for _, d := range ds[:n] {
			if !d.Bare {
				network++
				continue
			}
			if network < mostQueued {
				t.Errorf("the ring is read after %d datagrams, which may have waited at the meeting", network)
			}
			return
		}
	}
	t.Error("the ring is not read")
}
