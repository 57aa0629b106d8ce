// Command check runs unmodified programs from Debian's packages with our libibverbs.so.1, and
// writes the outcome of each to docs/programs.md.
//
// Reading order: cases.go (the programs), program.go (a process and its children),
// run.go (a server and its client), connect.go (pairs that connect by rdma_cm), dapl.go, mpi.go,
// iser.go, machine.go and migration.go (virtual machines that migrate), faults.go (programs that
// must fail), pyverbs.go and skips.go (rdma-core's unit tests), sources.go (our own programs),
// root.go (programs of other suites of Debian), page.go, main.go.
//
// The programs run in their own network namespace, with the rights of an ordinary user on the
// host, and never reach the network. The command needs Linux with user namespaces and the
// packages in packages.go; it names the missing ones.
package main
