//go:build linux

package programs

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

// ending is the expected result of one side: its output, and whether it exits
// with 0.
type ending struct {
	says string // an expression; "" for anything
	ok   bool
	any  bool // its exit code does not matter
}

// check returns how a side's result differs, "" if it does not.
func (e ending) check(who string, r remote.Result) string {
	if !e.any && r.OK() != e.ok {
		return fmt.Sprintf("%s: exit code %d, %s", who, r.Exit, lastLine(r))
	}
	if e.says != "" && !regexp.MustCompile(e.says).MatchString(r.Stdout+r.Stderr) {
		return fmt.Sprintf("%s does not say %q but %s", who, e.says, lastLine(r))
	}
	return ""
}

// refusal is a case in which a program's connection must be refused.
type refusal struct {
	name                   string
	program                program
	server, client         string // flags of the sides
	serverEnds, clientEnds ending
	stop                   syscall.Signal // for a server that serves on
}

const (
	elsewhere = "-p 7999"
	// rejected8 matches the output of the programs for a port without a listener.
	rejected8 = `RDMA_CM_EVENT_REJECTED, (error|status):? 8`
)

var refusals = []refusal{
	{
		// A server of another port space: the adapter is open, but no program
		// listens on the service ID.
		name: "udaddy-no-listener", stop: syscall.SIGINT,
		program: program{
			name: udaddy.name, client: udaddy.client, server: rping.server,
		},
		clientEnds: ending{says: `UNREACHABLE, (error|status):? 1`}, serverEnds: ending{any: true},
	},
	{
		name: "udaddy-over-mtu", program: udaddy, client: "-S 5000", stop: syscall.SIGKILL,
		clientEnds: ending{says: `(status|error):? -22`}, serverEnds: ending{any: true},
	},
	{
		name: "rping-no-listener", program: rping, server: elsewhere, stop: syscall.SIGINT,
		clientEnds: ending{says: rejected8}, serverEnds: ending{any: true},
	},
	{
		name: "ucmatose-no-listener", program: ucmatose, server: elsewhere, stop: syscall.SIGINT,
		clientEnds: ending{says: `(?s)REJECTED, (error|status):? 8.*return status 8`}, serverEnds: ending{any: true},
	},
	{
		name: "ucmatose-one-of-three", program: ucmatose, server: "-c 1", client: "-c 3",
		serverEnds: ending{says: `return status -12`}, clientEnds: ending{says: `return status (28|-1)`},
	},
	{
		name: "ucmatose-sizes", program: ucmatose, server: "-S 200", client: "-S 100",
		// It does not look at the length of what it got.
		serverEnds: ending{ok: true, says: `return status 0`}, clientEnds: ending{ok: true, says: `return status 0`},
	},
	{
		name: "rping-too-long", program: rping, server: "-S 100", client: "-S 3000 -C 3",
		// The client takes the end of the connection for a good one.
		clientEnds: ending{any: true}, serverEnds: ending{},
	},
}

// refused are the cases that must fail on both sides, with the status that two
// adapters of Linux give each other.
func refused() []suite.Family {
	what := matrix.Dim{Name: "what"}
	for _, r := range refusals {
		what.Values = append(what.Values, r.name)
	}
	return []suite.Family{{
		Name:  "refused",
		About: "nobody listens, more connections than the server takes, messages longer than it takes: both sides end, with the status of Linux",
		Dims:  []matrix.Dim{what, matrix.Direction(), matrix.IP()},
		Short: func(c matrix.Cell) bool { return c.Is("ip", "ipv4") && c.Is("what", "rping-no-listener") },
		Cost:  2 * time.Second,
		Loose: suite.Gone,
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			i := slices.IndexFunc(refusals, func(r refusal) bool { return c.Is("what", r.name) })
			return refusals[i].run(ctx, l, c)
		},
	}}
}

func (r refusal) run(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	p := r.program.pair(l, c, "")
	p.moreOf(c, r.server, r.client)
	p.stopServer = r.stop
	e, err := p.run(ctx, c)
	if err != nil {
		return suite.Failed("%s%s", firstLine(err.Error()), e.tell())
	}
	ourEnd, guestEnd := r.serverEnds, r.clientEnds
	if c.Is("dir", "client") {
		ourEnd, guestEnd = guestEnd, ourEnd
	}
	if text := ourEnd.check("ours", e.ours); text != "" {
		return suite.Failed("%s", text)
	}
	if text := guestEnd.check("the guest's", e.guest); text != "" {
		return suite.Failed("%s", text)
	}
	said := regexp.MustCompile(r.clientEnds.says).FindString(e.client(c).String())
	return suite.Passed("").With("%s", strings.Join(strings.Fields(said), " "))
}
