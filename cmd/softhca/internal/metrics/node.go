package metrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/observe"
)

// Bounds of what is remembered of the adapters that node_exporter would see.
const (
	maxAdapters = 1000 // adapters: names with an address
	maxSources  = 256  // tables of one adapter whose last values are remembered
)

// nodeCount is a counter of a port that node_exporter's collector infiniband exports, too.
type nodeCount struct {
	definition
	of func(a *observe.Adapter) uint64
}

// nodeLabels are the labels of node_exporter and the address.
var nodeLabels = []string{"device", "port", "address"}

// nodeCounts returns the counters. Their names and descriptions are those of node_exporter: it
// refuses to export two descriptions of one name, and the host may have hardware adapters.
func nodeCounts() []nodeCount {
	define := func(name, help, unit, source string, of func(a *observe.Adapter) uint64) nodeCount {
		return nodeCount{definition{"node_infiniband_" + name, help, unit, source, nodeLabels}, of}
	}
	return []nodeCount{
		define("port_data_received_bytes_total", "Number of data octets received on all links", "bytes", "softhca_port_received_bytes_total",
			func(a *observe.Adapter) uint64 { return a.Port.ReceivedBytes }),
		define("port_data_transmitted_bytes_total", "Number of data octets transmitted on all links", "bytes", "softhca_port_transmitted_bytes_total",
			func(a *observe.Adapter) uint64 { return a.Port.SentBytes }),
		define("port_packets_received_total", "Number of packets received on all VLs by this port (including errors)", "", "softhca_port_received_packets_total",
			func(a *observe.Adapter) uint64 { return a.Port.ReceivedPackets }),
		define("port_packets_transmitted_total", "Number of packets transmitted on all VLs from this port (including errors)", "", "softhca_port_transmitted_packets_total",
			func(a *observe.Adapter) uint64 { return a.Port.SentPackets }),
		define("port_errors_received_total", "Number of packets containing an error that were received on this port", "",
			"drops malformed and icrc_errors, softhca_port_truncated_packets_total, softhca_port_bad_checksums_total", receiveErrors),
		define("port_discards_received_total", "Number of inbound packets discarded by the port because the port is down or congested", "", "softhca_port_receive_overflows_total",
			func(a *observe.Adapter) uint64 { return a.Port.Overflows }),
		define("port_discards_transmitted_total", "Number of outbound packets discarded by the port because the port is down or congested", "", "softhca_port_transmit_errors_total",
			func(a *observe.Adapter) uint64 { return a.Port.SendErrors }),
		define("link_downed_total", "Number of times the link failed to recover from an error state and went down", "", "softhca_hw_link_downed_total",
			func(a *observe.Adapter) uint64 { return a.Counters.LinkDowned }),
	}
}

// receiveErrors returns what sysfs shows as port_rcv_errors.
func receiveErrors(a *observe.Adapter) uint64 {
	sum := a.Counters.Dropped(counters.DropMalformed, counters.DropICRC)
	return plus(sum, plus(a.Port.Truncated, a.Port.BadChecksums))
}

// nodeGauges returns the metrics that are no counters, in the order of gauges.
func nodeGauges() []definition {
	return []definition{
		{"node_infiniband_state_id", "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)", "",
			"4 if softhca_adapter_up of one of its processes is 1, otherwise 1", nodeLabels},
		{"node_infiniband_physical_state_id", "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, 6: link error recover, 7: phytest)", "",
			"5 if softhca_adapter_up of one of its processes is 1, otherwise 3", nodeLabels},
		{"node_infiniband_rate_bytes_per_second", "Maximum signal transfer rate", "bytes per second", "the rate that sysfs shows, 100 Gb/s; it limits nothing", nodeLabels},
		{"node_infiniband_info", "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.", "", "what sysfs shows",
			[]string{"device", "board_id", "firmware_version", "hca_type", "address"}},
	}
}

// What an adapter's image in sysfs (internal/sysfs) shows.
const (
	shownRate     = 100e9 / 8
	shownFirmware = "1.0"
	shownBoard    = "softhca"
)

const (
	physicalDisabled = 3
	physicalLinkUp   = 5
)

// node keeps the counters of each adapter, summed over its processes, including those that have
// ended: the counters of hardware do not decrease when a process ends.
type node struct {
	adapters map[nodeKey]*nodeAdapter
	counts   []nodeCount
	descs    []*prometheus.Desc // of counts
	gauges   []*prometheus.Desc
	round    uint64
	left     int // adapters of the last scrape that were left out
}

