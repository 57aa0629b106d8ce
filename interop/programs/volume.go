//go:build linux

package programs

import (
	"context"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// volumes are transfers of many messages. A ping of rping is six: two
// addresses, a READ, a WRITE, and two answers.
var volumes = map[string]func(l *lab.Lab, c matrix.Cell) *pair{
	"pingpong": func(l *lab.Lab, c matrix.Cell) *pair {
		return rcPingpong(l, c, 256, 65000)
	},
	"rping": func(l *lab.Lab, c matrix.Cell) *pair { return rping.pair(l, c, "-C 22000 -S 300") },
}

// volume are the cases of very many messages on a bad network.
func volume() []suite.Family {
	return []suite.Family{{
		Name: "volume",
		About: "130000 messages each, with packets lost, duplicated and reordered at our port: 65000 of ibv_rc_pingpong to and fro, 22000 pings of rping, " +
			"of which each is verified",
		Dims:   []matrix.Dim{{Name: "program", Values: []string{"pingpong", "rping"}}, matrix.Direction()},
		Always: true,
		Cost:   time.Minute,
		Limit:  10 * time.Minute,
		Loose:  suite.Damaging,
		Faulty: true,
		// ibv_rc_pingpong compares one byte of each page.
		Unverified: func(c matrix.Cell) bool { return c.Is("program", "pingpong") },
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			p := volumes[c.Get("program")](l, c)
			// If the last packet of a message is lost, the requester waits for
			// the retry timer, which with rdma_cm is two seconds.
			p.fault("both", "drop p=0.00002", "dup p=0.005", "reorder p=0.0005")
			o := p.bothEnd(ctx, c)
			fs, err := l.Frames(ctx)
			if err != nil {
				return suite.Failed("%v", err)
			}
			if o.Verdict == suite.Pass {
				o = o.With("%.0f s", frames.Span(fs).Seconds())
			}
			return o
		},
	}}
}
