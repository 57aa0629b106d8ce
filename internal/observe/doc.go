// Package observe shows the adapters of other processes: what they are, their objects and their
// counters, as of one moment. It reads their tables (internal/restrack) and is what softhca top,
// softhca metrics and the library of preloaded programs have in common.
//
// Reading order: observe.go (adapters and their files), objects.go (the objects of an adapter),
// rates.go and increases.go (what changed between two reads), histogram.go (quantiles of latencies).
//
// The package opens no adapter and changes nothing. Tables exist on Linux only.
package observe
