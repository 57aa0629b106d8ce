// Package ib is the vocabulary of the InfiniBand architecture as the verbs
// use it: numbers, names and the small structures of the verbs interface.
// Numeric values equal those of rdma-core, so that they can cross a C
// interface unchanged. The package has no behaviour beyond arithmetic and
// look-ups on those numbers.
package ib

// For readers of the source: psn.go and keys.go (the distinct integer types), state.go,
// attr.go (QP states, types and attributes), wr.go and wc.go (work requests
// and completions), event.go, gid.go and guid.go, timer.go, errno.go; wcerror.go (what a completion that failed means).
