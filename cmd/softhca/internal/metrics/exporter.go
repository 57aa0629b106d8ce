package metrics

import (
	"io"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
)

// Build identifies the build of the command.
type Build struct{ Version, Revision string }

// Config says what is exported.
type Config struct {
	NodeNames bool // also node_infiniband_*
	PerQP     bool // also the metrics of single queue pairs
	QPs       int  // maximum number of queue pairs with series of their own
	Build     Build
	Log       func(format string, args ...any)
}

// Exporter reads all adapters at each scrape. It is safe for concurrent use; scrapes take turns.
type Exporter struct {
	cfg Config

	ones         []one
	severals     []several
	qps          []perQP
	oneDescs     []*prometheus.Desc
	severalDescs []*prometheus.Desc
	hwDescs      []*prometheus.Desc
	qpDescs      []*prometheus.Desc
	latency      *prometheus.Desc
	info         *prometheus.Desc
	qpInfo       *prometheus.Desc
	build        *prometheus.Desc
	ownDescs     []*prometheus.Desc
	pidns        uint64 // of this process

	mu        sync.Mutex // guards the fields that follow
	set       *observe.Set
	latencies *latencies
	node      *node
	errors    readErrors
}

var _ prometheus.Collector = (*Exporter)(nil)
var _ io.Closer = (*Exporter)(nil)

var (
	latencyDefinition = definition{"softhca_completion_latency_seconds", "Time of send work requests from the first packet to the completion, of all queue pairs. The sum is an estimate from the buckets.",
		"seconds", "rows of the queue pairs", processLabels}
	infoDefinition  = definition{"softhca_adapter_info", "Identity of an adapter and its process; always 1.", "", fromTable, with("guid", "slot", "uid", "netns")}
	buildDefinition = definition{"softhca_build_info", "Build of the exporter; always 1.", "", "exporter", []string{"version", "revision", "goversion", "goos", "goarch"}}
)

// The metrics of the exporter itself, in the order of own.
const (
	ownTables = iota
	ownErrors
	ownDuration
	ownProcessesLeft
	ownQPsLeft
	ownLatenciesLeft
	ownAdaptersLeft
)

// own returns the definitions of the metrics of the exporter itself.
func own() []definition {
	define := func(name, help, unit string) definition {
		return definition{"softhca_exporter_" + name, help, unit, "exporter", nil}
	}
	return []definition{
		ownTables:        define("tables", "Tables of adapters that this scrape has read.", ""),
		ownErrors:        define("read_errors_total", "Tables that could not be read, summed over all scrapes.", ""),
		ownDuration:      define("read_duration_seconds", "Time that reading all tables took.", "seconds"),
		ownProcessesLeft: define("processes_left_out", "Processes without series, because there are more than "+strconv.Itoa(maxProcesses)+".", ""),
		ownQPsLeft:       define("queue_pairs_left_out", "Queue pairs without series of their own, with --per-qp, because there are more than --qp-limit.", ""),
		ownLatenciesLeft: define("latencies_left_out", "Queue pairs that the latency histograms leave out, because there are more than "+strconv.Itoa(maxTracked)+".", ""),
		ownAdaptersLeft:  define("adapters_left_out", "Adapters without node_infiniband series, because there are more than "+strconv.Itoa(maxAdapters)+".", ""),
	}
}

// New returns an Exporter of all adapters that this user may see. The caller closes it.
func New(cfg Config) *Exporter {
	e := &Exporter{
		cfg: cfg, ones: ones(), severals: severals(), latency: latencyDefinition.descriptor(), info: infoDefinition.descriptor(),
		qpInfo: qpInfo.descriptor(), build: buildDefinition.descriptor(), pidns: pidNamespace(),
		set: observe.NewSet(), latencies: newLatencies(maxTracked), errors: readErrors{log: cfg.Log},
	}
	if cfg.PerQP {
		e.qps = qpMetrics()
	}
	if cfg.NodeNames {
		e.node = newNode()
	}
	for i := range e.ones {
		e.oneDescs = append(e.oneDescs, e.ones[i].descriptor())
	}
	for i := range e.severals {
		e.severalDescs = append(e.severalDescs, e.severals[i].descriptor())
	}
	for i := range e.qps {
		e.qpDescs = append(e.qpDescs, e.qps[i].descriptor())
	}
	for _, d := range hardware() {
		e.hwDescs = append(e.hwDescs, d.descriptor())
	}
	for _, d := range own() {
		e.ownDescs = append(e.ownDescs, d.descriptor())
	}
	return e
}

