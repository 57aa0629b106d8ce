// Package counters defines the counters of an adapter: one structure with all
// of them, which all parts of the adapter share, and one list of the reasons
// why an arriving packet has no effect.
package counters
