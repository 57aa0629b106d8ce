package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Bounds of a reorder buffer, in PSNs and in bytes of memory.
const (
	reorderWindow    = 1 << 12 // PSNs from the gap on
	maxHeldQueuePair = 4 << 20
	heldShare        = 5 // a queue pair takes at most 1/5 of the remaining memory
)

// staleGap is how long a gap may stay open before other queue pairs may reclaim
// the memory of its reorder buffer.
const staleGap = time.Second

// reorderBuffer is the reorder buffer of one direction of a queue pair: it holds
// packets that arrived beyond a gap, by PSN. The first packet with a PSN wins.
//
// It accepts any PSN within reach, which is easier to guess than the expected
// PSN. So all its packets must come from one UDP source port: that of the packet
// that closes the gap, and the peer's, once known.
type reorderBuffer struct {
	pool  *ReorderPool
	slots []*heldPacket // by PSN, modulo their number, which is a power of two; none while nothing is held
	n     int           // packets
	port  uint16        // the UDP source port of all of them
	used  int           // bytes, including the slots
	next  ib.PSN        // next expected PSN: nothing before it is held

	since         clock.Instant  // time of the last progress
	before, after *reorderBuffer // in the pool's list, oldest first
}

// keep copies p, whose PSN comes after next and is not held yet. It reports
// false when a bound is reached, or when the held packets came from another
// port.
func (k *reorderBuffer) store(now clock.Instant, next ib.PSN, p *Packet) bool {
	k.pass(next)
	k.pool.begin(now)
	ahead := p.BTH.PSN.Distance(next)
	if ahead >= reorderWindow || len(p.Payload) > heldSmallest<<(heldClasses-1) || k.n > 0 && p.Data.SrcPort != k.port {
		return false
	}
	cost, slots := heldCost(len(p.Payload)), k.reach(ahead)
	if !k.charge(cost+(slots-len(k.slots))*slotSize, now) {
		return false
	}
	c := k.pool.get(len(p.Payload))
	if c == nil || !k.grow(slots) {
		k.pool.put(c)
		k.count(-cost - (slots-len(k.slots))*slotSize)
		return false
	}
	c.copy(p)
	*k.slot(p.BTH.PSN) = c
	if k.n++; k.n == 1 {
		k.port = p.Data.SrcPort
		k.pool.enter(k, now)
	}
	return true
}

// charge counts bytes, if the bounds allow.
func (k *reorderBuffer) charge(bytes int, now clock.Instant) bool {
	for {
		left := maxHeldAdapter - (k.pool.used - k.used) // by others
		if k.used+bytes <= min(maxHeldQueuePair, left/heldShare) {
			k.count(bytes)
			return true
		}
		if k.used+bytes > maxHeldQueuePair || !k.pool.evict(k, now) {
			return false
		}
	}
}

// count adds to the byte counts of the buffer and the pool.
func (k *reorderBuffer) count(bytes int) {
	k.used += bytes
	k.pool.used += bytes
}

// reach returns the number of slots needed for a packet that is ahead PSNs
// beyond next.
func (k *reorderBuffer) reach(ahead uint32) int {
	n := max(len(k.slots), firstSlots)
	for uint32(n) <= ahead {
		n *= 2
	}
	return n
}

// grow makes room for n slots, and reports whether there is memory for them.
func (k *reorderBuffer) grow(n int) bool {
	old := k.slots
	if n == len(old) {
		return true
	}
	more := k.pool.table(n)
	if more == nil {
		return false
	}
	k.slots = more
	for i, c := range old {
		if c != nil {
			*k.slot(c.BTH.PSN) = c
			old[i] = nil
		}
	}
	k.pool.putTable(old)
	return true
}

// slot returns the slot of a PSN that is within reach.
func (k *reorderBuffer) slot(p ib.PSN) **heldPacket {
	return &k.slots[p.Distance(ib.PSN{})&uint32(len(k.slots)-1)]
}

// pass advances to next and drops packets held before it.
func (k *reorderBuffer) pass(next ib.PSN) {
	for n := next.Distance(k.next); n > 0 && k.n > 0; n-- {
		if c := *k.slot(k.next); c != nil && c.BTH.PSN == k.next {
			k.remove(c)
			k.pool.put(c)
		}
		k.next = k.next.Next()
	}
	k.next = next
}

// take removes and returns the packet at next, nil if it is not held. The
// caller gives it back to the pool.
func (k *reorderBuffer) take(now clock.Instant, next ib.PSN) *heldPacket {
	if !k.holds() {
		return nil
	}
	k.pass(next)
	c := k.at(next)
	if c == nil {
		return nil
	}
	k.pool.leave(k)
	k.pool.enter(k, now)
	k.remove(c)
	return c
}

// remove removes one packet; removing the last one also frees the slots.
func (k *reorderBuffer) remove(c *heldPacket) {
	*k.slot(c.BTH.PSN) = nil
	k.count(-heldCost(len(c.Payload)))
	if k.n--; k.n == 0 {
		k.count(-k.used)
		k.pool.putTable(k.slots)
		k.slots = nil
		k.pool.leave(k)
	}
}

// clear drops all packets.
func (k *reorderBuffer) clear() {
	if k == nil {
		return
	}
	for _, c := range k.slots {
		if c != nil {
			k.remove(c)
			k.pool.put(c)
		}
	}
}

// first returns the lowest PSN from next on that is held, if one is.
func (k *reorderBuffer) first(next ib.PSN) (ib.PSN, bool) {
	if k == nil || k.n == 0 {
		return next, false
	}
	if k.pass(next); k.n == 0 {
		return next, false
	}
	for *k.slot(next) == nil {
		next = next.Next()
	}
	return next, true
}

// at returns the packet that is held at p, nil if there is none.
func (k *reorderBuffer) at(p ib.PSN) *heldPacket {
	if !k.holds() {
		return nil
	}
	if c := *k.slot(p); c != nil && c.BTH.PSN == p {
		return c
	}
	return nil
}

// has reports whether the packet at p is held.
func (k *reorderBuffer) has(p ib.PSN) bool { return k.at(p) != nil }

// from tells the buffer the peer's port: packets from another port are a
// stranger's and are dropped.
func (k *reorderBuffer) from(port uint16) {
	if k.holds() && k.port != port {
		k.clear()
	}
}

// holds reports whether anything is held.
func (k *reorderBuffer) holds() bool { return k != nil && k.n > 0 }
