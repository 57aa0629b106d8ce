// Package ring holds the queues of the adapter: power-of-two arrays of fixed
// entries without pointers, which C could map. One thread produces and one
// consumes; the two indices are atomic, so the two need no lock.
//
// Reading order: ring.go, then the entries in wqe.go.
package ring
