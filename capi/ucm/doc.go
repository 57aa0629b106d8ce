//go:build linux

// Package ucm answers what librdmacm writes to /dev/infiniband/rdma_cm as the kernel
// does, over package rdmacm: the binary interface of <rdma/rdma_user_cm.h>.
//
// Reading order: manager.go (what all open files share), file.go (an open file, and how
// its descriptor tells of events), command.go (the table of commands), id.go, connect.go,
// query.go, option.go, mcast.go and event.go (what they do); abi.go and sockaddr.go have
// the structures, process.go the memory of the program.
//
// The queue pairs are the program's: it creates them with libibverbs, moves them with the
// attributes of INIT_QP_ATTR, and is told by CONNECT_RESPONSE when.
//
// It opens no adapter and knows no path: both are its caller's, in capi/engine and
// capi/libibverbs.
package ucm
