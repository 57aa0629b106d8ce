package metrics

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/softhca/softhca/internal/observe"
)

// DefaultQPs is the default bound of the queue pairs with series of their own.
const DefaultQPs = 1000

const fromQP = "row of the queue pair"

// qpLabels identify a queue pair or an EE context.
var qpLabels = with("type", "qpn")

// perQP is a metric with a value for each queue pair.
type perQP struct {
	definition
	of func(q *observe.QP) float64
}

// qpMetrics returns the metrics of each queue pair.
func qpMetrics() []perQP {
	define := func(name, help, unit string, of func(q *observe.QP) uint64) perQP {
		return perQP{definition{"softhca_qp_" + name, help, unit, fromQP, qpLabels}, func(q *observe.QP) float64 { return float64(of(q)) }}
	}
	all := []perQP{
		define("transmitted_bytes_total", "Payload sent.", "bytes", func(q *observe.QP) uint64 { return q.SentBytes }),
		define("received_bytes_total", "Payload received.", "bytes", func(q *observe.QP) uint64 { return q.RcvdBytes }),
		define("transmitted_messages_total", "Messages sent.", "", func(q *observe.QP) uint64 { return q.SentMessages }),
		define("received_messages_total", "Messages received.", "", func(q *observe.QP) uint64 { return q.RcvdMessages }),
		define("transmitted_packets_total", "Packets sent.", "", func(q *observe.QP) uint64 { return q.SentPackets }),
		define("received_packets_total", "Packets received.", "", func(q *observe.QP) uint64 { return q.RcvdPackets }),
		define("retransmitted_packets_total", "Request packets sent again.", "", func(q *observe.QP) uint64 { return q.Retransmitted }),
		define("timeouts_total", "Expiries of the retry timer.", "", func(q *observe.QP) uint64 { return q.Timeouts }),
		define("transmitted_rnr_naks_total", "RNR NAKs sent.", "", func(q *observe.QP) uint64 { return q.RNRSent }),
		define("received_rnr_naks_total", "RNR NAKs received.", "", func(q *observe.QP) uint64 { return q.RNRRcvd }),
		define("received_sequence_naks_total", "Sequence NAKs received.", "", func(q *observe.QP) uint64 { return q.SeqErrors }),
		define("error_completions_total", "Completions with an error other than a flush.", "", func(q *observe.QP) uint64 { return q.Errors }),
		define("in_flight_bytes", "Bytes that are sent and not acknowledged.", "bytes", func(q *observe.QP) uint64 { return q.InFlight }),
		define("window_bytes", "Bytes that may be in flight.", "bytes", func(q *observe.QP) uint64 { return q.Window }),
		define("outstanding_requests", "Work requests in the send queue.", "", func(q *observe.QP) uint64 { return q.Outstanding }),
		define("state_id", "State (0: RESET, 1: INIT, 2: RTR, 3: RTS, 4: SQD, 5: SQE, 6: ERR).", "", func(q *observe.QP) uint64 { return uint64(q.State) }),
	}
	return append(all, perQP{definition{"softhca_qp_rtt_seconds", "Smoothed round trip; 0 if it is not measured.", "seconds", fromQP, qpLabels},
		func(q *observe.QP) float64 { return float64(q.RTT) / 1e9 }})
}

// qpInfo has the addresses of a queue pair as labels.
var qpInfo = definition{"softhca_qp_info", "Path and peer of a queue pair; always 1.", "", fromQP, append(qpLabels[:len(qpLabels):len(qpLabels)], "local", "remote", "remote_qpn")}

// qpSeries are queue pairs with series.
type qpSeries struct {
	labels []string // the values of qpLabels
	qp     *observe.QP
}

// busiest returns the queue pairs of some processes, at most a number of them: those that moved most
// bytes. left is the number of the others.
func busiest(all []*process, most int) (kept []qpSeries, left int) {
	seen := make(map[string]bool)
	for _, p := range all {
		for _, a := range p.adapters {
			for i := range a.QPs {
				q := &a.QPs[i]
				labels := values(p.labels, q.Type.String(), strconv.FormatUint(uint64(q.Num), 10))
				if key := keyOf(labels); seen[key] { // a damaged table, or one of an equal process
					left++
				} else {
					seen[key] = true
					kept = append(kept, qpSeries{labels, q})
				}
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b qpSeries) int {
		return cmp.Compare(plus(b.qp.SentBytes, b.qp.RcvdBytes), plus(a.qp.SentBytes, a.qp.RcvdBytes))
	})
	if over := len(kept) - most; over > 0 {
		kept, left = kept[:most], left+over
	}
	return kept, left
}

// queuePairs sends the metrics of the busiest queue pairs and returns how many were left out.
func (e *Exporter) queuePairs(ch chan<- prometheus.Metric, all []*process) int {
	kept, left := busiest(all, e.cfg.QPs)
	for _, s := range kept {
		for i := range e.qps {
			m := &e.qps[i]
			send(ch, e.qpDescs[i], m.valueType(), m.of(s.qp), s.labels...)
		}
		send(ch, e.qpInfo, prometheus.GaugeValue, 1,
			values(s.labels, text(s.qp.Local), text(s.qp.Remote), strconv.FormatUint(uint64(s.qp.Peer), 10))...)
	}
	return left
}

// text returns an address; empty for none.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
