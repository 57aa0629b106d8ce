package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
)

// definition describes a metric. docs/metrics.md has a row for each.
type definition struct {
	name, help string
	unit       string // "" for numbers of things
	source     string // where the value comes from
	labels     []string
}

// descriptor returns the descriptor of the metric.
func (d *definition) descriptor() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, d.labels, nil)
}

// valueType returns the type that the name says.
func (d *definition) valueType() prometheus.ValueType {
	if strings.HasSuffix(d.name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// processLabels identify a process and its adapter. pidns is empty for processes in the PID namespace
// of the exporter.
var processLabels = []string{"device", "port", "address", "pid", "command", "pidns"}

// with returns the labels of a process and more.
func with(more ...string) []string {
	return append(processLabels[:len(processLabels):len(processLabels)], more...)
}

// one is a metric with one value for each process.
type one struct {
	definition
	of  func(a *observe.Adapter) float64
	max bool // of several adapters of a process the value is the maximum, not the sum
}

// several is a metric with a value for each of several words, in its own label.
type several struct {
	definition
	of func(a *observe.Adapter, each func(word string, v float64))
}

const (
	fromTable   = "table of the adapter"
	fromPort    = "port of the adapter"
	fromObjects = "objects in the table"
)

// ones returns the metrics with one value for each process, without those of hw_counters.
func ones() []one {
	all := append(states(), ports()...)
	return append(all, objects()...)
}

// states returns the metrics of the state of a process.
func states() []one {
	define := func(name, help, unit string, of func(a *observe.Adapter) float64) one {
		return one{definition: definition{name, help, unit, fromTable, processLabels}, of: of, max: true}
	}
	return []one{
		define("softhca_adapter_up", "1 if the process runs, its adapter has not failed and the host has an address of the adapter.", "", func(a *observe.Adapter) float64 { return truth(up(a)) }),
		define("softhca_adapter_dead", "1 if the process died without closing the adapter. Its other metrics are the last ones.", "", func(a *observe.Adapter) float64 { return truth(!a.Running) }),
		define("softhca_adapter_failed", "1 if the adapter failed.", "", func(a *observe.Adapter) float64 { return truth(a.Failed) }),
		define("softhca_adapter_down", "1 if the host has lost all addresses of the adapter.", "", func(a *observe.Adapter) float64 { return truth(a.Down) }),
		define("softhca_adapter_start_time_seconds", "Time at which the process opened the adapter, since 1970.", "seconds", func(a *observe.Adapter) float64 { return float64(a.Started.UnixNano()) / 1e9 }),
		define("softhca_port_mtu_bytes", "Maximum UDP payload of the port.", "bytes", func(a *observe.Adapter) float64 { return float64(a.MTU) }),
	}
}

// ports returns the metrics of the counters of a port.
func ports() []one {
	define := func(name, help, unit string, of func(p *observe.Port) uint64) one {
		return one{definition: definition{name, help, unit, fromPort, processLabels}, of: func(a *observe.Adapter) float64 { return float64(of(&a.Port)) }}
	}
	return []one{
		define("softhca_port_received_bytes_total", "UDP payload received, with RoCE headers.", "bytes", func(p *observe.Port) uint64 { return p.ReceivedBytes }),
		define("softhca_port_transmitted_bytes_total", "UDP payload sent, with RoCE headers.", "bytes", func(p *observe.Port) uint64 { return p.SentBytes }),
		define("softhca_port_received_packets_total", "Packets received.", "", func(p *observe.Port) uint64 { return p.ReceivedPackets }),
		define("softhca_port_transmitted_packets_total", "Packets sent.", "", func(p *observe.Port) uint64 { return p.SentPackets }),
		define("softhca_port_transmit_errors_total", "Packets that the system refused to send.", "", func(p *observe.Port) uint64 { return p.SendErrors }),
		define("softhca_port_truncated_packets_total", "Datagrams dropped because they were longer than any packet.", "", func(p *observe.Port) uint64 { return p.Truncated }),
		define("softhca_port_receive_overflows_total", "Datagrams that the system dropped because the receive buffer was full, where it reports them.", "", func(p *observe.Port) uint64 { return p.Overflows }),
		define("softhca_port_bad_checksums_total", "Datagrams dropped for a wrong UDP checksum, where the port sees it.", "", func(p *observe.Port) uint64 { return p.BadChecksums }),
		define("softhca_near_peers", "Processes of this host with which packets take shared memory.", "", func(p *observe.Port) uint64 { return p.Near[fabric.NearPeers] }),
		define("softhca_near_memory_bytes", "Memory of the rings to these processes.", "bytes", func(p *observe.Port) uint64 { return p.Near[fabric.NearMemory] }),
	}
}

// objects returns the metrics of sums over queue pairs and completion queues.
func objects() []one {
	define := func(name, help, unit string, max bool, of func(a *observe.Adapter) float64) one {
		return one{definition: definition{name, help, unit, fromObjects, processLabels}, of: of, max: max}
	}
	return []one{
		define("softhca_qps_in_flight_bytes", "Bytes that are sent and not acknowledged, of all queue pairs.", "bytes", false, qpSum(func(q *observe.QP) uint64 { return q.InFlight })),
		define("softhca_qps_outstanding_requests", "Work requests in all send queues.", "", false, qpSum(func(q *observe.QP) uint64 { return q.Outstanding })),
		define("softhca_cqs_waiting_completions", "Completions that wait to be polled, in all completion queues.", "", false, cqSum(func(c *observe.CQ) float64 { return float64(c.Waiting) })),
		define("softhca_cqs_depth_completions", "Entries of all completion queues.", "", false, cqSum(func(c *observe.CQ) float64 { return float64(c.Depth) })),
		define("softhca_cq_high_water_completions", "Maximum number of completions that ever waited in one completion queue.", "", true, cqMax(func(c *observe.CQ) float64 { return float64(c.HighWater) })),
		define("softhca_cq_waiting_ratio", "Part of its entries that the fullest completion queue has in use, from 0 to 1.", "ratio", true, cqMax(func(c *observe.CQ) float64 {
			return float64(c.Waiting) / float64(max(c.Depth, 1))
		})),
	}
}

// severals returns the metrics with a word in a label.
func severals() []several {
	return []several{
		{definition{"softhca_objects", "Objects of each kind.", "", fromObjects, with("kind")}, eachKind},
		{definition{"softhca_objects_without_row_total", "Objects that no metric counts, because the table of the adapter was full.", "", fromTable, with("kind")}, eachMissing},
		{definition{"softhca_qps", "Queue pairs and EE contexts in each state.", "", fromObjects, with("state")}, eachState},
		{definition{"softhca_dropped_packets_total", "Received packets that were dropped, for each reason.", "", "hw_counters drop_*", with("reason")}, eachDrop},
	}
}

func eachKind(a *observe.Adapter, each func(string, float64)) {
	for k, n := range map[restrack.Kind]int{
		restrack.KindQP: len(a.QPs), restrack.KindCQ: len(a.CQs), restrack.KindMR: len(a.MRs), restrack.KindPD: len(a.PDs),
		restrack.KindSRQ: len(a.SRQs), restrack.KindCMID: len(a.CMIDs), restrack.KindXRCD: len(a.XRCDs),
	} {
		each(k.String(), float64(n))
	}
}

func eachMissing(a *observe.Adapter, each func(string, float64)) {
	for k := restrack.KindNone + 1; k < restrack.NumKinds; k++ {
		each(k.String(), float64(a.Missing[k.String()]))
	}
}

// unknownState is the label of queue pairs with a state that does not exist.
const unknownState = "unknown"

func eachState(a *observe.Adapter, each func(string, float64)) {
	for s := ib.RESET; s <= ib.ERR; s++ {
		each(s.String(), 0)
	}
	each(unknownState, 0)
	for i := range a.QPs {
		if s := a.QPs[i].State; s <= ib.ERR {
			each(s.String(), 1)
		} else {
			each(unknownState, 1)
		}
	}
}

func eachDrop(a *observe.Adapter, each func(string, float64)) {
	for d := range counters.NumDrops {
		each(d.String(), float64(a.Counters.Drops[d]))
	}
}

// up reports whether an adapter works.
func up(a *observe.Adapter) bool { return a.Running && !a.Failed && !a.Down }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func qpSum(of func(q *observe.QP) uint64) func(a *observe.Adapter) float64 {
	return func(a *observe.Adapter) (sum float64) {
		for i := range a.QPs {
			sum += float64(of(&a.QPs[i]))
		}
		return sum
	}
}

func cqSum(of func(c *observe.CQ) float64) func(a *observe.Adapter) float64 {
	return func(a *observe.Adapter) (sum float64) {
		for i := range a.CQs {
			sum += of(&a.CQs[i])
		}
		return sum
	}
}

func cqMax(of func(c *observe.CQ) float64) func(a *observe.Adapter) float64 {
	return func(a *observe.Adapter) (most float64) {
		for i := range a.CQs {
			most = max(most, of(&a.CQs[i]))
		}
		return most
	}
}
