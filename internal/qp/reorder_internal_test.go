package qp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// keptModel is the simplest reorder buffer, slow but obviously correct.
type keptModel struct {
	next ib.PSN
	m    map[ib.PSN][]byte
}

// pass drops buffered packets before next.
func (k *keptModel) pass(next ib.PSN) {
	k.next = next
	for p := range k.m {
		if p.Diff(next) < 0 {
			delete(k.m, p)
		}
	}
}

// cost returns the bytes that the packets take.
func (k *keptModel) cost() (sum int) {
	for _, b := range k.m {
		sum += heldCost(len(b))
	}
	return sum
}

// first returns the lowest PSN that is held.
func (k *keptModel) first() ib.PSN {
	least := uint32(reorderWindow)
	for p := range k.m {
		least = min(least, p.Distance(k.next))
	}
	return k.next.Add(least)
}

// keepRun drives a keeper and its model.
type keepRun struct {
	*testing.T
	rand  *rand.Rand
	k     reorderBuffer
	model keptModel
	most  int // payload
}

// keep offers a packet ahead of the expected PSN, and checks the reason if it
// is refused.
func (r *keepRun) keep(ahead uint32) {
	p := Packet{Data: new(fabric.Datagram)}
	p.BTH.PSN = r.model.next.Add(ahead)
	p.Payload = make([]byte, r.rand.IntN(r.most+1))
	for i := range p.Payload {
		p.Payload[i] = byte(r.rand.Uint32())
	}
	if r.k.has(p.BTH.PSN) != (r.model.m[p.BTH.PSN] != nil) {
		r.Fatalf("PSN %v is held: %t", p.BTH.PSN, r.k.has(p.BTH.PSN))
	}
	if r.k.has(p.BTH.PSN) {
		return
	}
	r.model.pass(r.model.next)
	r.k.pass(r.model.next)
	slots := firstSlots
	for slots < len(r.k.slots) || uint32(slots) <= ahead {
		slots *= 2
	}
	cost := heldCost(len(p.Payload)) + slotSize*(slots-len(r.k.slots))
	held := r.model.cost() + slotSize*len(r.k.slots)
	others := r.k.pool.used - held
	p.Data.SrcPort = 7
	if len(r.model.m) > 0 && r.rand.IntN(20) == 0 {
		p.Data.SrcPort = 8
	}
	want := ahead < reorderWindow && held+cost <= min(maxHeldQueuePair, (maxHeldAdapter-others)/heldShare) && p.Data.SrcPort == 7
	if got := r.k.store(0, r.model.next, &p); got != want {
		r.Fatalf("a packet %d ahead that takes %d bytes beside %d (of others %d) from port %d is kept: %t", ahead, cost, held, others, p.Data.SrcPort, got)
	}
	if want {
		r.model.m[p.BTH.PSN] = bytes.Clone(p.Payload)
		if r.model.m[p.BTH.PSN] == nil {
			r.model.m[p.BTH.PSN] = []byte{}
		}
	}
	clear(p.Payload) // the port reuses this memory
}

// take takes the packet whose turn it is.
func (r *keepRun) take() {
	want, held := r.model.m[r.model.next]
	c := r.k.take(0, r.model.next)
	if (c != nil) != held {
		r.Fatalf("PSN %v: taken %t, want %t", r.model.next, c != nil, held)
	}
	if c == nil {
		return
	}
	if c.BTH.PSN != r.model.next || !bytes.Equal(c.Payload, want) {
		r.Fatalf("PSN %v with %d bytes is taken for PSN %v with %d", c.BTH.PSN, len(c.Payload), r.model.next, len(want))
	}
	delete(r.model.m, r.model.next)
	r.k.pool.put(c)
	r.model.pass(r.model.next.Next())
}

// check compares the buffered packets and their accounted size.
func (r *keepRun) check() {
	if r.k.holds() {
		r.k.pass(r.model.next)
	}
	if r.k.n != len(r.model.m) || r.k.holds() != (len(r.model.m) > 0) {
		r.Fatalf("%d packets are held, want %d", r.k.n, len(r.model.m))
	}
	if want := r.model.cost() + slotSize*len(r.k.slots); r.k.used != want || r.k.pool.used < want {
		r.Fatalf("%d bytes are counted, of the adapter %d, want %d", r.k.used, r.k.pool.used, want)
	}
	if !r.k.holds() && (r.k.slots != nil || r.k.pool.oldest != nil || r.k.pool.newest != nil) {
		r.Fatal("a keeper that holds nothing has slots, or a place in the line")
	}
	if first, ok := r.k.first(r.model.next); ok != r.k.holds() || ok && first != r.model.first() {
		r.Fatalf("the first that is held is %v, want %v", first, r.model.first())
	}
}

// TestL2_KeeperModel compares a reorder buffer with a map, through all
// operations of a connection, across the PSN wrap and up to the bounds.
func TestL2_KeeperModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			elsewhere := 0 // of other queue pairs
			if seed%4 == 1 {
				elsewhere = maxHeldAdapter - rnd.IntN(64<<10)
			}
			r := &keepRun{
				T: t, rand: rnd, most: []int{0, 256, 1024, 4096}[rnd.IntN(4)],
				k: reorderBuffer{pool: &ReorderPool{used: elsewhere}}, model: keptModel{m: map[ib.PSN][]byte{}},
			}
			r.model.next = ib.NewPSN(1<<24 - uint32(rnd.IntN(40)) - 1)
			for range 400 {
				switch n := rnd.IntN(100); {
				case n < 60:
					r.keep(1 + uint32(rnd.IntN(40)))
				case n < 61:
					r.keep(uint32(rnd.IntN(2 * reorderWindow)))
				case n < 62:
					r.keep(reorderWindow - uint32(rnd.IntN(2)))
				case n < 90:
					r.take()
				case n < 96:
					r.model.pass(r.model.next.Add(1 + uint32(rnd.IntN(3))))
				case n < 98:
					r.model.pass(r.model.next.Add(uint32(rnd.IntN(2 * reorderWindow))))
				default:
					r.k.clear()
					clear(r.model.m)
				}
				r.check()
			}
			if r.k.clear(); r.k.used != 0 || r.k.pool.used != elsewhere || r.k.holds() {
				t.Errorf("in the end %d bytes are counted, and of the adapter %d more than before", r.k.used, r.k.pool.used-elsewhere)
			}
		})
	}
}

