//go:build linux

package programs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// The rules of faults at our port, without their direction. Damage flips one
// bit: an unprivileged IPv4 port, which does not see the IPv4 ID, would accept
// one in 65536 randomly damaged packets.
var faultRules = map[string][]string{
	"none":         nil,
	"drop":         {"drop p=0.01"},
	"dup":          {"dup p=0.01"},
	"reorder":      {"reorder p=0.01"},
	"damage":       {"corrupt bit=100 p=0.01"},
	"dup-reorder":  {"dup p=0.01", "reorder p=0.01"},
	"drop-reorder": {"drop p=0.01", "reorder p=0.01"},
	"all":          {"drop p=0.01", "dup p=0.01", "reorder p=0.01", "corrupt bit=100 p=0.01"},
}

// rcOpcodes is the prefix of all RC opcodes' names.
const rcOpcodes = "RC"

// faultSeed makes a failed cell reproducible.
const faultSeed = "1"

// exchange is a program that moves data, how much, and both sides' arguments.
type exchange struct {
	name  string
	bytes int64 // total in each direction
	pair  func(l *lab.Lab, c matrix.Cell) *pair
}

var exchanges = []exchange{
	{"pingpong", 10 << 20, func(l *lab.Lab, c matrix.Cell) *pair { return rcPingpong(l, c, 1<<20, 10) }},
	{"pingpong-64k", 300 << 16, func(l *lab.Lab, c matrix.Cell) *pair { return rcPingpong(l, c, 64<<10, 300) }},
	{"rping", 30 * 65000, func(l *lab.Lab, c matrix.Cell) *pair { return rping.pair(l, c, "-C 30 -S 65000") }},
}

// faults are the cases in which data moves while our port loses, repeats,
// reorders or damages packets.
func faults() []suite.Family {
	return []suite.Family{{
		Name: "faults",
		About: "1 % of packets lost, duplicated, reordered or damaged at our port, on their way out or in: ibv_rc_pingpong with 1 MiB and 64 KiB, rping with 65000 bytes; " +
			"measured is the throughput as a share of the undisturbed run just before",
		Dims: []matrix.Dim{
			{Name: "program", Values: []string{"pingpong", "pingpong-64k", "rping"}}, matrix.Direction(),
			{Name: "fault", Values: []string{"drop", "dup", "reorder", "damage", "dup-reorder", "all", "drop-reorder"}},
			{Name: "way", Values: []string{"out", "in", "both"}},
		},
		Skip: func(c matrix.Cell) bool {
			both := c.Is("way", "both")
			return both != c.Is("fault", "drop-reorder") || c.Is("program", "pingpong-64k") && !both
		},
		Short: func(c matrix.Cell) bool {
			return c.Is("program", "pingpong") && c.Is("fault", "dup") && c.Is("way", "out")
		},
		Always: true,
		Cost:   10 * time.Second,
		Limit:  3 * time.Minute,
		Loose:  suite.Damaging | suite.Gone,
		Faulty: true,
		// ibv_rc_pingpong compares one byte of each page.
		Unverified: func(c matrix.Cell) bool { return !c.Is("program", "rping") },
		Run:        runFaults,
	}}
}

func runFaults(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	x := exchanges[slices.IndexFunc(exchanges, func(x exchange) bool { return c.Is("program", x.name) })]
	undisturbed, o := x.run(ctx, l, c, "none")
	if o.Verdict != suite.Pass {
		o.Note = "undisturbed: " + o.Note
		return o
	}
	rate, o := x.run(ctx, l, c, c.Get("fault"))
	if o.Verdict == suite.Pass && o.Measured == "" {
		o = o.With("%.0f %%", 100*rate/undisturbed)
	}
	return o
}

// run moves the data with a fault and returns the bytes per second, both ways
// together, from the first packet to the last.
func (x exchange) run(ctx context.Context, l *lab.Lab, c matrix.Cell, fault string) (float64, suite.Outcome) {
	before, err := l.Frames(ctx)
	if err != nil {
		return 0, suite.Failed("%v", err)
	}
	p := x.pair(l, c)
	p.fault(c.Get("way"), faultRules[fault]...)
	o := p.bothEnd(ctx, c)
	all, err := l.Frames(ctx)
	if err != nil {
		return 0, suite.Failed("%v", err)
	}
	return float64(2*x.bytes) / frames.Span(all[len(before):]).Seconds(), o
}

// rcPingpong returns the sides of ibv_rc_pingpong. They sleep: a polling program would
// take CPU time from the emulated guest, and the case would measure the scheduler.
func rcPingpong(l *lab.Lab, c matrix.Cell, size, iters int) *pair {
	return pingpongs(l, c, fmt.Sprintf("ibv_rc_pingpong -s %d -n %d -m 1024 -e -c", size, iters), "-g")
}
