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
	pool    *KeepPool
	keepers []keeper
	p       Packet
}

func newKeepAttack(queuePairs int) *keepAttack {
	a := &keepAttack{pool: new(KeepPool), keepers: make([]keeper, queuePairs), p: Packet{Data: new(fabric.Datagram)}}
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
		for psn := uint32(1); psn < keepAhead; psn++ {
			a.p.BTH.PSN = ib.NewPSN(psn)
			if !k.keep(now, ib.PSN{}, &a.p) {
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
		a.round(clock.Instant(i)*clock.Instant(keepStale), []int{1, 4096, 257, 1024, 2048, 512}[i%6])
		runtime.ReadMemStats(&m)
		most, used = max(most, m.HeapAlloc-min(before, m.HeapAlloc)), max(used, a.pool.used)
	}
	if most > keepAdapter+keepGarbage+keepSlack {
		t.Errorf("the heap takes %d MiB for what peers have kept here, want at most %d", most>>20, (keepAdapter+keepGarbage)>>20)
	}
	if used < keepAdapter-keepAdapter/8 {
		t.Errorf("%d bytes were held: the attack does not reach the bound of %d", used, keepAdapter)
	}
	runtime.KeepAlive(a)
}

// TestL2_KeptAcknowledgements counts the acknowledgements that wait for an answer to a READ,
// and checks that none waits once the adapter's memory is used up.
func TestL2_KeptAcknowledgements(t *testing.T) {
	pool := new(KeepPool)
	k := pool.getOne(0)
	if k == nil || pool.used != keptCost(0) {
		t.Fatalf("%d bytes are counted for one acknowledgement, want %d", pool.used, keptCost(0))
	}
	if pool.putOne(k); pool.used != 0 {
		t.Errorf("%d bytes are counted after it went", pool.used)
	}
	pool.used = keepAdapter - keptCost(0) + 1
	if pool.getOne(0) != nil {
		t.Error("an acknowledgement is kept beyond the bound")
	}
}

// BenchmarkKeep buffers a burst of packets beyond a gap, and takes them when the gap
// closes.
func BenchmarkKeep(b *testing.B) {
	const burst = 64
	k := keeper{pool: new(KeepPool)}
	p := Packet{Data: new(fabric.Datagram)}
	p.Payload = make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(p.Payload)))
	next := ib.NewPSN(0)
	for n := 0; n < b.N; n += burst {
		for i := range uint32(burst) {
			p.BTH.PSN = next.Add(1 + i)
			if !k.keep(0, next, &p) {
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
	pool := new(KeepPool)
	var small []*keptPacket
	for k := pool.get(1); k != nil; k = pool.get(1) {
		small = append(small, k)
	}
	if pool.held < keepAdapter-keptCost(1) || pool.held > keepAdapter {
		t.Fatalf("%d bytes are held, want all of %d", pool.held, keepAdapter)
	}
	for _, k := range small {
		pool.put(k)
	}
	large := func() (n int) {
		for k := pool.get(4096); k != nil; k = pool.get(4096) {
			n += keptCost(4096)
		}
		return n
	}
	if got := large(); got > keepGarbage || got < keepGarbage/2 {
		t.Errorf("%d bytes of small packets have become large ones at once, want %d at most", got, keepGarbage)
	}
	if pool.begin(clock.Instant(keepPeriod)); large() != 0 {
		t.Error("garbage of the period before is forgotten, and the collector may not have run")
	}
	if pool.begin(clock.Instant(2 * keepPeriod)); large() < keepGarbage/2 {
		t.Error("garbage of two periods ago still counts")
	}
	for pool.begin(clock.Instant(9 * keepPeriod)); pool.shed(); {
	}
	if held := pool.garbage[0]; held > keepGarbage || held < keepGarbage-keptCost(4096) {
		t.Errorf("%d bytes of garbage, want up to %d", held, keepGarbage)
	}
}
