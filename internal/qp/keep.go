package qp

import (
	"math/bits"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// Bounds of what is kept beyond a gap, in bytes of memory and in PSNs.
const (
	keepQueuePair = 4 << 20
	keepAdapter   = 64 << 20
	keepAhead     = 1 << 14 // from the gap on
)

// A kept packet has room for 256 bytes of payload or a power of two more, up
// to the largest path MTU.
const (
	keptSmallest = 256
	keptClasses  = 5
	keptOverhead = 320 // bytes of a kept packet beside its payload
	slotSize     = 8   // bytes of a slot
	firstSlots   = 16
	keptIdle     = 256 // packets of each size whose memory is held to be used again
)

// KeepPool is the memory in which the queue pairs of an adapter keep packets
// that came before their turn.
type KeepPool struct {
	used int // bytes
	idle [keptClasses][]*keptPacket
}

// keptPacket is a packet that came before its turn.
type keptPacket struct {
	Packet
	from fabric.Datagram // Data, without its bytes, which are the port's
	room []byte          // for the payload
}

// copy takes all of p over, its payload into room.
func (c *keptPacket) copy(p *Packet) {
	c.Packet, c.from = *p, *p.Data
	c.from.Bytes, c.Data = nil, &c.from
	c.Payload = c.room[:copy(c.room, p.Payload)]
}

// keptClass returns which size has room for n bytes.
func keptClass(n int) int { return bits.Len(uint(max(n, 1)-1) / keptSmallest) }

// keptCost returns the bytes that a packet with n bytes of payload takes.
func keptCost(n int) int { return keptSmallest<<keptClass(n) + keptOverhead }

func (m *KeepPool) get(n int) *keptPacket {
	c := keptClass(n)
	if i := len(m.idle[c]) - 1; i >= 0 {
		k := m.idle[c][i]
		m.idle[c] = m.idle[c][:i]
		return k
	}
	return &keptPacket{room: make([]byte, keptSmallest<<c)}
}

func (m *KeepPool) put(k *keptPacket) {
	if c := keptClass(len(k.room)); len(m.idle[c]) < keptIdle {
		k.Packet = Packet{}
		m.idle[c] = append(m.idle[c], k)
	}
}

// keeper holds the packets of one direction of a queue pair that came before
// their turn, by PSN. The first that came with a PSN is the one that counts.
type keeper struct {
	pool  *KeepPool
	slots []*keptPacket // by PSN, modulo their number, which is a power of two
	n     int           // packets
	used  int           // bytes, those of the slots too
	next  ib.PSN        // whose turn is next: none before it is held
}

// keep copies p, whose turn comes after next and which is not held, and reports
// whether it is now. It fails when a bound is reached.
func (k *keeper) keep(next ib.PSN, p *Packet) bool {
	k.pass(next)
	ahead := p.BTH.PSN.Distance(next)
	if ahead >= keepAhead || len(p.Payload) > keptSmallest<<(keptClasses-1) || !k.reach(ahead) {
		return false
	}
	if !k.charge(keptCost(len(p.Payload))) {
		return false
	}
	c := k.pool.get(len(p.Payload))
	c.copy(p)
	*k.slot(p.BTH.PSN) = c
	k.n++
	return true
}

// charge counts bytes, if the bounds let it.
func (k *keeper) charge(bytes int) bool {
	if k.used+bytes > keepQueuePair || k.pool.used+bytes > keepAdapter {
		return false
	}
	k.used += bytes
	k.pool.used += bytes
	return true
}

// slot returns the place of a PSN that is within reach.
func (k *keeper) slot(p ib.PSN) **keptPacket {
	return &k.slots[p.Distance(ib.PSN{})&uint32(len(k.slots)-1)]
}

// reach makes room for slots so far ahead of next.
func (k *keeper) reach(ahead uint32) bool {
	n := max(len(k.slots), firstSlots)
	for uint32(n) <= ahead {
		n *= 2
	}
	if n == len(k.slots) {
		return true
	}
	if !k.charge((n - len(k.slots)) * slotSize) {
		return false
	}
	old := k.slots
	k.slots = make([]*keptPacket, n)
	for _, c := range old {
		if c != nil {
			*k.slot(c.BTH.PSN) = c
		}
	}
	return true
}

// pass says that the turn of next has come: what is held from before it is
// let go.
func (k *keeper) pass(next ib.PSN) {
	for n := next.Distance(k.next); n > 0 && k.n > 0; n-- {
		if c := *k.slot(k.next); c != nil && c.BTH.PSN == k.next {
			k.remove(c)
			k.pool.put(c)
		}
		k.next = k.next.Next()
	}
	k.next = next
}

// take returns the packet whose turn it is, nil if it is not held. The caller
// gives it back to the pool.
func (k *keeper) take(next ib.PSN) *keptPacket {
	if k == nil || k.n == 0 {
		return nil
	}
	if k.pass(next); k.n == 0 {
		return nil
	}
	c := *k.slot(next)
	if c != nil {
		k.remove(c)
	}
	return c
}

// remove takes one packet out.
func (k *keeper) remove(c *keptPacket) {
	*k.slot(c.BTH.PSN) = nil
	k.n--
	k.charge(-keptCost(len(c.Payload)))
}

// clear lets everything go.
func (k *keeper) clear() {
	if k == nil {
		return
	}
	for _, c := range k.slots {
		if c != nil {
			k.remove(c)
			k.pool.put(c)
		}
	}
	k.charge(-k.used)
	k.slots = nil
}

// first returns the lowest PSN from next on that is held. Something is held.
func (k *keeper) first(next ib.PSN) ib.PSN {
	for k.pass(next); *k.slot(next) == nil; {
		next = next.Next()
	}
	return next
}

// has reports whether the packet at p is held.
func (k *keeper) has(p ib.PSN) bool {
	if !k.holds() {
		return false
	}
	c := *k.slot(p)
	return c != nil && c.BTH.PSN == p
}

// holds reports whether anything is held.
func (k *keeper) holds() bool { return k != nil && k.n > 0 }
