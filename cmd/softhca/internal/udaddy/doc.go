// Package udaddy finds a number of UD queue pairs by SIDR and exchanges a number of
// datagrams with each, as rdma-core's udaddy does: either side may be the Linux
// program.
//
// The client sends first. The server learns from the first datagram of each
// connection where to reply: the address from its GRH, the queue pair from its
// immediate data.
//
// udaddy.go is all of it.
//
// The package opens no adapter by itself. It does not check the content of
// datagrams, and lost ones are not retransmitted.
package udaddy
