// Package mckey joins a number of UD queue pairs to a multicast group, and sends or
// receives a number of datagrams, as rdma-core's mckey does: either side may be the
// Linux program.
//
// mckey.go is all of it.
//
// The package opens no adapter by itself. It does not check the content of
// datagrams, and lost ones are not retransmitted.
package mckey