type nodeKey struct{ device, address string }

type nodeAdapter struct {
	base    []uint64 // of tables that are not remembered
	sources map[source]*nodeSource
	round   uint64 // of the last scrape that saw it
	up      bool   // one of its processes works
}

// source is the memory that contains counters. Processes that run one after the other may share a
// board; otherwise each table has its own counters.
type source struct {
	board string
	table tableKey
}

type nodeSource struct {
	last  []uint64
	round uint64
}

func newNode() *node {
	n := &node{adapters: make(map[nodeKey]*nodeAdapter), counts: nodeCounts()}
	for i := range n.counts {
		n.descs = append(n.descs, n.counts[i].descriptor())
	}
	for _, d := range nodeGauges() {
		n.gauges = append(n.gauges, d.descriptor())
	}
	return n
}

// update takes the values of all adapters of one scrape.
func (n *node) update(all []*observe.Adapter) {
	n.round++
	left := make(map[nodeKey]bool)
	for _, a := range all {
		key := nodeKey{a.Name, addressOf(a)}
		of := n.adapters[key]
		if of == nil {
			if len(n.adapters) >= maxAdapters && !n.forget() {
				left[key] = true
				continue
			}
			of = &nodeAdapter{base: make([]uint64, len(n.counts)), sources: make(map[source]*nodeSource)}
			n.adapters[key] = of
		}
		if of.round != n.round {
			of.round, of.up = n.round, false
		}
		of.up = of.up || up(a)
		of.take(a, n.counts, n.round)
	}
	for _, of := range n.adapters {
		of.up = of.up && of.round == n.round
		of.fold(n.round)
	}
	n.left = len(left)
}

// forget removes an adapter that this scrape has not seen, if there is one.
func (n *node) forget() bool {
	for key, of := range n.adapters {
		if of.round != n.round {
			delete(n.adapters, key)
			return true
		}
	}
	return false
}

// take remembers the values of a table.
func (of *nodeAdapter) take(a *observe.Adapter, counts []nodeCount, round uint64) {
	from := source{board: a.Board}
	if a.Board == "" {
		from.table = keyOfTable(a)
	}
	s := of.sources[from]
	if s == nil {
		s = &nodeSource{last: make([]uint64, len(counts))}
		of.sources[from] = s
	}
	if s.round == round {
		return // the board of a dead process, which a later process has
	}
	s.round = round
	now := make([]uint64, len(counts))
	restarted := false
	for i := range counts {
		now[i] = counts[i].of(a)
		restarted = restarted || now[i] < s.last[i]
	}
	if restarted {
		of.keep(s)
	}
	s.last = now
}

// keep adds the values of a table to those of tables that are not remembered.
func (of *nodeAdapter) keep(s *nodeSource) {
	for i, v := range s.last {
		of.base[i] = plus(of.base[i], v)
	}
}

// fold stops remembering tables that are not there, beyond the bound. Others are remembered: their
// file may only be unreadable for a moment.
func (of *nodeAdapter) fold(round uint64) {
	for from, s := range of.sources {
		if len(of.sources) <= maxSources {
			return
		}
		if s.round != round {
			of.keep(s)
			delete(of.sources, from)
		}
	}
}

// collect sends the metrics.
func (n *node) collect(ch chan<- prometheus.Metric) {
	for _, key := range slices.SortedFunc(maps.Keys(n.adapters), compareNodes) {
		of := n.adapters[key]
		for i := range n.counts {
			sum := of.base[i]
			for _, s := range of.sources {
				sum = plus(sum, s.last[i])
			}
			send(ch, n.descs[i], prometheus.CounterValue, float64(sum), key.device, thePort, key.address)
		}
		state, physical := ib.PortDown, physicalDisabled
		if of.up {
			state, physical = ib.PortActive, physicalLinkUp
		}
		for i, v := range []float64{float64(state), float64(physical), shownRate} {
			send(ch, n.gauges[i], prometheus.GaugeValue, v, key.device, thePort, key.address)
		}
		send(ch, n.gauges[3], prometheus.GaugeValue, 1, key.device, shownBoard, shownFirmware, shownBoard, key.address)
	}
}

func compareNodes(a, b nodeKey) int {
	return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.address, b.address))
}
