package top

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
)

// trendWidth is the number of cells of the sparkline in the table.
const trendWidth = 12

// connectionsView returns the table of queue pairs and EE contexts.
func connectionsView() *view {
	v := &view{
		name: "connections", title: "Connections", sorted: "sent-gbps", empty: "no connections",
		rows: func(m *Model) []row {
			rows := make([]row, 0, m.total.qps)
			for _, a := range m.adapters {
				for i := range a.connections {
					rows = append(rows, row{a: a, c: &a.connections[i]})
				}
			}
			return rows
		},
		key: func(r *row) rowKey {
			k := rowKey{r.a.Path, uint64(r.c.Num)}
			if r.c.Type == ib.EEC {
				k.num |= 1 << 32
			}
			return k
		},
		label: func(b []byte, r *row) []byte {
			for _, s := range [...]string{r.c.Type.String(), r.c.State.String(), r.c.lastError()} {
				b = append(append(b, s...), ' ')
			}
			for _, a := range [...]netip.Addr{r.c.Local, r.c.Remote} {
				b = append(a.AppendTo(b), ' ')
			}
			return appendQPN(append(appendQPN(b, r.c.Num), ' '), r.c.Peer)
		},
	}
	v.columns = append(v.columns, owner()...)
	v.columns = append(v.columns, connectionIdentity()...)
	v.columns = append(v.columns, connectionTraffic()...)
	v.columns = append(v.columns, connectionTrouble()...)
	return v
}

// connectionIdentity returns the columns that say which connection it is.
func connectionIdentity() []column {
	return []column{
		ordered(column{name: "qpn", title: "QPN", width: 8, most: 10, rank: 1, text: func(r *row) string { return r.c.Num.String() }}, func(r *row) ib.QPN { return r.c.Num }),
		words("type", "TYPE", 12, extent{4, 12}, func(r *row) string { return r.c.Type.String() }),
		ordered(column{name: "state", title: "STATE", width: 5, most: 13, rank: 5, text: (*row).state}, (*row).stateOrder).styled((*row).stateStyle),
		{name: "peer", title: "PEER", width: 9, most: 39, rank: 6, text: func(r *row) string { return address(r.c.Remote) },
			compare: func(a, b *row) int { return a.c.Remote.Compare(b.c.Remote) }},
		ordered(column{name: "peer-qpn", title: "PEER QPN", width: 8, most: 10, rank: 14, text: func(r *row) string { return queuePair(r.c.Peer) }}, func(r *row) ib.QPN { return r.c.Peer }),
	}
}

// connectionTraffic returns the columns of rates and of what is under way.
func connectionTraffic() []column {
	known := func(r *row) bool { return r.c.known }
	return []column{
		numbers("sent-rate", "SENT/s", 9, func(r *row) float64 { return r.c.change.SentRate() }, perSecond).when(known),
		numbers("rcvd-rate", "RCVD/s", 10, func(r *row) float64 { return r.c.change.RcvdRate() }, perSecond).when(known),
		numbers("sent-gbps", "SENT Gb/s", 7, func(r *row) float64 { return r.c.change.SentBits() }, gigabits).when(known),
		numbers("rcvd-gbps", "RCVD Gb/s", 8, func(r *row) float64 { return r.c.change.RcvdBits() }, gigabits).when(known),
		numbers("window", "WINDOW", 19, func(r *row) uint64 { return r.c.Window }, size),
		numbers("in-flight", "FLIGHT", 18, func(r *row) uint64 { return r.c.InFlight }, size),
		numbers("outstanding", "QUEUED", 17, func(r *row) uint64 { return r.c.Outstanding }, count),
	}
}

// connectionTrouble returns the columns of losses, times and errors.
func connectionTrouble() []column {
	rnr := func(r *row) uint64 { return r.c.RNRSent + r.c.RNRRcvd }
	quantile := func(p float64) func(r *row) time.Duration {
		return func(r *row) time.Duration {
			d, ok := r.c.change.Latency.Quantile(p)
			if !ok || !r.c.known {
				return -1
			}
			return d
		}
	}
	latency := func(d time.Duration) string {
		if d < 0 {
			return none
		}
		return period(d)
	}
	return []column{
		numbers("retransmitted", "RETRANS", 15, func(r *row) uint64 { return r.c.Retransmitted }, count).
			styled(warning(func(r *row) uint64 { return r.c.change.Retransmitted })),
		numbers("timeouts", "TIMEOUT", 20, func(r *row) uint64 { return r.c.Timeouts }, count).
			styled(warning(func(r *row) uint64 { return r.c.change.Timeouts })),
		numbers("rnr", "RNR", 21, rnr, count).
			styled(warning(func(r *row) uint64 { return r.c.change.RNRSent + r.c.change.RNRRcvd })),
		numbers("rtt", "RTT", 16, func(r *row) uint64 { return r.c.RTT }, nanoseconds),
		numbers("p50", "P50", 22, quantile(0.5), latency),
		numbers("p99", "P99", 11, quantile(0.99), latency),
		words("error", "LAST ERROR", 13, extent{10, 18}, func(r *row) string { return r.c.lastError() }).styled(func(r *row) Style {
			if r.c.Errors != 0 {
				return Bad
			}
			return Plain
		}),
		{
			name: "rate", title: "LAST MINUTE", width: trendWidth, rank: 23, falling: true,
			text: func(r *row) string { return sparkline(r.c.history.last(trendWidth)) },
			compare: func(a, b *row) int {
				return cmp.Compare(a.c.change.SentBits()+a.c.change.RcvdBits(), b.c.change.SentBits()+b.c.change.RcvdBits())
			},
			style: func(*row) Style { return Good },
		},
	}
}

// lastError returns the status of the last completion with an error; none if there was none.
func (c *connection) lastError() string {
	if c.Errors == 0 {
		return none
	}
	return c.LastStatus.String()
}

// state returns the state of a connection, and whether its process is dead.
func (r *row) state() string {
	if r.a.Running {
		return r.c.State.String()
	}
	return dead + " " + r.c.State.String()
}

// stateOrder orders states, dead ones last.
func (r *row) stateOrder() int {
	if r.a.Running {
		return int(r.c.State)
	}
	return int(r.c.State) | 1<<8
}

func (r *row) stateStyle() Style {
	switch {
	case !r.a.Running:
		return Dead
	case r.c.State == ib.ERR || r.c.State == ib.SQE || r.c.State > ib.ERR:
		return Bad
	case r.c.State == ib.RTS:
		return Good
	}
	return Plain
}
