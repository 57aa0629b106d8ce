// Package deadline keeps things by the instant at which they are due: queue
// pairs by their timers, connections, requests that wait for an answer, packets
// that are held back. Whoever needs such an order has a Heap, and each element
// the Link by which its heap finds it; so adding and moving one allocates
// nothing but, at times, a longer list.
//
// Everything is in heap.go. The package reads no clock and calls nobody back.
package deadline
