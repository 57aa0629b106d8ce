// Command check runs programs of Debian's packages on our libibverbs.so.1,
// unmodified, and writes docs/programs.md, which says what became of each.
//
// Reading order: cases.go (the programs), program.go (a process and what it starts),
// run.go (a server and its client), connect.go (those that connect by rdma_cm), dapl.go, mpi.go, iser.go,
// machine.go and migration.go (virtual machines that are moved), faults.go (programs that
// have to fail), pyverbs.go (rdma-core's own unit tests),
// root.go (programs of other suites of Debian), main.go.
//
// The programs run in a network namespace of their own, with the rights of an
// ordinary user outside of it, and never reach the network. It needs Linux with
// user namespaces, gcc, libibverbs-dev, iproute2, and what it says is missing.
package main
