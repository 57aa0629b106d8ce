//go:build !portable

package near

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// stranger is a socket with the address of a port, of a process that is not its owner.
type stranger struct {
	*net.UDPConn
}

func newStranger(t testing.TB, from, to *Port) *stranger {
	t.Helper()
	at := func(p *Port, port uint16) *net.UDPAddr {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Caps().Addrs[0], port))
	}
	c, err := net.DialUDP("udp", at(from, 0), at(to, fabric.RoCEPort))
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &stranger{UDPConn: c}
}

// send sends packets.
func (s *stranger) send(t testing.TB, n int) {
	t.Helper()
	for range n {
		_, err := s.Write(make([]byte, 64))
		must.Do(t, err)
	}
}

// arrivals receives n datagrams, and returns how many of them are in the name of a slot that sends
// its packets another way.
func (e *end) arrivals(t testing.TB, slot uint8, n int) (refused int) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	for n > 0 {
		for _, d := range e.next(t, ds) {
			if n--; d.Barred.Has(slot) {
				refused++
			}
		}
	}
	return refused
}

// barPeers has a port notice, as if it had taken its time, that its peers send by their rings.
func (e *end) barPeers(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	for _, r := range e.peers {
		if !r.switched.IsZero() {
			r.switched = r.switched.Add(-settleTime)
		}
	}
	e.mu.Unlock()
	e.settle(t)
}

// TestForgedPackets has a stranger send packets in the name of a process. Once the two ports have met,
// and earlier packets have had time to arrive, the receiver marks them, and only these.
func TestForgedPackets(t *testing.T) {
	a, b, c := open(t, Config{}), open(t, Config{}), open(t, Config{})
	s, other := newStranger(t, a, b), newStranger(t, c, b)
	y := newEnd(b, a)
	s.send(t, 3)
	if n := y.arrivals(t, 0, 3); n != 0 {
		t.Errorf("%d packets are refused before the ports have met", n)
	}
	x, y := met(t, a, b)
	s.send(t, 3)
	if n := y.arrivals(t, 0, 3); n != 0 {
		t.Errorf("%d packets are refused at once", n)
	}
	y.barPeers(t)
	s.send(t, 3)
	if n := y.arrivals(t, 0, 3); n != 3 {
		t.Errorf("%d of 3 forged packets are refused", n)
	}
	s.send(t, 1)
	if n := y.arrivals(t, 1, 1); n != 0 {
		t.Error("a packet of another slot is refused")
	}
	other.send(t, 2)
	if n := y.arrivals(t, 0, 2); n != 0 {
		t.Error("packets of an address that was not met are refused")
	}
	x.add(t, 0, 64, 0, 5)
	x.flush(t)
	if n := y.arrivals(t, 0, 1); n != 0 {
		t.Error("packets through memory are refused")
	}
}

// TestTimeToSettle waits until a port refuses forged packets: not before settleTime has passed.
func TestTimeToSettle(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	began := time.Now()
	_, y := met(t, a, b)
	s := newStranger(t, a, b)
	for end := time.Now().Add(waitLimit); ; pause(t, b) {
		s.send(t, 1)
		if y.arrivals(t, 0, 1) == 1 {
			break
		}
		y.settle(t)
		if time.Now().After(end) {
			t.Fatal("forged packets are not refused")
		}
	}
	if took := time.Since(began); took < settleTime {
		t.Errorf("forged packets are refused %v after the ports met, want at least %v", took, settleTime)
	}
}

// TestPacketsOnTheirWay lets packets wait in the socket while the ports meet, for longer than they may.
// They are received, since the port was not empty; later ones are refused.
func TestPacketsOnTheirWay(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	_, y := met(t, a, b)
	s := newStranger(t, a, b)
	s.send(t, inboxLen+4)
	b.mu.Lock()
	for _, r := range b.peers {
		r.switched = time.Now().Add(-settleTime)
	}
	b.mu.Unlock()
	if n := y.arrivals(t, 0, inboxLen+4); n != 0 {
		t.Errorf("%d packets are refused that were on their way", n)
	}
	y.settle(t)
	s.send(t, 2)
	if n := y.arrivals(t, 0, 2); n != 2 {
		t.Errorf("%d of 2 forged packets are refused", n)
	}
}

// TestReturnToTheNetwork has one of two processes leave the meeting, again and again. None of the
// packets that it then sends by the network is refused.
func TestReturnToTheNetwork(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	for round := range 20 {
		x, y := met(t, a, b)
		y.barPeers(t)
		x.add(t, 0, 64, 0, 3)
		x.flush(t)
		a.mu.Lock()
		a.unroute(x.routed())
		a.mu.Unlock()
		x.add(t, 0, 64, 3, 3)
		x.flush(t)
		ds := make([]fabric.Datagram, inboxLen)
		for got := 0; got < 6; {
			for _, d := range y.next(t, ds) {
				if d.Barred.Has(0) {
					t.Fatalf("round %d: a packet is refused after its sender has returned to the network", round)
				}
				got += d.Segments()
			}
		}
		x.awaitPeers(t, 0)
		y.awaitPeers(t, 0)
		for _, e := range []*end{x, y} {
			e.settle(t)
			r := e.routeOf(key{e.path.Src, e.path.Dst, 0})
			r.next, r.pause = 0, 0 // it has passed, and is short if the attempt that ends now makes the next one fail
		}
	}
}

// TestEndedPeer has a process end without a word. A later one at its address may send by the network.
func TestEndedPeer(t *testing.T) {
	p := open(t, Config{})
	e := newEnd(p, p)
	who := visitorAt(1)
	m := visit(t, p, who)
	e.awaitPeers(t, 1)
	m.Out.Switch()
	e.settle(t)
	e.barPeers(t)
	b := p.barred[pair{e.path.Src, who.Addr}]
	if b == nil || !b.slots.Has(who.Slot) {
		t.Fatal("packets in the name of the peer are not refused")
	}
	must.Do(t, m.Close())
	e.awaitPeers(t, 0)
	e.settle(t)
	if len(p.barred) != 0 {
		t.Error("packets in the name of a peer that has ended are refused")
	}
}
