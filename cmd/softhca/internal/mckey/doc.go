// Package mckey has a number of UD queue pairs join a multicast group and send
// or receive a number of datagrams, as rdma-core's mckey does: either side may
// be the Linux program.
//
// mckey.go is all of it.
//
// The package opens no adapter by itself. Nobody looks at what the datagrams
// hold, and nobody repeats one that is lost.
package mckey
