package sim

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near"
	"github.com/softhca/softhca/internal/virtual"
)

// socket is the port that a carrier wraps: what the simulated network delivers waits in it.
type socket struct {
	c       *carrier
	caps    fabric.Caps
	waiting []*arrival // not read
	read    []*arrival // and not passed on
	free    []*arrival
	arrived uint64
	taken   []*byte // the first bytes of the runs that the network took
	next    func()  // nil: nothing happens after the next arrival
}

// arrival is a packet in a socket.
type arrival struct {
	virtual.Packet
	number uint64 // of the arrivals at the socket
}

var _ near.Inner = (*socket)(nil)

// arrives puts a packet into the socket.
func (s *socket) arrives(p *virtual.Packet) {
	a := new(arrival)
	if n := len(s.free); n > 0 {
		a, s.free = s.free[n-1], s.free[:n-1]
	}
	bytes := append(a.Datagram.Bytes[:0], p.Datagram.Bytes...)
	s.arrived++
	*a = arrival{*p, s.arrived}
	a.Datagram.Bytes = bytes
	s.waiting = append(s.waiting, a)
	s.c.wakes()
	if do := s.next; do != nil {
		s.next = nil
		s.c.after(s.c.draw(pollTime), do)
	}
}

// passed returns the arrival of a datagram that the port passes on, which must be the next that
// it has read; nil if the datagram is of a ring.
func (s *socket) passed(d *fabric.Datagram) *arrival {
	for i, a := range s.read {
		if &a.Datagram.Bytes[0] != &d.Bytes[0] {
			continue
		}
		if i > 0 {
			s.c.n.w.Fail("carrier", "adapter %d passes on the datagram %d of the network before %d", s.c.n.Index, a.number, s.read[0].number)
		}
		s.read = append(s.read[:i], s.read[i+1:]...)
		return a
	}
	return nil
}

// release gives the memory of an arrival back.
func (s *socket) release(a *arrival) { s.free = append(s.free, a) }

// holds reports whether a datagram with the addresses of d is not passed on that is among the
// first arrivals.
func (s *socket) holds(d *fabric.Datagram, first uint64) bool {
	for _, list := range [][]*arrival{s.read, s.waiting} {
		for _, a := range list {
			if a.number <= first && a.Datagram.Src == d.Src && a.Datagram.Dst == d.Dst {
				return true
			}
		}
	}
	return false
}

// took reports whether the network took a run. The runs are asked for in order.
func (s *socket) took(r *fabric.Run) bool {
	if len(s.taken) == 0 || s.taken[0] != &r.Bytes[0] {
		return false
	}
	s.taken = s.taken[1:]
	return true
}

// Send implements fabric.Port.
func (s *socket) Send(b *fabric.Batch) error {
	runs := b.Pending()
	for i := range runs {
		s.taken = append(s.taken, &runs[i].Bytes[0])
		s.c.n.w.carry(s.c.n, &runs[i])
	}
	b.Sent(len(runs))
	return nil
}

// Receive implements fabric.Port.
func (s *socket) Receive(ds []fabric.Datagram) (int, error) {
	n := min(len(ds), len(s.waiting))
	for i, a := range s.waiting[:n] {
		ds[i] = a.Datagram
	}
	s.read = append(s.read, s.waiting[:n]...)
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	return n, nil
}

// Wait implements fabric.Port.
func (s *socket) Wait(timeout time.Duration, read, _ bool) error {
	return s.c.thread.wait(timeout, read && len(s.waiting) > 0 || s.Watched())
}

// Wake implements fabric.Port.
func (s *socket) Wake() {
	s.c.thread.woken = true
	s.c.wakes()
}

// Watched implements near.Inner: it reports whether a wake-up of a peer waits.
func (s *socket) Watched() bool { return len(s.c.Rung()) > 0 }

// Watch implements near.Inner.
func (s *socket) Watch(int) {}

// Enter implements near.Inner.
func (s *socket) Enter() bool { return true }

// Exit implements near.Inner.
func (s *socket) Exit() {}

// Caps implements fabric.Port.
func (s *socket) Caps() fabric.Caps { return s.caps }

// Join implements fabric.Port. No program of the simulation joins a group.
func (s *socket) Join(netip.Addr) error { return ib.EOPNOTSUPP }

// Leave implements fabric.Port.
func (s *socket) Leave(netip.Addr) error { return ib.EINVAL }

// WakeOn implements fabric.Port.
func (s *socket) WakeOn([2]int) {}

// Stats implements fabric.Port.
func (s *socket) Stats() fabric.Stats { return s.c.counts.Stats() }

// Close implements fabric.Port.
func (s *socket) Close() error { return nil }
