// Package metrics exports the adapters that this user may see to Prometheus: their counters, objects
// and latencies, over HTTP, to a file for node_exporter, or once to a writer.
//
// Reading order: catalogue.go (the metrics of a process), hardware.go (those named after
// hw_counters), exporter.go (one scrape), process.go (adapters with equal labels are one process),
// latency.go and node.go (counters that must outlive their objects), queuepair.go, serve.go and
// textfile.go (where a scrape goes).
//
// All numbers and names come from tables that other processes write. They become values and label
// values only, and the number of series is bounded. The package opens no adapter.
package metrics
