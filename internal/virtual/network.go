package virtual

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
)

// Packet is a datagram in the network: a segment, or several of a run that
// travel together.
type Packet struct {
	arrival  deadline.Link
	To       *Adapter
	Datagram fabric.Datagram // its bytes belong to the packet
	Segments int
	Serial   uint64 // packets are numbered as they are sent
	Sent     clock.Instant
	Damaged  bool   // its bytes changed: the receiver must not believe it
	Forged   string // why it must have no effect; empty: it may
	Claim    bool   // a stranger sent it, and it may have an effect
}

// streamNet is the stream of random numbers of the network.
const streamNet = 2

// Network holds the packets on their way between adapters.
type Network struct {
	Faults
	Rand   *rand.Rand
	Healed clock.Instant // when the faults ended; Never: not yet
	Serial uint64        // of the last packet
	flight deadline.Heap[Packet]
	free   []*Packet
}

func (n *Network) init(seed uint64, f Faults) {
	n.Faults, n.Healed = f, clock.Never
	n.Rand = rand.New(rand.NewPCG(seed, streamNet))
	n.flight = deadline.New(func(p *Packet) *deadline.Link { return &p.arrival })
}

// Heal ends all faults. Packets in the network stay there.
func (n *Network) Heal(now clock.Instant) {
	n.Healed, n.Faults = now, Faults{Latency: n.Latency}
}

// IsHealed reports whether the faults have ended.
func (n *Network) IsHealed() bool { return n.Healed != clock.Never }

// Ship sends a copy of a datagram of some segments to an adapter, to arrive
// after the latency and a delay.
func (w *World) Ship(to *Adapter, d fabric.Datagram, segments int, delay time.Duration) *Packet {
	n := &w.Net
	p := new(Packet)
	if k := len(n.free); k > 0 {
		p, n.free = n.free[k-1], n.free[:k-1]
	}
	n.Serial++
	bytes := append(p.Datagram.Bytes[:0], d.Bytes...)
	*p = Packet{To: to, Datagram: d, Segments: segments, Serial: n.Serial, Sent: w.Now}
	p.Datagram.Bytes = bytes
	n.flight.Set(p, w.Now.Add(n.Latency+delay))
	return p
}

// Next returns when the next packet arrives.
func (n *Network) Next() clock.Instant { return n.flight.Next() }

// Len is the number of packets on their way.
func (n *Network) Len() int { return n.flight.Len() }

// Idle is the number of packets whose memory waits to be used again.
func (n *Network) Idle() int { return len(n.free) }

// Cuts holds what is cut off from the network, and until when.
type Cuts[K comparable] map[K]clock.Instant

// Has reports whether k is cut off.
func (c Cuts[K]) Has(k K, now clock.Instant) bool {
	until, ok := c[k]
	if ok && now >= until {
		delete(c, k)
		return false
	}
	return ok
}
