package metrics

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
)

// adapterOf returns an adapter of a user, with as many queue pairs as given.
func adapterOf(uid, pid, qps int) *observe.Adapter {
	a := &observe.Adapter{Path: fmt.Sprint("/t/", uid, "-", pid), Name: "softhca0", Running: true, UID: uid, PID: pid, Addr: netip.MustParseAddr("127.0.0.1"), Started: time.Unix(int64(pid), 0)}
	for i := range qps {
		q := observe.QP{Num: ib.QPN(i + 2), Type: ib.RC}
		q.SentBytes = uint64(i)
		a.QPs = append(a.QPs, q)
	}
	return a
}

// TestProcessesAreBounded shows at most a number of processes: of each user the same, running ones first.
func TestProcessesAreBounded(t *testing.T) {
	var all []*observe.Adapter
	for i := range 50 {
		all = append(all, adapterOf(1, i, 0))
	}
	all[0].Running = false
	all = append(all, adapterOf(2, 100, 0), adapterOf(2, 101, 0))
	kept, left := processes(all, 10, 0)
	users := map[int]int{}
	for _, p := range kept {
		users[p.adapters[0].UID]++
		if !p.adapters[0].Running {
			t.Error("a dead process displaces a running one")
		}
	}
	if len(kept) != 10 || left != 42 || users[1] != 8 || users[2] != 2 {
		t.Errorf("%d of 52 processes are shown, %v by user, %d are left out; want 10, 8 and 2, and 42", len(kept), users, left)
	}
	if kept, left := processes(all[:10], 10, 0); len(kept) != 10 || left != 0 {
		t.Errorf("%d of 10 processes are shown, %d left out", len(kept), left)
	}
}

// TestBusiestQueuePairs shows at most a number of queue pairs: those that moved most bytes, and each
// number once.
func TestBusiestQueuePairs(t *testing.T) {
	a := adapterOf(1, 1, 20)
	a.QPs = append(a.QPs, a.QPs[0]) // a damaged table
	all, _ := processes([]*observe.Adapter{a, adapterOf(1, 2, 20)}, 10, 0)
	kept, left := busiest(all, 30)
	if len(kept) != 30 || left != 11 {
		t.Fatalf("%d queue pairs shown, %d left out; want 30 and 11", len(kept), left)
	}
	for _, s := range kept {
		if s.qp.SentBytes < 5 {
			t.Errorf("queue pair %v with %d bytes is shown instead of a busier one", s.labels, s.qp.SentBytes)
		}
	}
	if kept, left = busiest(all, 40); len(kept) != 40 || left != 1 {
		t.Errorf("%d queue pairs shown, %d left out; want 40, and the number that occurs twice", len(kept), left)
	}
}

// TestLatencyOutlivesQueuePairs destroys queue pairs and uses their numbers again: no count decreases.
func TestLatencyOutlivesQueuePairs(t *testing.T) {
	l := newLatencies(10)
	a := adapterOf(1, 1, 2)
	step := func(what string, want uint64) {
		t.Helper()
		l.begin()
		sum := l.add(a)
		l.end()
		if sum[3] != want {
			t.Errorf("%s: %d completions, want %d", what, sum[3], want)
		}
	}
	a.QPs[0].Latency[3], a.QPs[1].Latency[3] = 10, 5
	step("two queue pairs", 15)
	a.QPs[0].Latency[3] = 11
	step("one more completion", 16)
	both := a.QPs
	a.QPs = both[1:]
	step("one is destroyed", 16)
	a.QPs = both
	a.QPs[0].Latency[3] = 2
	step("its number is used again", 18)
	a.QPs[0].Latency[3] = 1
	step("and again, between two scrapes", 19)
	a.QPs = append(a.QPs, a.QPs[0])
	step("the table has a number twice", 19)
	a.QPs[0].Type = ib.EEC
	step("the number is that of an EE context, and of the queue pair", 20)
}

