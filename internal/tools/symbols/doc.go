// Command symbols records the symbols of libibverbs.so.1 that Debian's packages import. For
// each suite it fetches libibverbs1 and all packages that depend on it, reads their ELF
// files, and writes capi/test/testdata/symbols. Tests compare our library with these lists.
//
//	go run ./internal/tools/symbols                # all suites
//	go run ./internal/tools/symbols trixie sid
//
// Reading order: main.go (suites and packages), elf.go (exports and imports of a file).
//
// It needs apt, dpkg and the network, and installs nothing.
package main
