package qp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// keptModel is a keeper as one would write it without a thought of speed.
type keptModel struct {
	next ib.PSN
	m    map[ib.PSN][]byte
}

// pass lets go what is held from before next.
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
		sum += keptCost(len(b))
	}
	return sum
}

// first returns the lowest PSN that is held.
func (k *keptModel) first() ib.PSN {
	least := uint32(keepAhead)
	for p := range k.m {
		least = min(least, p.Distance(k.next))
	}
	return k.next.Add(least)
}

// keepRun drives a keeper and its model.
type keepRun struct {
	*testing.T
	rand  *rand.Rand
	k     keeper
	model keptModel
	most  int // payload
}

// keep offers a packet ahead of the next, and looks why it is refused.
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
	slots := firstSlots
	for slots < len(r.k.slots) || uint32(slots) <= ahead {
		slots *= 2
	}
	cost := keptCost(len(p.Payload)) + slotSize*(slots-len(r.k.slots))
	r.model.pass(r.model.next)
	before := r.k.pool.used
	held := r.model.cost() + slotSize*len(r.k.slots)
	want := ahead < keepAhead && held+cost <= keepQueuePair && before+cost <= keepAdapter
	if got := r.k.keep(r.model.next, &p); got != want {
		r.Fatalf("a packet %d ahead that takes %d bytes beside %d (of the adapter %d) is kept: %t", ahead, cost, held, before, got)
	}
	if want {
		r.model.m[p.BTH.PSN] = bytes.Clone(p.Payload)
		if r.model.m[p.BTH.PSN] == nil {
			r.model.m[p.BTH.PSN] = []byte{}
		}
	}
	clear(p.Payload) // which was the port's
}

// take takes the packet whose turn it is.
func (r *keepRun) take() {
	want, held := r.model.m[r.model.next]
	c := r.k.take(r.model.next)
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

// check compares what is held, and what it is said to take.
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
	if r.k.holds() && r.k.first(r.model.next) != r.model.first() {
		r.Fatalf("the first that is held is %v, want %v", r.k.first(r.model.next), r.model.first())
	}
}

// TestL2_KeeperModel compares a keeper with a map, through all that a
// connection does to it, over the end of the PSNs and up to the bounds.
func TestL2_KeeperModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			elsewhere := 0 // of other queue pairs
			if seed%4 == 1 {
				elsewhere = keepAdapter - rnd.IntN(64<<10)
			}
			r := &keepRun{
				T: t, rand: rnd, most: []int{0, 256, 1024, 4096}[rnd.IntN(4)],
				k: keeper{pool: &KeepPool{used: elsewhere}}, model: keptModel{m: map[ib.PSN][]byte{}},
			}
			r.model.next = ib.NewPSN(1<<24 - uint32(rnd.IntN(40)) - 1)
			for range 400 {
				switch n := rnd.IntN(100); {
				case n < 60:
					r.keep(1 + uint32(rnd.IntN(40)))
				case n < 61:
					r.keep(uint32(rnd.IntN(2 * keepAhead)))
				case n < 62:
					r.keep(keepAhead - uint32(rnd.IntN(2)))
				case n < 90:
					r.take()
				case n < 96:
					r.model.pass(r.model.next.Add(1 + uint32(rnd.IntN(3))))
				case n < 98:
					r.model.pass(r.model.next.Add(uint32(rnd.IntN(2 * keepAhead))))
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

// TestL2_KeptSize holds what a kept packet is counted with against what it takes.
func TestL2_KeptSize(t *testing.T) {
	if n := int(unsafe.Sizeof(keptPacket{})); n > keptOverhead {
		t.Errorf("a kept packet takes %d bytes beside its payload, and %d are counted", n, keptOverhead)
	}
}

// TestL2_KeeperBounds fills a queue pair's share with the largest packets, and
// shows that what is let go makes room for others of the adapter.
func TestL2_KeeperBounds(t *testing.T) {
	pool := new(KeepPool)
	keepers := make([]keeper, 20)
	p := Packet{Data: new(fabric.Datagram)}
	p.Payload = make([]byte, 4096)
	for i := range keepers {
		k := &keepers[i]
		k.pool = pool
		for p.BTH.PSN = ib.NewPSN(1); k.keep(ib.PSN{}, &p); p.BTH.PSN = p.BTH.PSN.Next() {
		}
		if k.used > keepQueuePair || pool.used > keepAdapter {
			t.Fatalf("keeper %d takes %d bytes, all take %d", i, k.used, pool.used)
		}
	}
	if least := keepAdapter - keptCost(4096) - slotSize*2048; pool.used < least {
		t.Errorf("20 queue pairs fill %d bytes, want %d", pool.used, least)
	}
	if last := &keepers[len(keepers)-1]; last.n != 0 {
		t.Errorf("the last queue pair keeps %d packets of an adapter that is full", last.n)
	} else if keepers[0].clear(); !last.keep(ib.PSN{}, &p) {
		t.Error("nothing is kept where another queue pair made room")
	}
	for i := range keepers {
		keepers[i].clear()
	}
	if pool.used != 0 {
		t.Errorf("%d bytes are counted in the end", pool.used)
	}
	if n := len(pool.idle[keptClass(4096)]); n != keptIdle {
		t.Errorf("the memory of %d packets is held to be used again, want %d", n, keptIdle)
	}
	p.Payload = make([]byte, 4097)
	if p.BTH.PSN = ib.NewPSN(1); keepers[0].keep(ib.PSN{}, &p) {
		t.Error("a packet longer than any path MTU is kept")
	}
}
