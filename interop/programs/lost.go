//go:build linux

package programs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// loss is what becomes of a program when a message of the connection manager
// is lost.
type loss struct {
	program  *program
	flags    string
	messages []string
}

var losses = []loss{
	{&rping, "-C 3", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{&ucmatose, "", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{&simple, "", []string{"REQ", "REP", "RTU", "DREQ", "DREP"}},
	{&udaddy, "", []string{"SIDR_REQ", "SIDR_REP"}},
}

// lost are the cases in which a message of the connection manager is lost, in
// whichever direction it goes, and both sides must finish all the same.
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

func (lo *loss) run(ctx context.Context, l *lab.Lab, c matrix.Cell, message string) suite.Outcome {
	p := lo.program.pair(l, c, lo.flags)
	p.ours = append(p.ours, "--fault", "drop nth=1 dir=both op="+message)
	start := time.Now()
	o := p.both(ctx, c)
	if o.Verdict == suite.Pass {
		o.Note = fmt.Sprintf("after %.0f s", time.Since(start).Seconds())
	}
	return o
}