// definitions returns the names and descriptions of all metrics, with all options.
func definitions() (all []definition) {
	for _, m := range ones() {
		all = append(all, m.definition)
	}
	for _, m := range severals() {
		all = append(all, m.definition)
	}
	all = append(append(all, latencyDefinition, infoDefinition), hardware()...)
	for _, m := range qpMetrics() {
		all = append(all, m.definition)
	}
	all = append(all, qpInfo)
	for _, m := range nodeCounts() {
		all = append(all, m.definition)
	}
	return append(append(append(all, nodeGauges()...), own()...), buildDefinition)
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, list := range [][]*prometheus.Desc{e.oneDescs, e.severalDescs, e.hwDescs, e.qpDescs, e.ownDescs, {e.latency, e.info, e.build}} {
		for _, d := range list {
			ch <- d
		}
	}
	if e.cfg.PerQP {
		ch <- e.qpInfo
	}
	if e.node != nil {
		for _, d := range append(e.node.descs[:len(e.node.descs):len(e.node.descs)], e.node.gauges...) {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector: it reads all tables.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := time.Now()
	adapters, err := e.set.Read()
	e.errors.count(err)
	took := time.Since(began)
	all, left := processes(adapters, maxProcesses, e.pidns)
	e.latencies.begin()
	for _, p := range all {
		e.process(ch, p)
	}
	e.latencies.end()
	about := []float64{
		ownTables: float64(len(adapters)), ownErrors: float64(e.errors.n), ownDuration: took.Seconds(),
		ownProcessesLeft: float64(left), ownLatenciesLeft: float64(e.latencies.left), ownAdaptersLeft: 0,
	}
	if e.cfg.PerQP {
		about[ownQPsLeft] = float64(e.queuePairs(ch, all))
	}
	if e.node != nil {
		e.node.update(adapters)
		e.node.collect(ch)
		about[ownAdaptersLeft] = float64(e.node.left)
	}
	for i, d := range own() {
		send(ch, e.ownDescs[i], d.valueType(), about[i])
	}
	send(ch, e.build, prometheus.GaugeValue, 1, e.cfg.Build.Version, e.cfg.Build.Revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// process sends the metrics of a process.
func (e *Exporter) process(ch chan<- prometheus.Metric, p *process) {
	for i := range e.ones {
		m := &e.ones[i]
		send(ch, e.oneDescs[i], m.valueType(), p.value(m.of, m.max), p.labels...)
	}
	for i := range e.severals {
		m := &e.severals[i]
		words, sums := p.words(m.of)
		for _, word := range words {
			send(ch, e.severalDescs[i], m.valueType(), sums[word], values(p.labels, word)...)
		}
	}
	sums := make([]float64, len(e.hwDescs))
	var latency buckets
	for _, a := range p.adapters {
		i := 0
		eachHardware(a, func(_ string, v float64) {
			sums[i] += v
			i++
		})
		sum := e.latencies.add(a)
		latency.add(&sum)
	}
	for i, v := range sums {
		send(ch, e.hwDescs[i], prometheus.CounterValue, v, p.labels...)
	}
	cumulated, count, sum := latency.histogram()
	m, err := prometheus.NewConstHistogram(e.latency, count, sum, cumulated, p.labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(e.latency, err)
	}
	ch <- m
	a := p.adapters[0]
	send(ch, e.info, prometheus.GaugeValue, 1, values(p.labels,
		ib.GUID(a.GUID).String(), strconv.Itoa(int(a.Slot)), strconv.Itoa(a.UID), strconv.FormatUint(a.NetNS, 10))...)
}

// Close closes the tables.
func (e *Exporter) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set.Close()
}

// send sends a value. A label that is not valid UTF-8 would be an error of this scrape.
func send(ch chan<- prometheus.Metric, d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, t, v, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	ch <- m
}