// TestL2_KeptSize compares the accounted size of a buffered packet with its real
// size.
func TestL2_KeptSize(t *testing.T) {
	if n := int(unsafe.Sizeof(heldPacket{})); n > heldOverhead-slotSize {
		t.Errorf("a kept packet takes %d bytes beside its payload, and %d are counted", n, heldOverhead)
	}
}

// fill buffers packets of 4096 bytes until the room is used up.
func (k *reorderBuffer) fill(now clock.Instant) {
	p := Packet{Data: new(fabric.Datagram)}
	p.Payload = make([]byte, 4096)
	for p.BTH.PSN = ib.NewPSN(1); k.store(now, ib.PSN{}, &p); p.BTH.PSN = p.BTH.PSN.Next() {
	}
}

// TestL2_KeeperBounds lets peers open gaps on more and more queue pairs and never
// close them: a queue pair uses at most its share, all together at most the
// adapter's memory, and an honest queue pair always has room for its packets in
// flight.
func TestL2_KeeperBounds(t *testing.T) {
	pool := new(ReorderPool)
	var keepers []*reorderBuffer
	add := func() *reorderBuffer {
		k := &reorderBuffer{pool: pool}
		k.fill(0)
		keepers = append(keepers, k)
		return k
	}
	if k := add(); k.used > maxHeldQueuePair || k.used < maxHeldQueuePair-heldCost(4096)-slotSize*2048 {
		t.Errorf("one queue pair takes %d bytes, want %d", k.used, maxHeldQueuePair)
	}
	for len(keepers) < 16 {
		add()
	}
	if k := add(); k.used < 1<<20 {
		t.Errorf("beside 16 that never close their gaps a queue pair keeps %d bytes, want 1 MiB at least", k.used)
	}
	for len(keepers) < 1000 {
		add()
	}
	if pool.used > maxHeldAdapter {
		t.Errorf("1000 queue pairs take %d bytes, want no more than %d", pool.used, maxHeldAdapter)
	}
	if last := keepers[999]; last.n > 4 {
		t.Fatalf("the last of 1000 keeps %d packets: the pool is not full, and the rest shows nothing", last.n)
	}

	// Packets that have waited for long are dropped for others, but no more than
	// those need.
	k := &reorderBuffer{pool: pool}
	late := clock.Instant(staleGap)
	if k.fill(late - 1); k.n > 4 {
		t.Errorf("after %v a queue pair keeps %d packets: who waits for less than %v has lost what it held", staleGap-1, k.n, staleGap)
	}
	if k.fill(late); k.used < 1<<20 {
		t.Errorf("after %v a queue pair keeps %d bytes where others have held theirs for so long", staleGap, k.used)
	}
	if keepers[0].n != 0 || keepers[11].n == 0 {
		t.Errorf("the first to have come keeps %d packets, the twelfth %d: the first gives way, and no more than it takes", keepers[0].n, keepers[11].n)
	}
	k.clear()
	for _, k := range keepers {
		k.clear()
	}
	if pool.used != 0 || pool.oldest != nil || pool.newest != nil {
		t.Errorf("%d bytes are counted in the end", pool.used)
	}
	if n := len(pool.idle[heldClass(4096)]); n <= heldIdle || pool.held > maxHeldAdapter || pool.garbage[0] < maxGarbage-heldCost(4096) {
		t.Errorf("%d idle packets, %d bytes are held and %d let go: want all that may go, to go, and the rest to be held", n, pool.held, pool.garbage[0])
	}
	if n := len(pool.slots[slotClass(16)]); n < slotsIdle {
		t.Errorf("%d tables of slots are held to be used again, want %d", n, slotsIdle)
	}
	p := Packet{Data: new(fabric.Datagram)}
	p.Payload = make([]byte, 4097)
	if p.BTH.PSN = ib.NewPSN(1); keepers[0].store(0, ib.PSN{}, &p) {
		t.Error("a packet longer than any path MTU is kept")
	}
}

// TestL2_ProgressKeepsThePlace shows that a queue pair which closes one gap
// after another keeps its packets.
func TestL2_ProgressKeepsThePlace(t *testing.T) {
	pool := new(ReorderPool)
	busy, stuck, other := &reorderBuffer{pool: pool}, &reorderBuffer{pool: pool}, &reorderBuffer{pool: pool}
	busy.fill(0)
	stuck.fill(0)
	n := busy.n
	for i := range 8 {
		pool.put(busy.take(clock.Instant(staleGap/8)*clock.Instant(i+1), ib.NewPSN(uint32(i+1))))
	}
	pool.used += maxHeldAdapter / 8 * 7 // others
	other.fill(clock.Instant(staleGap))
	pool.used -= maxHeldAdapter / 8 * 7
	if busy.n != n-8 || stuck.n != 0 || other.n == 0 {
		t.Errorf("who closes gaps keeps %d of %d packets, who closes none %d, and who comes %d", busy.n, n-8, stuck.n, other.n)
	}
}
