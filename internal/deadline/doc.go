// Package deadline orders elements by the instant at which they are due: queue
// pairs by their timers, connections, unanswered requests, held packets. A Heap
// holds such elements, and each element contains the Link by which its heap
// finds it, so that adding or moving one allocates nothing, except when the
// heap's slice grows.
//
// Everything is in heap.go. The package reads no clock and makes no callbacks.
package deadline
