package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/observe"
)

// The words for the state of an adapter.
const (
	dead    = "dead"
	failed  = "failed"
	down    = "down"
	running = "running"
)

// state returns the state of an adapter.
func (a *adapter) state() string {
	switch {
	case !a.Running:
		return dead
	case a.Failed:
		return failed
	case a.Down:
		return down
	}
	return running
}

// adaptersView returns the table of adapters and their processes.
func adaptersView() *view {
	v := &view{
		name: "adapters", title: "Adapters", sorted: "adapter", empty: "no adapters",
		rows: func(m *Model) (rows []row) {
			for _, a := range m.adapters {
				rows = append(rows, row{a: a})
			}
			return rows
		},
		key:   func(r *row) rowKey { return rowKey{path: r.a.Path} },
		label: func(b []byte, _ *row) []byte { return b },
	}
	v.columns = append(v.columns, owner()...)
	v.columns = append(v.columns,
		words("state", "STATE", 5, extent{7, 0}, func(r *row) string { return r.a.state() }).styled(func(r *row) Style {
			switch r.a.state() {
			case running:
				return Good
			case dead:
				return Dead
			}
			return Bad
		}),
		words("addr", "ADDRESS", 6, extent{9, 39}, func(r *row) string { return address(r.a.Addr) }),
		numbers("uid", "UID", 16, func(r *row) int { return r.a.UID }, strconv.Itoa).rising(),
		numbers("age", "AGE", 14, func(r *row) time.Duration { return max(r.a.At.Sub(r.a.Started), 0) }, period),
		numbers("qps", "QPS", 9, func(r *row) int { return len(r.a.QPs) }, strconv.Itoa),
	)
	v.columns = append(v.columns, adapterTraffic()...)
	return v
}

// adapterTraffic returns the columns of rates and counters.
func adapterTraffic() []column {
	known := func(r *row) bool { return r.a.known }
	packets := func(get func(*counters.Set) uint64) func(r *row) float64 {
		return func(r *row) float64 { return observe.PerSecond(get(&r.a.change.Counters), r.a.change.Elapsed) }
	}
	retransmitted := func(s *counters.Set) uint64 { return s.RetransPkts }
	timeouts := func(s *counters.Set) uint64 { return s.LocalAckTimeoutErr }
	return []column{
		numbers("sent-rate", "SENT/s", 10, func(r *row) float64 { return r.a.sentMessages }, perSecond).when(known),
		numbers("rcvd-rate", "RCVD/s", 11, func(r *row) float64 { return r.a.rcvdMessages }, perSecond).when(known),
		numbers("sent-gbps", "SENT Gb/s", 7, func(r *row) float64 { return r.a.sentBits }, gigabits).when(known),
		numbers("rcvd-gbps", "RCVD Gb/s", 8, func(r *row) float64 { return r.a.rcvdBits }, gigabits).when(known),
		numbers("sent-packets", "SENT pkt/s", 17, packets(func(s *counters.Set) uint64 { return s.SentPkts }), perSecond).when(known),
		numbers("rcvd-packets", "RCVD pkt/s", 18, packets(func(s *counters.Set) uint64 { return s.RcvdPkts }), perSecond).when(known),
		numbers("retransmitted", "RETRANS", 12, func(r *row) uint64 { return retransmitted(&r.a.Counters) }, count).styled(warning(packets(retransmitted))),
		numbers("timeouts", "TIMEOUT", 13, func(r *row) uint64 { return timeouts(&r.a.Counters) }, count).styled(warning(packets(timeouts))),
		numbers("dropped", "DROPPED", 15, func(r *row) uint64 { return r.a.drops() }, count).
			styled(warning(packets(func(s *counters.Set) (n uint64) {
				for _, v := range s.Drops {
					n |= v
				}
				return n
			}))),
		words("reasons", "DROPPED BECAUSE OF", 19, extent{18, 40}, (*row).reasons),
		words("hidden", "NOT SHOWN", 20, extent{9, 24}, (*row).missing).styled(func(*row) Style { return Warn }),
		{
			name: "rate", title: "LAST MINUTE", width: trendWidth, rank: 21, falling: true,
			text:    func(r *row) string { return sparkline(r.a.history.last(trendWidth)) },
			compare: func(a, b *row) int { return cmp.Compare(a.a.sentBits+a.a.rcvdBits, b.a.sentBits+b.a.rcvdBits) },
			style:   func(*row) Style { return Good },
		},
	}
}

// reasons returns why packets were dropped, the most frequent reason first.
func (r *row) reasons() string {
	var all []counters.Drop
	for d := range counters.NumDrops {
		if r.a.Counters.Drops[d] != 0 {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b counters.Drop) int {
		return cmp.Compare(r.a.Counters.Drops[b], r.a.Counters.Drops[a])
	})
	var text []string
	for _, d := range all {
		text = append(text, fmt.Sprintf("%v %s", d, count(r.a.Counters.Drops[d])))
	}
	if text == nil {
		return none
	}
	return strings.Join(text, ", ")
}

// missing returns how many objects have no row in the table of the adapter, because it was full.
func (r *row) missing() string {
	var text []string
	for kind, n := range r.a.Missing {
		text = append(text, fmt.Sprintf("%s %s", count(n), kind))
	}
	if text == nil {
		return none
	}
	slices.Sort(text)
	return strings.Join(text, ", ")
}
