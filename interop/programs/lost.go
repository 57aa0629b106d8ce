//go:build linux

package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

// loss is a case in which a program loses a connection manager message.
type loss struct {
	program  program
	flags    string
	messages []string
}

var losses = []loss{
	{rping, "-C 3", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{ucmatose, "", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{simple, "", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{udaddy, "", []string{"SIDR_REQ", "SIDR_REP"}},
}

// lost are the cases in which a message of the connection manager is lost, in
// either direction, and both sides must finish nevertheless.
func lost() []suite.Family {
	what := matrix.Dim{Name: "lost"}
	for _, l := range losses {
		for _, m := range l.messages {
			what.Values = append(what.Values, l.program.name+"-"+m)
		}
	}
	return []suite.Family{{
		Name: "lost", About: "the first REQ, REP, RTU, DREQ, DREP, SIDR_REQ or SIDR_REP is lost",
		Dims: []matrix.Dim{what, matrix.Direction(), matrix.IP()},
		// rping -c ends at once: no DREP can reach it.
		Skip:  func(c matrix.Cell) bool { return c.Is("lost", "rping-DREP") && c.Is("dir", "client") },
		Short: func(c matrix.Cell) bool { return c.Is("lost", "rping-REP") && c.Is("ip", "ipv4") },
		Cost:  8 * time.Second,
		Loose: suite.Gone,
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			name, message, _ := strings.Cut(c.Get("lost"), "-")
			i := slices.IndexFunc(losses, func(lo loss) bool { return lo.program.name == name })
			return losses[i].run(ctx, l, c, message)
		},
	}}
}

func (lo loss) run(ctx context.Context, l *lab.Lab, c matrix.Cell, message string) suite.Outcome {
	p := lo.program.pair(l, c, lo.flags)
	p.options = append(p.options, "--fault", "drop nth=1 dir=both op="+message)
	defect := defects[fmt.Sprintf("%s-%s/%s", lo.program.name, message, c.Get("dir"))]
	p.ours = append(strings.Fields(defect.under), p.ours...)
	p.stopServer = defect.stop
	start := time.Now()
	e, err := p.run(ctx, c)
	dropped, _ := lab.Acted(e.ours.Stderr)
	switch {
	case err != nil:
		return suite.Failed("%s%s", firstLine(err.Error()), e.tell())
	case dropped != 1 && !defect.silent:
		return suite.Failed("%d messages were lost: %s", dropped, lastLine(e.ours))
	case defect.note != "":
		fs, err := l.Frames(ctx)
		if err != nil {
			return suite.Failed("%v", err)
		}
		if text := defect.check(&e, fs); text != "" {
			return suite.Failed("%s%s", text, e.tell())
		}
		return suite.Differs("%s", defect.note)
	case !e.ours.OK() || !e.guest.OK():
		return suite.Failed("%s", strings.TrimPrefix(e.tell(), "; "))
	}
	return suite.Passed("").With("%.0f s", time.Since(start).Seconds())
}

// defect is a way in which a program, on Linux or on our library, does not recover, and
// how the sides end then.
type defect struct {
	under  string         // what ends ours, which would wait for ever
	silent bool           // a signal ends ours, which then does not tell what was lost
	stop   syscall.Signal // for the server, which waits for ever
	note   string
	check  func(e *ends, fs []frames.Frame) string // what is wrong, "" if it is as the note says
}

// timedOut is the exit code of timeout when it ended the program.
const timedOut = 124

// defects are those that are known, by message, program and our role.
var defects = map[string]defect{
	"rping-DREQ/server": {
		under: "timeout 8", silent: true,
		note: "rping -c ends at once, and its DREQ is not repeated: one DREQ in 8 s on the wire; rping -s waits for ever",
		check: func(e *ends, fs []frames.Frame) string {
			if n, m := frames.CMCount(fs, frames.DREQ, false), frames.CMCount(fs, frames.DREP, true); n != 1 || m != 0 {
				return fmt.Sprintf("%d DREQs of the guest came, not 1, and %d were answered, not 0", n, m)
			}
			if !e.guest.OK() || e.ours.Exit != timedOut {
				return "the sides end otherwise"
			}
			return ""
		},
	},
	"rping-DREQ/client": {
		stop: syscall.SIGKILL,
		note: "rping -c ends at once, and its DREQ is not repeated, as on Linux; rping -s waits for ever",
		check: func(e *ends, fs []frames.Frame) string {
			if n := frames.CMCount(fs, frames.DREQ, true); n != 0 {
				return fmt.Sprintf("%d DREQs of ours were on the wire, not 0", n)
			}
			if e.guest.OK() || !e.ours.OK() {
				return "the sides end otherwise"
			}
			return ""
		},
	},
	"udaddy-SIDR_REP/server": {
		silent: true, stop: syscall.SIGKILL, note: onceAnswered,
		check: func(e *ends, fs []frames.Frame) string {
			if n := frames.CMCount(fs, frames.SIDRREQ, false); n < 2 {
				return fmt.Sprintf("%d requests of the guest came, not several", n)
			}
			return unreachable(e.guest)
		},
	},
	"udaddy-SIDR_REP/client": {
		stop: syscall.SIGKILL, note: onceAnswered,
		check: func(e *ends, _ []frames.Frame) string { return unreachable(e.ours) },
	},
}

// onceAnswered is what becomes of a lost SIDR_REP.
const onceAnswered = "udaddy -b takes as many requests as it has connections, and no repeated one, on either side: the client ends with status -110"

// unreachable returns what is wrong with the end of a udaddy whose request is not answered.
func unreachable(client remote.Result) string {
	if client.OK() || !strings.Contains(client.Stdout, "UNREACHABLE, error: -110") {
		return "the client ends otherwise"
	}
	return ""
}
