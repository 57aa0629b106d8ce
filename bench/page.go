package main

import (
	"fmt"
	"strings"
)

const pageHead = `# How fast programs run on our libraries

Debian's programs, unmodified, run by ` + "`softhca run`" + `: two processes on loopback. Each is measured beside something else in
the same run, in turns; a figure is the median of the rounds, with the least and the greatest. Only the ratio of two neighbours
counts: machines differ, and are never quiet. Written by ` + "`make bench-libraries`" + `, which keeps its results, and the command of each
measurement, in [bench/results](../bench/results).

`

const pageTail = `
Both sides of a row send messages of the same size, over RC with a path MTU of 4096 unless it says otherwise.

- **ibv_rc_pingpong** and ` + "`softhca perf send --latency`" + ` do the same, in C over libibverbs and in Go: each tells the mean round trip of
  many. UDP is a socket that spins (beside -e: sleeps) until the segment is back, of the same size, and does nothing else: no
  checksum of its own, no copy, no acknowledgement.
- **ib_write_bw** and ` + "`softhca perf write`" + ` keep 128 requests in flight, and post one at a time. From 16 KiB on both have each request
  signalled. Of small ones ib_write_bw has each hundredth signalled, as it does if it is not told otherwise, and takes up to 16
  completions with a poll; in the row *each signalled* it does as perf does, which takes up to 64.
- **ib_send_lat**, ucx_perftest and fi_pingpong tell half of the mean round trip, of as many. UCX sends tagged messages over TCP.
  libfabric's provider udp is compared as udp;ofi_rxd, which repeats what is lost, as RC does. What it is without that, a datagram
  of the kernel's UDP that nobody checks or acknowledges, stands beside UD for the record: adapters of RoCE compute an ICRC
  over each packet, and look at its P_Key and Q_Key. Nor is there a row of it with 4 KiB, which it does not send.
- **cmtime** takes 500 connections through each of its steps together; a figure is the time of the step that connects them, by
  connection. Ours takes its turns in one thread that polls, Debian's sleeps until there is an event. What cmtime and rping take
  between two adapters of rdma_rxe, in a guest that is emulated, and between these and ours, is [beside the other meetings with
  Linux](interop.md#connections).
- With **-e** both programs sleep until something arrives; libfabric's has no such mode.
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
