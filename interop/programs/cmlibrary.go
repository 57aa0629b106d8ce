//go:build linux

package programs

import (
	"context"
	"regexp"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// connecting is a program of Debian's that connects through librdmacm.so.1.
type connecting struct {
	program
	says   *regexp.Regexp // what each side prints when it has succeeded
	noV6   bool
	faults string // of our adapter, when the client is ours
}

// The last lines that the programs print.
var (
	validated = regexp.MustCompile(`(?s)ping data:.*ping data:`)
	returned  = regexp.MustCompile(`return status 0`)
	ended     = regexp.MustCompile(`(rdma_client|rdma_server): end 0`)
)

// connectings are the programs.
var connectings = map[string]connecting{
	"rping":       {program: program{server: "rping -s -a SERVER -v -C 10 -S 3000", client: "rping -c -a SERVER -v -V -C 10 -S 3000"}, says: validated},
	"ucmatose":    {program: program{server: "ucmatose -b SERVER -c 5 -C 30 -S 10000", client: "ucmatose -s SERVER -c 5 -C 30 -S 10000"}, says: returned},
	"udaddy":      {program: program{server: "udaddy -b SERVER -c 3 -C 10", client: "udaddy -s SERVER -c 3 -C 10"}, says: returned},
	"rdma_client": {program: simple, says: ended},
	"ib_write_bw": {
		program: program{server: "ib_write_bw -R -F -n 100 -s 65536", client: "ib_write_bw -R -F -n 100 -s 65536 SERVER"}, says: rated, noV6: true,
		// perftest connects twice. Its server listens again only after it has sent the last message
		// over the first connection, and its client does not repeat a REQ that the peer rejects.
		faults: "delay 1s op=REQ nth=2",
	},
}

// libraryCM are the cases in which the same program connects to itself, here through our
// imitation of the kernel's rdma_cm.
func libraryCM() []suite.Family {
	return []suite.Family{{
		Name: "library-rdmacm",
		About: "Debian's own binaries and librdmacm.so.1 on our libibverbs.so.1 and our /dev/infiniband/rdma_cm, by softhca run, " +
			"with the same on rdma_rxe: messages of all sizes, READ and WRITE, datagrams by SIDR, perftest's -R",
		Dims: []matrix.Dim{
			{Name: "program", Values: []string{"rping", "ucmatose", "udaddy", "rdma_client", "ib_write_bw"}}, matrix.Direction(), matrix.IP(),
		},
		Skip:   func(c matrix.Cell) bool { return connectings[c.Get("program")].noV6 && c.Is("ip", "ipv6") },
		Short:  func(c matrix.Cell) bool { return c.Is("program", "rping") && c.Is("ip", "ipv4") },
		Always: true,
		Cost:   2 * time.Second,
		Run:    runConnecting,
	}}
}

// runConnecting runs a program on both sides. Both must exit with 0 and print their
// success.
func runConnecting(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	pr := connectings[c.Get("program")]
	e, err := pr.pair(l, c).run(ctx, c)
	if o := e.outcome(err); o.Verdict != suite.Pass {
		return o
	}
	for _, s := range []struct{ who, text string }{{"ours", e.ours.Stdout}, {"guest", e.guest.Stdout}} {
		if !pr.says.MatchString(s.text) {
			return suite.Failed("%s: it prints no result: %s", s.who, lastLines(s.text))
		}
	}
	fs, err := l.Frames(ctx)
	if err != nil {
		return suite.Failed("%v", err)
	}
	if err := compareCapture(l.Capture(), l.Own(c), fs); err != nil {
		return suite.Failed("our capture: %v", err)
	}
	return repeated(suite.Passed(""), l.OwnCounters())
}

// pair returns the two sides of a cell.
func (pr *connecting) pair(l *lab.Lab, c matrix.Cell) *pair {
	p := pr.program.pair(l, c, "")
	if pr.faults != "" && c.Is("dir", "client") {
		p.options = []string{"--fault", pr.faults}
	}
	return p
}
