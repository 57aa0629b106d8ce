package qp

import (
	"math/bits"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// Bounds of an adapter's reorder buffer memory, in bytes. Freed memory counts as garbage
// until the garbage collector has certainly run, so the heap never holds more than the
// sum of both.
const (
	maxHeldAdapter = 60 << 20 // held packets, and idle memory for reuse
	maxGarbage     = 4 << 20  // freed within the last period
)

// collectionPeriod is the longest time between two runs of the garbage collector: Go's runtime
// forces one after two minutes.
const collectionPeriod = 2 * time.Minute

// A held packet has room for 256 bytes of payload or a power-of-two multiple,
// up to the largest path MTU.
const (
	heldSmallest = 256
	heldClasses  = 5
	heldOverhead = 360 // bytes of a held packet without payload, as the runtime allocates it, and its entry in idle
	slotSize     = 8   // bytes of a slot
	firstSlots   = 16
	slotClasses  = 9   // sizes of tables of slots, from firstSlots to reorderWindow
	heldIdle     = 256 // packets of each size that are pooled for reuse
	slotsIdle    = 4   // slot tables of each size that are pooled
)

// ReorderPool is the memory of an adapter's reorder buffers. A peer can open gaps
// and never close them, on all of its queue pairs. So each buffer leaves room for
// others, and the buffers whose gaps have been open longest are evicted first.
type ReorderPool struct {
	used   int // bytes in the reorder buffers
	held   int // used, plus the bytes of idle and slots
	idle   [heldClasses][]*heldPacket
	slots  [slotClasses][][]*heldPacket // pooled slot tables
	oldest *reorderBuffer               // list of the nonempty buffers, from the one whose gap has been open longest
	newest *reorderBuffer               // to the buffer with the latest progress

	since   clock.Instant // when this period began
	garbage [2]int        // bytes freed in this period and in the one before
}

// heldPacket is a packet in a reorder buffer.
type heldPacket struct {
	Packet
	from fabric.Datagram // copy of Data, without the payload, which the port owns
	room []byte          // for the payload
}

// copy copies p, its payload into room.
func (c *heldPacket) copy(p *Packet) {
	c.Packet, c.from = *p, *p.Data
	c.from.Bytes, c.Data = nil, &c.from
	c.Payload = c.room[:copy(c.room, p.Payload)]
}

// keptClass returns the size class for n bytes.
func heldClass(n int) int { return bits.Len(uint(max(n, 1)-1) / heldSmallest) }

// keptCost returns the bytes that a packet with n bytes of payload uses.
func heldCost(n int) int { return classCost(heldClass(n)) }

func classCost(c int) int { return heldSmallest<<c + heldOverhead }

// slotClass returns the size class of a table of n slots.
func slotClass(n int) int { return bits.Len(uint(n) / (2 * firstSlots)) }

func tableCost(c int) int { return firstSlots << c * slotSize }

// begin starts a new period if this one is over.
func (m *ReorderPool) begin(now clock.Instant) {
	switch age := now.Sub(m.since); {
	case age >= 2*collectionPeriod:
		m.since, m.garbage = now, [2]int{}
	case age >= collectionPeriod:
		m.since, m.garbage = now, [2]int{0, m.garbage[0]}
	}
}

// get returns a packet with room for n bytes of payload; nil if there is no memory for it.
func (m *ReorderPool) get(n int) *heldPacket {
	c := heldClass(n)
	if i := len(m.idle[c]) - 1; i >= 0 {
		k := m.idle[c][i]
		m.idle[c] = m.idle[c][:i]
		return k
	}
	if !m.hold(classCost(c)) {
		return nil
	}
	return &heldPacket{room: make([]byte, heldSmallest<<c)}
}

// put frees a packet; k may be nil.
func (m *ReorderPool) put(k *heldPacket) {
	if k == nil {
		return
	}
	c := heldClass(len(k.room))
	if len(m.idle[c]) >= heldIdle && m.letGo(classCost(c)) {
		return
	}
	k.Packet = Packet{}
	m.idle[c] = append(m.idle[c], k)
}

// getOne returns a packet outside of any reorder buffer, with room for n bytes; nil if the
// adapter's bound is reached. putOne frees it.
func (m *ReorderPool) getOne(n int) *heldPacket {
	if m.used+heldCost(n) > maxHeldAdapter {
		return nil
	}
	k := m.get(n)
	if k != nil {
		m.used += heldCost(n)
	}
	return k
}

func (m *ReorderPool) putOne(k *heldPacket) {
	m.used -= heldCost(len(k.room))
	m.put(k)
}

// hold counts bytes of new memory. At the bound it first frees pooled memory of other
// sizes. It reports false if that would exceed the bound on garbage.
func (m *ReorderPool) hold(bytes int) bool {
	for m.held+bytes > maxHeldAdapter {
		if !m.shed() {
			return false
		}
	}
	m.held += bytes
	return true
}

// letGo reports whether bytes of memory may become garbage, and if so counts
// them.
func (m *ReorderPool) letGo(bytes int) bool {
	if m.garbage[0]+m.garbage[1]+bytes > maxGarbage {
		return false
	}
	m.garbage[0] += bytes
	m.held -= bytes
	return true
}

// shed frees one pooled packet or table, of the size class that uses most bytes.
func (m *ReorderPool) shed() bool {
	most, packets, tables := 0, -1, -1
	for c, all := range m.idle {
		if n := len(all) * classCost(c); n > most {
			most, packets = n, c
		}
	}
	for c, all := range m.slots {
		if n := len(all) * tableCost(c); n > most {
			most, tables = n, c
		}
	}
	switch {
	case tables >= 0 && m.letGo(tableCost(tables)):
		m.slots[tables] = dropLast(m.slots[tables])
	case tables < 0 && packets >= 0 && m.letGo(classCost(packets)):
		m.idle[packets] = dropLast(m.idle[packets])
	default:
		return false
	}
	return true
}

// dropLast shortens a list by one, and clears the dropped element.
func dropLast[T any](s []T) []T {
	last := len(s) - 1
	clear(s[last:])
	return s[:last]
}

// enter puts a reorder buffer at the end of the list.
func (m *ReorderPool) enter(k *reorderBuffer, now clock.Instant) {
	k.since, k.before, k.after = now, m.newest, nil
	if m.newest == nil {
		m.oldest = k
	} else {
		m.newest.after = k
	}
	m.newest = k
}

// leave removes a reorder buffer from the list.
func (m *ReorderPool) leave(k *reorderBuffer) {
	if k.before == nil {
		m.oldest = k.after
	} else {
		k.before.after = k.after
	}
	if k.after == nil {
		m.newest = k.before
	} else {
		k.after.before = k.before
	}
	k.before, k.after = nil, nil
}

// evict empties the reorder buffer whose gap has been open longest, to make room
// for other. It reports false if that gap is not open long enough.
func (m *ReorderPool) evict(other *reorderBuffer, now clock.Instant) bool {
	k := m.oldest
	if k == nil || k == other || now.Sub(k.since) < staleGap {
		return false
	}
	k.clear()
	return true
}

// table returns n empty slots; nil if there is no memory for them.
func (m *ReorderPool) table(n int) []*heldPacket {
	c := slotClass(n)
	if last := len(m.slots[c]) - 1; last >= 0 {
		t := m.slots[c][last]
		m.slots[c] = m.slots[c][:last]
		return t
	}
	if !m.hold(tableCost(c)) {
		return nil
	}
	return make([]*heldPacket, n)
}

// putTable frees a table of empty slots.
func (m *ReorderPool) putTable(t []*heldPacket) {
	if len(t) == 0 {
		return
	}
	c := slotClass(len(t))
	if len(m.slots[c]) >= slotsIdle && m.letGo(tableCost(c)) {
		return
	}
	m.slots[c] = append(m.slots[c], t)
}
