// Command symbols records what Debian's packages need of libibverbs.so.1: it fetches,
// for each suite, libibverbs1 and all packages that depend on it, reads their ELF files,
// and writes capi/test/testdata/symbols, which the tests compare our library with.
//
//	go run ./internal/tools/symbols                # all suites
//	go run ./internal/tools/symbols trixie sid
//
// Reading order: main.go (suites and packages), elf.go (what a file exports and needs).
//
// It installs nothing, and needs apt, dpkg and the network.
package main
