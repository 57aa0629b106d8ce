package main

import (
	"fmt"
	"strings"
)

const pageHead = `# How fast programs run on our libraries

Debian's programs, unmodified, run by ` + "`softhca run`" + `: two processes on loopback, over UDP (` + "`SOFTHCA_WIRE=udp`" + `). Each row compares a program with a reference in
the same run, in turns; a figure is the median of the rounds, with minimum and maximum. Only the ratio of a row is meaningful:
machines differ, and other load disturbs them. Written by ` + "`make bench-libraries`" + `, which keeps its results, and the command of each
measurement, in [bench/results](../bench/results).

`

const pageTail = `
Both sides of a row send messages of the same size, over RC with a path MTU of 4096 unless it says otherwise.

- **ibv_rc_pingpong** and ` + "`softhca perf send --latency`" + ` do the same, in C over libibverbs and in Go: each prints the mean round trip of
  many messages. UDP is a socket that polls (with -e: sleeps) until a segment of the same size returns. It has no checksum of its
  own, no copy and no acknowledgement.
- **ib_write_bw** and ` + "`softhca perf write`" + ` keep 128 requests in flight, and post one at a time. From 16 KiB on, both signal each
  request. Below, ib_write_bw signals every hundredth request, its default, and polls up to 16
  completions at a time; in the row *each signalled* both signal each request, and perf polls up to 64.
- **ib_send_lat**, ucx_perftest and fi_pingpong print half of the mean round trip, of the same number of messages. UCX sends tagged messages over TCP.
  libfabric's provider udp is compared as udp;ofi_rxd, which retransmits lost packets, as RC does. Without ofi_rxd it sends plain
  datagrams of the kernel's UDP, without checks or acknowledgements; the row with UD shows it for information only, because RoCE
  adapters compute an ICRC over each packet and check its P_Key and Q_Key. It cannot send 4 KiB.
- **ib_write_lat** and UCX's put wait for the peer's WRITE by reading their own memory, without calling the library: a thread of ours
  has to get a processor first. Their figure is the median of half a round trip; softhca perf write --latency polls instead.
- **cmtime** takes 500 connections through each of its steps together; a figure is the time of the connect step, per
  connection. softhca's command polls in one thread, Debian's sleeps until an event. For the times of cmtime and rping
  between two adapters of rdma_rxe in an emulated guest, and between rdma_rxe and softhca, see
  [interop.md](interop.md#connections).
- With **-e** both programs sleep until a message arrives; libfabric's has no such mode.
`

// markdown returns the table of programs over our libraries as a page in
// Markdown.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString(pageHead)
	fmt.Fprintf(&b, "%s, %s, %d cores, %s %s, %s: medians of up to %d rounds of about %g s.\n\n",
		r.Date, r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Kernel, r.Machine.Go, r.Rounds, r.Seconds)
	b.WriteString("| program | that | softhca | ratio | target | |\n|---|---|---|---|---|---|\n")
	for i := range r.Results {
		x := &r.Results[i]
		switch {
		case x.Skipped != "":
			fmt.Fprintf(&b, "| %s | | | not measured: it %s | | |\n", x.Name, cell(x.Skipped))
		case x.Failed != "":
			fmt.Fprintf(&b, "| %s | | | failed: %s | | |\n", x.Name, cell(x.Failed))
		default:
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", x.Name, x.Baseline.in(x.Unit), x.Softhca.in(x.Unit), x.Ratio.in(""), x.Target, x.verdict())
		}
	}
	b.WriteString(pageTail)
	return b.String()
}

// cell returns text that fits into a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "/")
}
