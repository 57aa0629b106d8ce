// Command interop proves our adapter against Linux's own: it boots guests with
// Linux's Soft-RoCE and rdma-core's programs, runs a matrix of cases between
// them and us in both directions, checks each packet, and writes a report.
//
// Reading order: main_linux.go (the command), outside_linux.go (prepares, starts the rest,
// reports), files_linux.go (our files that a child uses), inside_linux.go (a child: in its own
// network, with one guest).
//
// It needs Linux on x86-64, Debian's package tools and QEMU; it installs
// nothing but, as root on Debian, packages that are missing.
package main
