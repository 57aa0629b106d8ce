// Package counters is what an adapter counts: one structure with every count,
// and one list of the reasons for which an arriving packet has no effect. All
// parts of the adapter count into the same structure.
package counters
