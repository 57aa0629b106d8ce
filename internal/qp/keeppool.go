package qp

import (
	"math/bits"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// Bounds of an adapter's memory for packets that are kept, in bytes. Garbage counts until
// the collector has run for certain, so that the heap never takes more than both.
const (
	keepAdapter = 60 << 20 // kept packets, and memory held to be used again
	keepGarbage = 4 << 20  // let go within the last period
)

// keepPeriod is the longest time between two runs of the garbage collector: Go's runtime
// forces one after two minutes.
const keepPeriod = 2 * time.Minute

// A kept packet has room for 256 bytes of payload or a power of two more, up
// to the largest path MTU.
const (
	keptSmallest = 256
	keptClasses  = 5
	keptOverhead = 328 // bytes of a kept packet without its payload, with its place in idle
	slotSize     = 8   // bytes of a slot
	firstSlots   = 16
	slotClasses  = 9   // sizes of tables of slots, from firstSlots to keepAhead
	keptIdle     = 256 // packets of each size whose memory is held to be used again
	slotsIdle    = 4   // tables of slots of each size likewise
)

// KeepPool is the memory in which the queue pairs of an adapter keep packets
// that came before their turn. A peer may open gaps and never close them, on as
// many queue pairs as it has: what each of them takes leaves room for others, and
// those that have waited longest give way.
type KeepPool struct {
	used   int // bytes of what keepers hold
	held   int // bytes of that, and of idle and slots
	idle   [keptClasses][]*keptPacket
	slots  [slotClasses][][]*keptPacket // that are empty
	oldest *keeper                      // of those that hold anything, the one whose gap has been open for longest,
	newest *keeper                      // and on to the one that closed a gap last

	since   clock.Instant // when this period began
	garbage [2]int        // bytes let go in this period and in the one before
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
func keptCost(n int) int { return classCost(keptClass(n)) }

func classCost(c int) int { return keptSmallest<<c + keptOverhead }

// slotClass returns which size a table of n slots has.
func slotClass(n int) int { return bits.Len(uint(n) / (2 * firstSlots)) }

func tableCost(c int) int { return firstSlots << c * slotSize }

// begin starts a new period if this one is over.
func (m *KeepPool) begin(now clock.Instant) {
	switch age := now.Sub(m.since); {
	case age >= 2*keepPeriod:
		m.since, m.garbage = now, [2]int{}
	case age >= keepPeriod:
		m.since, m.garbage = now, [2]int{0, m.garbage[0]}
	}
}

// get returns a packet with room for n bytes of payload; nil if there is no memory for it.
func (m *KeepPool) get(n int) *keptPacket {
	c := keptClass(n)
	if i := len(m.idle[c]) - 1; i >= 0 {
		k := m.idle[c][i]
		m.idle[c] = m.idle[c][:i]
		return k
	}
	if !m.hold(classCost(c)) {
		return nil
	}
	return &keptPacket{room: make([]byte, keptSmallest<<c)}
}

// put takes a packet back; k may be nil.
func (m *KeepPool) put(k *keptPacket) {
	if k == nil {
		return
	}
	c := keptClass(len(k.room))
	if len(m.idle[c]) >= keptIdle && m.letGo(classCost(c)) {
		return
	}
	k.Packet = Packet{}
	m.idle[c] = append(m.idle[c], k)
}

// getOne returns a packet that no keeper holds, with room for n bytes; nil if the adapter's
// bound is reached. putOne takes it back.
func (m *KeepPool) getOne(n int) *keptPacket {
	if m.used+keptCost(n) > keepAdapter {
		return nil
	}
	k := m.get(n)
	if k != nil {
		m.used += keptCost(n)
	}
	return k
}

func (m *KeepPool) putOne(k *keptPacket) {
	m.used -= keptCost(len(k.room))
	m.put(k)
}

// hold counts bytes of new memory. Where the bound is reached, memory of other sizes goes
// instead. It reports false if that would be more garbage than may be.
func (m *KeepPool) hold(bytes int) bool {
	for m.held+bytes > keepAdapter {
		if !m.shed() {
			return false
		}
	}
	m.held += bytes
	return true
}

// letGo reports whether memory may become garbage, and counts it then.
func (m *KeepPool) letGo(bytes int) bool {
	if m.garbage[0]+m.garbage[1]+bytes > keepGarbage {
		return false
	}
	m.garbage[0] += bytes
	m.held -= bytes
	return true
}

// shed lets go one of the idle packets or tables, of the size that has most bytes.
func (m *KeepPool) shed() bool {
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

// dropLast shortens a list by one, and forgets the element.
func dropLast[T any](s []T) []T {
	last := len(s) - 1
	clear(s[last:])
	return s[:last]
}

// enter puts a keeper that holds its first packet at the end of the line.
func (m *KeepPool) enter(k *keeper, now clock.Instant) {
	k.since, k.before, k.after = now, m.newest, nil
	if m.newest == nil {
		m.oldest = k
	} else {
		m.newest.after = k
	}
	m.newest = k
}

// leave takes a keeper out of the line.
func (m *KeepPool) leave(k *keeper) {
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

// evict empties the keeper that has waited longest, for another one, and reports
// whether it has waited long enough.
func (m *KeepPool) evict(other *keeper, now clock.Instant) bool {
	k := m.oldest
	if k == nil || k == other || now.Sub(k.since) < keepStale {
		return false
	}
	k.clear()
	return true
}

// table returns n empty slots; nil if there is no memory for them.
func (m *KeepPool) table(n int) []*keptPacket {
	c := slotClass(n)
	if last := len(m.slots[c]) - 1; last >= 0 {
		t := m.slots[c][last]
		m.slots[c] = m.slots[c][:last]
		return t
	}
	if !m.hold(tableCost(c)) {
		return nil
	}
	return make([]*keptPacket, n)
}

// putTable takes back slots that are empty.
func (m *KeepPool) putTable(t []*keptPacket) {
	if len(t) == 0 {
		return
	}
	c := slotClass(len(t))
	if len(m.slots[c]) >= slotsIdle && m.letGo(tableCost(c)) {
		return
	}
	m.slots[c] = append(m.slots[c], t)
}
