package metrics

import (
	"math"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
)

// maxTracked bounds the queue pairs whose latency is remembered.
const maxTracked = 1 << 17

// buckets are numbers of completions by latency, as in restrack.QPCounts.
type buckets [restrack.LatencyBuckets]uint64

// latencies keeps, for each table, the sum of the latencies of all its queue pairs, including those
// that no longer exist: a counter must not decrease when a queue pair is destroyed.
type latencies struct {
	tables  map[tableKey]*tableLatency
	most    int    // queue pairs to remember
	tracked int    // queue pairs remembered
	round   uint64 // number of the scrape
	left    int    // queue pairs of the last scrape that were left out
}

// tableKey identifies a table for as long as its process lives.
type tableKey struct {
	path    string
	pid     int
	started int64
}

func keyOfTable(a *observe.Adapter) tableKey { return tableKey{a.Path, a.PID, a.Started.UnixNano()} }

type tableLatency struct {
	gone  buckets // of queue pairs that no longer exist
	qps   map[qpKey]*qpLatency
	round uint64 // of the last scrape that saw the table
}

// qpKey identifies a queue pair or an EE context in a table.
type qpKey struct {
	eec bool
	num ib.QPN
}

type qpLatency struct {
	last  buckets
	round uint64
}

func newLatencies(most int) *latencies {
	return &latencies{tables: make(map[tableKey]*tableLatency), most: most}
}

// begin begins a scrape.
func (l *latencies) begin() {
	l.round++
	l.left = 0
}

// add takes the queue pairs of a table and returns the sums. It is called once for a table and scrape.
func (l *latencies) add(a *observe.Adapter) buckets {
	key := keyOfTable(a)
	t := l.tables[key]
	if t == nil {
		t = &tableLatency{qps: make(map[qpKey]*qpLatency)}
		l.tables[key] = t
	}
	t.round = l.round
	for i := range a.QPs {
		l.track(t, &a.QPs[i])
	}
	sum := t.gone
	for key, q := range t.qps {
		if q.round == l.round {
			sum.add(&q.last)
			continue
		}
		t.gone.add(&q.last)
		sum.add(&q.last)
		delete(t.qps, key)
		l.tracked--
	}
	return sum
}

// track remembers the latencies of a queue pair.
func (l *latencies) track(t *tableLatency, from *observe.QP) {
	key := qpKey{from.Type == ib.EEC, from.Num}
	q := t.qps[key]
	switch {
	case q == nil && l.tracked >= l.most:
		l.left++
		return
	case q == nil:
		q = &qpLatency{}
		t.qps[key] = q
		l.tracked++
	case q.round == l.round: // a damaged table has the number twice
		l.left++
		return
	}
	now := buckets(from.Latency)
	if now.below(&q.last) { // another queue pair with the same number
		t.gone.add(&q.last)
	}
	q.last, q.round = now, l.round
}

// end forgets the tables that this scrape did not see.
func (l *latencies) end() {
	for key, t := range l.tables {
		if t.round != l.round {
			l.tracked -= len(t.qps)
			delete(l.tables, key)
		}
	}
}

// add adds counts. They stop at the largest number, because another process writes them.
func (b *buckets) add(more *buckets) {
	for i := range b {
		b[i] = plus(b[i], more[i])
	}
}

// below reports whether a count is smaller than before.
func (b *buckets) below(before *buckets) bool {
	for i := range b {
		if b[i] < before[i] {
			return true
		}
	}
	return false
}

// histogram returns the cumulated counts by upper bound in seconds, the number of completions, and an
// estimate of the sum of their latencies: each counts as the middle of its bucket.
func (b *buckets) histogram() (cumulated map[float64]uint64, count uint64, sum float64) {
	cumulated = make(map[float64]uint64, len(b))
	var lower time.Duration
	for i, n := range b {
		count = plus(count, n)
		bound := restrack.BucketBound(i)
		if bound < 0 {
			sum += float64(n) * lower.Seconds() * 1.5
			break
		}
		sum += float64(n) * (lower + bound).Seconds() / 2
		cumulated[bound.Seconds()] = count
		lower = bound
	}
	return cumulated, count, sum
}

// plus adds numbers, at most up to the largest.
func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
