// Command bench measures the adapter end to end, always compared with a
// reference: the ceiling, which is the program bench/baseline that moves the
// same segments over UDP without RDMA; the adapter itself without faults; or TCP
// over the same network. Both sides of a comparison run in turns, as two
// processes, in several rounds; only the ratio of two neighbours counts, because
// machines differ and are never idle.
//
// Usage:
//
//	go run ./bench [-rounds 9] [-seconds 1] [-only NAME] [-before PROGRAM] [-no-targets] [-results DIR]
//	go run ./bench -libraries [-page docs/programs-speed.md] ...
//	go run ./bench -epoll ...
//	go run ./bench -tables ...
//	go run ./bench -check ...
//	go run ./bench -list [-libraries] [-epoll] [-tables] [-check]
//
// All measurements run over UDP (SOFTHCA_WIRE=udp), unless their commands name another --wire.
//
// With -before, an older build of softhca is measured in the same rounds; with
// -libraries too, if its libraries are in its directory.
//
// It prints a table and writes bench/results/DATE-MACHINE.json, and a plot of
// throughput against loss in the same directory. The exit code is 1 if a target
// is missed or a measurement fails. Measurements that the machine does not allow
// are left out, and the table says what they need.
//
// Most measurements run over loopback, with faults at the port of one side.
// Comparisons with TCP run over a pair of interfaces between two network
// namespaces: the kernel drops single packets of both protocols on the wire,
// and segments for both. A relay of our own would terminate the TCP connection,
// and faults at our port would not affect TCP. This needs nftables, and root or
// unprivileged user namespaces.
//
// Programs that sleep are measured with softhca perf send --latency --events.
//
// With -check it compares Debian's perftest under softhca run --check with itself
// without it.
//
// With -libraries it measures unmodified programs of Debian's packages on our
// libibverbs.so.1, compared with our Go programs, with UDP, with UCX over TCP
// and with libfabric's UDP provider. Each measurement has two processes,
// started by softhca run as users start them. This needs gcc, libibverbs-dev,
// ibverbs-utils, perftest, ucx-utils and libfabric-bin; the table says what is
// missing.
//
// With -epoll it measures a server and a client whose threads sleep in
// epoll_wait, over rdma_cm and verbs, compared with the same over TCP: the
// program in bench/epoll, which needs gcc, libibverbs-dev and librdmacm-dev.
//
// With -tables it compares each measurement of softhca with the same one without tables of objects
// (SOFTHCA_TABLES=off), also over shared memory: once as it is, and once while this program reads the
// tables 10 times in a second. On a machine that is not idle a single ratio says little; the target is for
// the geometric mean of all.
//
// Reading order: cases.go (measurements and targets), main.go, debian.go
// (measurements with -libraries), epoll.go (with -epoll), tables.go (with -tables), programs.go (building and running both sides),
// pair.go (a server and its client), shared.go (addresses that processes share),
// path.go and path_linux.go (a network that loses packets), series.go (medians and
// spread), report.go, page.go, plot.go, machine.go.
package main
