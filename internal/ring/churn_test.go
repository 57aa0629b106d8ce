package ring_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/ring"
)

// churn is a completion queue whose entries come, are removed and move to
// other memory while several readers poll it. The entries of a queue pair are
// numbered from 0 on by their WRID.
type churn struct {
	t       *testing.T
	cq      *ring.CQ
	src     *rand.Rand
	pushed  [churnQPs]uint64        // by queue pair: entries pushed
	removed [churnQPs]atomic.Uint64 // those with a lower WRID are gone
	onGone  func(ib.QPN, uint64)    // is informed of removals too
	stop    atomic.Bool
	readers sync.WaitGroup
	mu      sync.Mutex
	taken   [][]entry // by reader
}

// entry is what a reader took.
type entry struct {
	qpn  ib.QPN
	wrid uint64
	late bool // after it had been removed
}

const (
	churnQPs   = 5
	churnTotal = 60_000
)

func newChurn(t *testing.T, a ring.Allocator, seed uint64) *churn {
	t.Helper()
	t.Logf("seed %d", seed)
	cq, err := ring.NewCQ(a, 8, false)
	must.Do(t, err)
	return &churn{t: t, cq: cq, src: rand.New(rand.NewPCG(seed, 5)), onGone: func(ib.QPN, uint64) {}}
}

// read starts a reader in Go, which takes the remaining completions when it is
// stopped.
func (c *churn) read() {
	c.readers.Go(func() {
		var got []entry
		var out [5]ib.WC
		var below [churnQPs]uint64
		for last := false; ; {
			for n := range below {
				below[n] = c.removed[n].Load()
			}
			n := c.cq.Poll(out[:])
			for _, wc := range out[:n] {
				got = append(got, entry{wc.QPN, wc.WRID, wc.WRID < below[wc.QPN]})
			}
			if n == 0 {
				if last {
					break
				}
				last = c.stop.Load()
				runtime.Gosched()
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, got)
	})
}

// push adds the next entry of queue pair n and reports whether there was room.
func (c *churn) push(n ib.QPN) bool {
	wc := ib.WC{WRID: c.pushed[n], QPN: n, ByteLen: uint32(c.pushed[n])}
	if !c.cq.Push(0, &wc) {
		return false
	}
	c.pushed[n]++
	return true
}

// remove takes the entries of queue pair n out.
func (c *churn) remove(n ib.QPN) {
	c.cq.Remove(n)
	c.removed[n].Store(c.pushed[n])
	c.onGone(n, c.pushed[n])
}

// run is the adapter's thread: it pushes entries, and sometimes removes some or
// resizes the queue.
func (c *churn) run(total int) {
	for total > 0 {
		switch c.src.IntN(200) {
		case 0:
			c.remove(ib.QPN(c.src.IntN(churnQPs)))
		case 1:
			_ = c.cq.Resize(1 << c.src.IntN(8)) // refused when more wait
		default:
			if c.push(ib.QPN(c.src.IntN(churnQPs))) {
				total--
			} else {
				runtime.Gosched()
			}
		}
	}
}

// overflow pushes until the queue is full, in spite of the readers, and marks
// it, as the adapter does.
func (c *churn) overflow() {
	for !c.cq.Header().Lock.CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
	for c.push(0) {
	}
	if !c.cq.Fail() {
		c.t.Error("the queue was marked as overflowed before")
	}
	c.cq.Header().Lock.Store(0)
}

// join ends the readers in Go.
func (c *churn) join() {
	c.stop.Store(true)
	c.readers.Wait()
}

// check fails the test unless every entry was taken once or had been removed,
// and each reader took those of a queue pair in order.
func (c *churn) check() {
	c.t.Helper()
	var seen [churnQPs][]bool
	for n := range seen {
		seen[n] = make([]bool, c.pushed[n])
	}
	for i, list := range c.taken {
		var next [churnQPs]uint64
		for _, e := range list {
			switch {
			case e.qpn >= churnQPs || e.wrid >= c.pushed[e.qpn]:
				c.t.Fatalf("reader %d took entry %d of queue pair %d, which never was", i, e.wrid, e.qpn)
			case seen[e.qpn][e.wrid]:
				c.t.Fatalf("entry %d of queue pair %d was taken twice", e.wrid, e.qpn)
			case e.wrid < next[e.qpn]:
				c.t.Fatalf("reader %d took entry %d of queue pair %d after entry %d", i, e.wrid, e.qpn, next[e.qpn]-1)
			case e.late:
				c.t.Fatalf("reader %d took entry %d of queue pair %d after it had been removed", i, e.wrid, e.qpn)
			}
			next[e.qpn], seen[e.qpn][e.wrid] = e.wrid+1, true
		}
		c.t.Logf("reader %d took %d entries", i, len(list))
	}
	lost := 0
	for n := range seen {
		below := c.removed[n].Load()
		for wrid, ok := range seen[n] {
			if ok {
				continue
			}
			if lost++; uint64(wrid) >= below {
				c.t.Fatalf("entry %d of queue pair %d was not taken, and those removed end before %d", wrid, n, below)
			}
		}
	}
	c.t.Logf("%d of %d entries were removed", lost, c.total())
}

func (c *churn) total() (n uint64) {
	for _, k := range c.pushed {
		n += k
	}
	return n
}

// TestQ5_CQThreads shows under the race detector that readers and the adapter
// agree on every entry while others are removed and the memory moves.
func TestQ5_CQThreads(t *testing.T) {
	for seed := range uint64(4) {
		c := newChurn(t, ring.Allocator{}, seed)
		for range 3 {
			c.read()
		}
		c.run(churnTotal / 6)
		c.overflow()
		c.join()
		c.check()
		if !c.cq.Failed() || c.cq.Pending() != 0 {
			t.Errorf("at the end %d entries wait, and the mark of overflow is %v", c.cq.Pending(), c.cq.Failed())
		}
	}
}
