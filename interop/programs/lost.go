//go:build linux

package programs

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
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
		Dims:  []matrix.Dim{what, matrix.Direction(), matrix.IP()},
		Short: func(c matrix.Cell) bool { return c.Is("lost", "rping-REP") && c.Is("ip", "ipv4") },
		Cost:  8 * time.Second,
		Loose: suite.Gone,
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			name, message, _ := strings.Cut(c.Get("lost"), "-")
			for i := range losses {
				if losses[i].program.name == name {
					return losses[i].run(ctx, l, c, message)
				}
			}
			return suite.Failed("no program %s", name)
		},
	}}
}

func (lo loss) run(ctx context.Context, l *lab.Lab, c matrix.Cell, message string) suite.Outcome {
	p := lo.program.pair(l, c, lo.flags)
	p.ours = append(p.ours, "--fault", "drop nth=1 dir=both op="+message)
	defect := defects[fmt.Sprintf("%s-%s/%s", lo.program.name, message, c.Get("dir"))]
	p.ours = append(p.ours, strings.Fields(defect.ours)...)
	p.stopServer = defect.stop
	start := time.Now()
	e, err := p.run(ctx, c)
	switch {
	case err != nil:
		return suite.Failed("%s%s", firstLine(err.Error()), e.tell())
	case !strings.Contains(e.ours.Stderr, "acted 1 time\n"):
		return suite.Failed("nothing was lost: %s", lastLine(e.ours))
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

// defect is a way in which Linux's side does not recover, and how our side must
// end then.
type defect struct {
	ours  string         // more flags for our side, so that it does not wait for long
	stop  syscall.Signal // for the server, which waits for ever
	note  string
	check func(e *ends, fs []frames.Frame) string // returns an error text, "" if the case goes as in the note
}

// defects are the known defects, by message, program and our role.
var defects = map[string]defect{
	"rping-DREQ/server": {
		ours: "--idle 8s",
		note: "Linux sends a DREQ once only if its program ends meanwhile: one DREQ in 8 s on the wire; ours gives up by --idle",
		check: func(e *ends, fs []frames.Frame) string {
			if n := frames.CMCount(fs, frames.DREQ, false); n != 1 {
				return fmt.Sprintf("%d DREQs of the guest came, not 1", n)
			}
			if !e.guest.OK() || e.ours.OK() || !strings.Contains(e.ours.Stderr, "nothing happened for too long") {
				return "the sides end otherwise"
			}
			return ""
		},
	},
	"udaddy-SIDR_REP/client": {
		ours: "--cm-timeout 500ms --cm-retries 3", stop: syscall.SIGKILL,
		note: "Linux's udaddy takes as many requests as it has connections, and no repeated one: ours ends with status -110, as Linux's client does",
		check: func(e *ends, _ []frames.Frame) string {
			if e.ours.OK() || !strings.Contains(e.ours.Stderr, "UNREACHABLE, error -110") {
				return "ours ends otherwise"
			}
			return ""
		},
	},
}
