package qp

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// keepAttack is a peer that opens gaps on many queue pairs and never closes them.
type keepAttack struct {
	pool    *ReorderPool
	keepers []reorderBuffer
	p       Packet
}

func newKeepAttack(queuePairs int) *keepAttack {
	a := &keepAttack{pool: new(ReorderPool), keepers: make([]reorderBuffer, queuePairs), p: Packet{Data: new(fabric.Datagram)}}
	a.p.Payload = make([]byte, 4096)
	for i := range a.keepers {
		a.keepers[i].pool = a.pool
	}
	return a
}

// round fills every queue pair with packets of a size, from the next port.
func (a *keepAttack) round(now clock.Instant, size int) {
	a.p.Data.SrcPort++
	a.p.Payload = a.p.Payload[:size]
	for i := range a.keepers {
		k := &a.keepers[i]
		k.from(a.p.Data.SrcPort)
		for psn := uint32(1); psn < reorderWindow; psn++ {
			a.p.BTH.PSN = ib.NewPSN(psn)
			if !k.store(now, ib.PSN{}, &a.p) {
				break
			}
		}
	}
}

// keepSlack is the heap of the test itself and of growing free lists.
const keepSlack = 4 << 20

// TestL2_KeptHeap measures the heap while a peer fills the reorder buffers of 300
// queue pairs and replaces the packets by others of another size each second. The
// heap never exceeds the bound, including garbage and idle memory.
func TestL2_KeptHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // what programs have
	a := newKeepAttack(300)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most, used := m.HeapAlloc, uint64(0), 0
	for i := range 12 {
		a.round(clock.Instant(i)*clock.Instant(staleGap), []int{1, 4096, 257, 1024, 2048, 512}[i%6])
		runtime.ReadMemStats(&m)
		most, used = max(most, m.HeapAlloc-min(before, m.HeapAlloc)), max(used, a.pool.used)
	}
	if most > maxHeldAdapter+maxGarbage+keepSlack {
		t.Errorf("the heap takes %d MiB for what peers have kept here, want at most %d", most>>20, (maxHeldAdapter+maxGarbage)>>20)
	}
	if used < maxHeldAdapter-maxHeldAdapter/8 {
		t.Errorf("%d bytes were held: the attack does not reach the bound of %d", used, maxHeldAdapter)
	}
	runtime.KeepAlive(a)
}

// TestL2_KeptAcknowledgements counts the acknowledgements that wait for an answer to a READ,
// and checks that none waits once the adapter's memory is used up.
func TestL2_KeptAcknowledgements(t *testing.T) {
	pool := new(ReorderPool)
	k := pool.getOne(0)
	if k == nil || pool.used != heldCost(0) {
		t.Fatalf("%d bytes are counted for one acknowledgement, want %d", pool.used, heldCost(0))
	}
	if pool.putOne(k); pool.used != 0 {
		t.Errorf("%d bytes are counted after it went", pool.used)
	}
	pool.used = maxHeldAdapter - heldCost(0) + 1
	if pool.getOne(0) != nil {
		t.Error("an acknowledgement is kept beyond the bound")
	}
}

// BenchmarkKeep buffers a burst of packets beyond a gap, and takes them when the gap
// closes.
func BenchmarkKeep(b *testing.B) {
	const burst = 64
	k := reorderBuffer{pool: new(ReorderPool)}
	p := Packet{Data: new(fabric.Datagram)}
	p.Payload = make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(p.Payload)))
	next := ib.NewPSN(0)
	for n := 0; n < b.N; n += burst {
		for i := range uint32(burst) {
			p.BTH.PSN = next.Add(1 + i)
			if !k.store(0, next, &p) {
				b.Fatal("it is not kept")
			}
		}
		for range burst {
			next = next.Next()
			k.pool.put(k.take(0, next))
		}
		next = next.Next()
	}
}

// TestL2_KeptMemoryOfAnotherSize fills the adapter's memory with small packets, drops
// them, and buffers large ones: at most keepGarbage becomes free for them at once, and
// the same amount again once the garbage collector has run.
func TestL2_KeptMemoryOfAnotherSize(t *testing.T) {
	pool := new(ReorderPool)
	var small []*heldPacket
	for k := pool.get(1); k != nil; k = pool.get(1) {
		small = append(small, k)
	}
	if pool.held < maxHeldAdapter-heldCost(1) || pool.held > maxHeldAdapter {
		t.Fatalf("%d bytes are held, want all of %d", pool.held, maxHeldAdapter)
	}
	for _, k := range small {
		pool.put(k)
	}
	large := func() (n int) {
		for k := pool.get(4096); k != nil; k = pool.get(4096) {
			n += heldCost(4096)
		}
		return n
	}
	if got := large(); got > maxGarbage || got < maxGarbage/2 {
		t.Errorf("%d bytes of small packets have become large ones at once, want %d at most", got, maxGarbage)
	}
	if pool.begin(clock.Instant(collectionPeriod)); large() != 0 {
		t.Error("garbage of the period before is forgotten, and the collector may not have run")
	}
	if pool.begin(clock.Instant(2 * collectionPeriod)); large() < maxGarbage/2 {
		t.Error("garbage of two periods ago still counts")
	}
	for pool.begin(clock.Instant(9 * collectionPeriod)); pool.shed(); {
	}
	if held := pool.garbage[0]; held > maxGarbage || held < maxGarbage-heldCost(4096) {
		t.Errorf("%d bytes of garbage, want up to %d", held, maxGarbage)
	}
}
