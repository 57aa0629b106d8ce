package explore

import (
	"context"
	"io"
	"slices"
	"time"
)

// MaxJobs bounds the runs at the same time.
const MaxJobs = 64

// series is the runs of a program under several faults, some of them at the same time.
type series struct {
	p      *Program
	faults []Fault
	limit  func(f *Fault) time.Duration
	more   func(next *Fault) bool // called before each run; reports whether it shall begin
	done   func(f *Fault, r *Run) // called after each run
	ended  chan finished
	free   []int // numbers of jobs, from 1 on
}

// finished is a run that has ended.
type finished struct {
	job, index int
	run        *Run
	err        error
}

// once runs the program once: in this process's network, or in one of its own if there are several runs at the same time, which have
// different numbers (job).
func (p *Program) once(ctx context.Context, job int, f *Fault, limit time.Duration, also io.Writer) (*Run, error) {
	if p.Jobs > 1 && also == nil {
		return p.runApart(ctx, job, f, limit)
	}
	return p.Run(ctx, f, limit, also)
}

// run runs the program once under each fault, until more says no, or the context ends. It returns the first error.
func (s *series) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := min(max(s.p.Jobs, 1), MaxJobs)
	s.ended = make(chan finished, jobs)
	for j := range jobs {
		s.free = append(s.free, jobs-j)
	}
	var failed error
	for next := 0; ; {
		begin := next < len(s.faults) && failed == nil && ctx.Err() == nil
		if begin && len(s.free) > 0 {
			if !s.more(&s.faults[next]) {
				next = len(s.faults)
				continue
			}
			s.start(ctx, next)
			next++
			continue
		}
		if len(s.free) == jobs {
			return failed
		}
		e := <-s.ended
		s.free = append(s.free, e.job)
		switch {
		case ctx.Err() != nil: // this run says nothing
		case e.err != nil:
			failed = e.err
			cancel()
		default:
			s.done(&s.faults[e.index], e.run)
		}
	}
}

// start begins a run.
func (s *series) start(ctx context.Context, index int) {
	last := len(s.free) - 1
	job := s.free[last]
	s.free = slices.Delete(s.free, last, last+1)
	f := &s.faults[index]
	go func() {
		r, err := s.p.once(ctx, job, f, s.limit(f), nil)
		s.ended <- finished{job, index, r, err}
	}()
}
