// Command bench measures the adapter end to end, each thing beside another:
// beside the ceiling, which is the program bench/baseline that moves the same
// segments over UDP without RDMA; beside itself without what goes wrong; and
// beside TCP over the same network. Both run in turns, as two processes, in
// several rounds; only the ratio of two neighbours counts, since machines differ
// and are never quiet.
//
// Usage:
//
//	go run ./bench [-rounds 9] [-seconds 1] [-only NAME] [-before PROGRAM] [-no-targets] [-results DIR]
//	go run ./bench -libraries [-page docs/programs-speed.md] ...
//	go run ./bench -list [-libraries]
//
// With -before, an older build of softhca is measured in the same rounds; with
// -libraries too, if its libraries are beside it.
//
// It prints a table and writes bench/results/DATE-MACHINE.json, and a figure of
// throughput against loss beside it. The exit code is 1 if a target is missed or
// a measurement fails. What the machine does not allow is left out, and the
// table says what it needs.
//
// Most of it runs over loopback, and what goes wrong does so at the port of one
// side. What is measured beside TCP runs over a pair of interfaces between two
// network namespaces: the kernel drops single packets of either, as it finds
// them on the wire, and cuts segments for both. A relay of our own would end
// the TCP connection, and faults at our port would miss TCP. This needs
// nftables, and root or unprivileged user namespaces.
//
// Programs that sleep are measured with softhca pingpong --events.
//
// With -libraries it measures something else: unmodified programs of Debian's
// packages on our libibverbs.so.1, beside the same in Go, beside UDP, and
// beside UCX over TCP and libfabric's provider of UDP. Two processes each, run
// by softhca run as users do it. This needs gcc, libibverbs-dev, ibverbs-utils,
// perftest, ucx-utils and libfabric-bin; the table says what is missing.
//
// Reading order: cases.go (what is measured, and the targets), main.go,
// debian.go (what is measured with -libraries), programs.go (building and
// running both sides), pair.go (a server and its client), shared.go (addresses that
// processes share), path.go and
// path_linux.go (a network that loses packets), series.go (medians and spread),
// report.go, page.go, plot.go, machine.go.
package main
