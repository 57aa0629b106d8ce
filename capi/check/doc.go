// Command check runs unmodified programs of Debian's packages on our libibverbs.so.1,
// and writes docs/programs.md, which has the outcome of each.
//
// Reading order: cases.go (the programs), program.go (a process and its children),
// run.go (a server and its client), connect.go (pairs that connect by rdma_cm), dapl.go, mpi.go,
// iser.go, machine.go and migration.go (virtual machines that migrate), faults.go (programs that
// must fail), pyverbs.go (rdma-core's unit tests), sources.go (our own programs),
// root.go (programs of other suites of Debian), main.go.
//
// The programs run in a network namespace of their own, where they have the rights of an
// ordinary user on the host, and never reach the network. It needs Linux with user namespaces
// and the packages of packages.go, and names the missing ones.
package main