// TestLatencyIsBounded remembers at most a number of queue pairs, and has room again when they are gone.
func TestLatencyIsBounded(t *testing.T) {
	l := newLatencies(10)
	a, b := adapterOf(1, 1, 8), adapterOf(1, 2, 8)
	b.QPs[0].Latency[0] = 1
	b.QPs[7].Latency[0] = 1
	scrape := func(all ...*observe.Adapter) (sum buckets) {
		l.begin()
		for _, x := range all {
			sum = l.add(x)
		}
		l.end()
		return sum
	}
	if sum := scrape(a, b); l.tracked != 10 || l.left != 6 || sum[0] != 1 {
		t.Errorf("%d queue pairs are remembered, %d left out, %d completions; want 10, 6 and 1", l.tracked, l.left, sum[0])
	}
	if sum := scrape(b); l.tracked != 2 || sum[0] != 1 { // the room of a is free from the next scrape on
		t.Errorf("%d queue pairs are remembered, %d completions; want 2 and 1", l.tracked, sum[0])
	}
	if sum := scrape(b); l.tracked != 8 || l.left != 0 || sum[0] != 2 {
		t.Errorf("%d queue pairs are remembered, %d left out, %d completions; want 8, 0 and 2", l.tracked, l.left, sum[0])
	}
	if scrape(); l.tracked != 0 || len(l.tables) != 0 {
		t.Errorf("%d queue pairs of %d tables stay", l.tracked, len(l.tables))
	}
}

// TestHistogram checks bounds, cumulated counts and the estimated sum, also of counts that overflow.
func TestHistogram(t *testing.T) {
	b := buckets{0: 2, 1: 4, restrack.LatencyBuckets - 1: 1}
	cumulated, count, sum := b.histogram()
	if count != 7 || len(cumulated) != restrack.LatencyBuckets-1 || cumulated[256e-9] != 2 || cumulated[512e-9] != 6 {
		t.Errorf("%d completions, %v", count, cumulated)
	}
	if want := 2*128e-9 + 4*384e-9 + 1.5*1.073741824; sum < want*0.999 || sum > want*1.001 {
		t.Errorf("the sum is %v s, want %v s", sum, want)
	}
	for i := range b {
		b[i] = 1<<64 - 1
	}
	b.add(&b)
	last := uint64(0)
	for i := range restrack.LatencyBuckets - 1 {
		if n := func() uint64 { c, _, _ := b.histogram(); return c[restrack.BucketBound(i).Seconds()] }(); n < last {
			t.Errorf("bucket %d has %d, fewer than the one below", i, n)
		} else {
			last = n
		}
	}
}

// TestNodeKeepsSums removes, restarts and replaces tables: no sum decreases, and a board that several
// processes have one after the other counts once.
func TestNodeKeepsSums(t *testing.T) {
	n := newNode()
	key := nodeKey{"softhca0", "127.0.0.1"}
	step := func(what string, want uint64, all ...*observe.Adapter) {
		t.Helper()
		n.update(all)
		of, sum := n.adapters[key], uint64(0)
		for _, s := range of.sources {
			sum += s.last[1]
		}
		if sum += of.base[1]; sum != want {
			t.Errorf("%s: %d bytes, want %d", what, sum, want)
		}
	}
	a, b := adapterOf(1, 1, 0), adapterOf(1, 2, 0)
	a.Port.SentBytes, b.Port.SentBytes = 10, 20
	step("two processes", 30, a, b)
	step("one is not readable", 30, b)
	step("it is again", 30, a, b)
	a.Port.SentBytes = 3
	step("its counters began anew", 33, a, b)
	a.Board, b.Board = "/x/board:0", "/x/board:0"
	a.Port.SentBytes, b.Port.SentBytes = 100, 100
	step("both have one board", 133, a, b) // and 33 of their own counters before
	b.Port.SentBytes = 110
	step("the second goes on", 143, b)
}

// TestNodeIsBounded shows at most a number of adapters, and remembers a number of their tables.
func TestNodeIsBounded(t *testing.T) {
	n := newNode()
	var all []*observe.Adapter
	for i := range maxAdapters + 5 {
		a := adapterOf(1, i, 0)
		a.Name = fmt.Sprint("softhca", i)
		all = append(all, a)
	}
	n.update(all)
	if len(n.adapters) != maxAdapters || n.left != 5 {
		t.Errorf("%d adapters are shown, %d left out; want %d and 5", len(n.adapters), n.left, maxAdapters)
	}
	n.update(all[maxAdapters:])
	if n.left != 0 {
		t.Errorf("%d adapters are left out although others are gone", n.left)
	}
	n = newNode()
	for i := range 3 * maxSources {
		a := adapterOf(1, i, 0)
		a.Port.SentBytes = 1
		n.update([]*observe.Adapter{a})
	}
	of := n.adapters[nodeKey{"softhca0", "127.0.0.1"}]
	sum := of.base[1]
	for _, s := range of.sources {
		sum += s.last[1]
	}
	if len(of.sources) > maxSources || sum != 3*maxSources {
		t.Errorf("%d tables are remembered and their sum is %d; want %d and %d", len(of.sources), sum, maxSources, 3*maxSources)
	}
}
