package metrics

import (
	"strings"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/observe"
)

// hardwareHelp says what each counter of hw_counters counts. The drop_ counters are
// softhca_dropped_packets_total.
var hardwareHelp = map[string]string{
	"sent_pkts":              "Packets sent.",
	"rcvd_pkts":              "Packets received.",
	"duplicate_request":      "Duplicate RC requests received.",
	"out_of_seq_request":     "RC requests received ahead of the expected PSN, the first of each gap.",
	"rcvd_rnr_err":           "RNR NAKs received.",
	"send_rnr_err":           "RNR NAKs sent.",
	"rcvd_seq_err":           "Sequence NAKs received.",
	"ack_deferred":           "Acknowledgements merged into a later one.",
	"retry_exceeded_err":     "Requests that failed with RETRY_EXC_ERR.",
	"retry_rnr_exceeded_err": "Requests that failed with RNR_RETRY_EXC_ERR.",
	"completer_retry_err":    "Retries of any cause.",
	"send_err":               "Packets that the port refused.",
	"link_downed":            "Times that the port went down.",
	"rdma_sends":             "SEND messages completed.",
	"rdma_recvs":             "Receive completions.",
	"local_ack_timeout_err":  "Expiries of the retry timer.",
	"implied_nak_seq_err":    "Responses found missing by a later one.",
	"retrans_pkts":           "Request packets sent again.",
	"rx_write_requests":      "RDMA WRITE requests received.",
	"rx_read_requests":       "RDMA READ requests received.",
	"rx_atomic_requests":     "Atomic requests received.",
	"out_of_buffer":          "UC and UD messages dropped because no receive was posted.",
	"req_cqe_error":          "Send completions with an error other than a flush.",
	"resp_cqe_error":         "Receive completions with an error other than a flush.",
	"cqe_flush":              "Flushed completions.",
	"cqe_overflow":           "Completions lost because a completion queue was full.",
	"state_changes":          "State changes of queue pairs.",
	"probes":                 "Packets sent again to learn whether they had arrived.",
	"early_kept":             "Requests and responses buffered beyond a gap.",
	"early_refused":          "Requests and responses beyond a gap that found the buffer full.",
	"resyncs":                "RD messages abandoned half-way, followed by a RESYNC.",
	"rd_suspended":           "RD messages suspended after an RNR NAK.",
	"challenges":             "Claims about a peer that were challenged.",
	"challenges_refuted":     "Challenges that the peer's answers refuted.",
	"near_sent_packets":      "Packets sent through shared memory.",
	"near_received_packets":  "Packets received through shared memory.",
	"near_dropped_packets":   "Packets dropped because the ring of their process stayed full.",
	"near_meetings":          "Meetings with other processes for shared memory.",
	"near_refused_meetings":  "Meetings that one of the two processes refused.",
	"near_garbled_meetings":  "Meetings that ended because the other process wrote garbage.",
}

const dropPrefix = "drop_"

// eachHardware calls f with the name and value of each counter that hw_counters shows, except for
// the drops and for what is no counter.
func eachHardware(a *observe.Adapter, f func(name string, v float64)) {
	a.Counters.Each(func(name string, v uint64) {
		switch {
		case strings.HasPrefix(name, dropPrefix) || name == "events_lost": // the engine does not count the latter
		case name == "send_err":
			f(name, float64(v)+float64(a.Port.SendErrors))
		default:
			f(name, float64(v))
		}
	})
	for n := range fabric.NumNear {
		if n != fabric.NearPeers && n != fabric.NearMemory {
			f(n.String(), float64(a.Port.Near[n]))
		}
	}
}

// hardware returns the definitions of the counters in the order of eachHardware.
func hardware() (all []definition) {
	eachHardware(&observe.Adapter{Counters: counters.Set{}}, func(name string, _ float64) {
		all = append(all, definition{"softhca_hw_" + name + "_total", hardwareHelp[name], "", "hw_counters " + name, processLabels})
	})
	return all
}
