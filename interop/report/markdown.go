//go:build linux

package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/interop/suite"
)

// shown are the packages that the head of the report names.
var shown = []string{"linux-image-amd64", "ibverbs-providers", "ibverbs-utils", "perftest", "rdmacm-utils", "libc6"}

// headings are the names of dimensions in tables, where they differ.
var headings = map[string]string{"dir": "ours", "ip": "IP", "mtu": "path MTU"}

// markdown returns the report in Markdown.
func (r *Report) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Against Linux\n\nWritten by `make interop` on %s; do not edit. ", r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "The peer is rdma_rxe, the Soft-RoCE of the Linux kernel, with the programs of rdma-core, in an emulated machine (%s).\n\n", r.Host)
	b.WriteString("| kernel | release | packages |\n|---|---|---|\n")
	for _, p := range r.Peers {
		var names []string
		for _, name := range shown {
			if v := p.Packages[name]; v != "" {
				names = append(names, name+" "+v)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Kernel, p.Release, strings.Join(names, ", "))
	}
	r.totals(&b)
	if len(r.Repeated) > 0 {
		fmt.Fprintf(&b, "\nFailed in this run, and repeated one at a time by `go run ./interop -failed`, whose results are below: `%s`.\n", strings.Join(r.Repeated, "`, `"))
	}
	b.WriteString("\nWhich bugs of ours the cases notice: [interop-gate.md](interop-gate.md).\n")
	b.WriteString("\n*Ours* is the role of our side. `expected` is an outcome that differs for the reason in the note.\n")
	for _, f := range r.Families {
		r.table(&b, &f)
	}
	return b.Bytes()
}

// totals writes the totals of all cases.
func (r *Report) totals(b *bytes.Buffer) {
	n := map[suite.Verdict]int{}
	var sent, got, messages, verified, exact int
	var came, accepted int64 // in cases in which each packet is accounted for
	for i := range r.Results {
		x := &r.Results[i]
		n[x.Verdict]++
		sent, got, messages = sent+x.Sent, got+x.Got, messages+x.Messages
		if x.Verdict == suite.Pass {
			verified += x.Verified
		}
		if x.Exact && x.Verdict == suite.Pass {
			exact++
			came, accepted = came+int64(x.Got), accepted+x.Accepted
		}
	}
	fmt.Fprintf(b, "\n%d cases: %d passed, %d differ for a known reason, %d failed. ", len(r.Results), n[suite.Pass], n[suite.Expected], n[suite.Fail])
	fmt.Fprintf(b, "%d packets from us and %d from Linux were on the wire; the ICRC of each was computed bit by bit and is right, but for those damaged on purpose. "+
		"Linux's kernel counted as received each one that we sent, except, where the text of a family says so, packets for queue pairs that had just ended; so may be a packet that was sent twice because the machine was slow to answer. ", sent, got)
	fmt.Fprintf(b, "The other way, in the %d cases without faults in which all programs end by themselves Linux sent %d packets: our adapters counted %d of them as accepted "+
		"and refused none; the other %d came when our program had ended, or was about to.\n", exact, came, accepted, came-accepted)
	fmt.Fprintf(b, "\n%d messages were on the wire, both ways, each counted once however often it was sent; %d of them in cases in which packets are lost, repeated, reordered "+
		"or damaged at our port and the data of all messages is compared: none differed.\n", messages, verified)
}

// table writes the cases of a family.
func (r *Report) table(b *bytes.Buffer, f *suite.Family) {
	rows := slices.DeleteFunc(slices.Clone(r.Results), func(x suite.Result) bool { return x.Family != f.Name })
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s.%s\n\n", f.Name, strings.TrimSuffix(f.About, "."), strings.TrimSuffix(" "+f.Counting(), " "))
	cols := append([]string{"kernel"}, f.DimNames()...)
	head := slices.Clone(cols)
	for i, c := range head {
		if h := headings[c]; h != "" {
			head[i] = h
		}
	}
	head = append(head, "result", "note")
	measured := slices.ContainsFunc(rows, func(x suite.Result) bool { return x.Measured != "" })
	if measured {
		head = append(head, "measured")
	}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for i := range rows {
		x := &rows[i]
		var cells []string
		for _, c := range cols {
			cells = append(cells, x.Values[c])
		}
		cells = append(cells, string(x.Verdict), x.Note)
		if measured {
			cells = append(cells, x.Measured)
		}
		for j, c := range cells {
			cells[j] = cell(c)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// cell makes text fit into a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}
