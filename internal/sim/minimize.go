package sim

import (
	"context"
	"maps"
)

// Smallest is the smallest run found that fails like another one.
type Smallest struct {
	Config Config // with Skip
	Result *Result
	Runs   int // runs that the search took
}

// Kept returns the numbers of the actions that Skip leaves.
func (c *Config) Kept() []int {
	var kept []int
	for i := range c.Ops {
		if !c.Skip[i] {
			kept = append(kept, i)
		}
	}
	return kept
}

// minimizeRuns bounds the search.
const minimizeRuns = 4000

// Minimize looks for the smallest run that still fails the same check: first it
// cuts off later actions, then it leaves out actions, many at a time and then
// fewer. It stops early when ctx ends. The run of c must fail.
func Minimize(ctx context.Context, c Config, failed *Result) *Smallest {
	c.Trace = nil
	m := &minimizer{ctx: ctx, run: Run, check: failed.Violation.Check, best: Smallest{Config: c, Result: failed}}
	return m.search()
}

// search performs the search.
func (m *minimizer) search() *Smallest {
	failed := m.best.Result
	if last := failed.Violation.Action + 1; last > 0 && last < failed.Ops {
		short := m.best.Config
		short.Ops = last
		m.try(short)
	}
	ops := m.best.Result.Ops
	for size := max(ops/2, 1); ; size /= 2 {
		for lo := 0; lo < ops && !m.spent(); lo += size {
			m.leaveOut(lo, min(lo+size, ops))
		}
		if size <= 1 || m.spent() {
			break
		}
	}
	return &m.best
}

type minimizer struct {
	ctx   context.Context
	run   func(Config) (*Result, error)
	check string
	best  Smallest
}

// spent reports whether the search has reached its limit.
func (m *minimizer) spent() bool { return m.best.Runs >= minimizeRuns || m.ctx.Err() != nil }

// try tries a run and keeps it if it fails in the same way.
func (m *minimizer) try(c Config) {
	if m.spent() {
		return
	}
	m.best.Runs++
	r, err := m.run(c)
	if err == nil && r.Violation != nil && r.Violation.Check == m.check {
		m.best.Config, m.best.Result = c, r
	}
}

// leaveOut tries a run without actions lo to hi.
func (m *minimizer) leaveOut(lo, hi int) {
	c := m.best.Config
	skip := make(map[int]bool, len(c.Skip)+hi-lo)
	maps.Copy(skip, c.Skip)
	more := false
	for i := lo; i < hi; i++ {
		more = more || !skip[i]
		skip[i] = true
	}
	if !more {
		return
	}
	c.Skip = skip
	m.try(c)
}
