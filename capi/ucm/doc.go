//go:build linux

// Package ucm implements the commands that librdmacm writes to /dev/infiniband/rdma_cm, as the
// kernel does: the binary interface of <rdma/rdma_user_cm.h>, over package rdmacm.
//
// Reading order: manager.go (the state that all open files share), file.go (an open file, and
// how its descriptor signals events), command.go (the table of commands), id.go, connect.go,
// query.go, option.go, mcast.go and event.go (the commands); abi.go and sockaddr.go (the
// structures), process.go (access to the program's memory).
//
// The program owns the queue pairs: it creates them with libibverbs, and modifies them with the
// attributes of INIT_QP_ATTR when CONNECT_RESPONSE arrives.
//
// The package opens no adapters and redirects no paths: its callers, capi/engine and
// capi/libibverbs, do.
package ucm
