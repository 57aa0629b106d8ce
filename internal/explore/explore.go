package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/explore/stacks"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
)

// Result is what became of a program under a fault.
type Result struct {
	Fault
	Verdict Verdict          `json:"verdict"`          // crashed, hung, lost, broke, reported, absorbed or unreached
	Why     string           `json:"why,omitempty"`    // more about the verdict
	Code    int              `json:"exit_code"`        // of the program; 128 plus the number of a signal
	Millis  int64            `json:"milliseconds"`     // how long the run took
	Output  string           `json:"output,omitempty"` // of a run with a finding: the last lines
	Stacks  []stacks.Process `json:"stacks,omitempty"` // of a run that hung: where the threads of its processes were
}

// Options say how to explore.
type Options struct {
	Selection
	Budget time.Duration // for all runs under faults; 0: no limit
	// FailFast begins no run after the first finding.
	FailFast bool
	// Earlier is a report of the same program that was not finished: its results are taken, and its faults are not tried again.
	Earlier *Report
	Limit   time.Duration // for a run; 0: ten times the first run, and at least 5 s
	// Progress is called before each run under a fault, with what was found so far; nil: no progress is reported.
	Progress func(r *Report, next *Fault)
}

const (
	firstLimit = 10 * time.Minute // for the first run
	// mostTimers bounds the time of timers: a queue pair may be told to wait for hours.
	mostTimers = 2 * time.Minute
	leastLimit = 5 * time.Second // for a run under a fault, unless Options has one
	times      = 10              // as long as the first run
	speedup    = 50              // how many times shorter the timers are after the first has expired
	// cmTime is how long a request for a connection of librdmacm takes to fail with these timers: 4.3 s, and 15 repetitions.
	cmTime = 6 * time.Second
)

// ErrFirst is the error of a program that does not end well without a fault.
var ErrFirst = errors.New("the program must end well without a fault")

// Record runs the program without a fault.
func (p *Program) Record(ctx context.Context) (*Run, error) {
	first, err := p.once(ctx, 1, nil, firstLimit, nil)
	switch {
	case err != nil:
		return nil, err
	case first.TimedOut:
		return nil, fmt.Errorf("%w; it has not ended after %v%s", ErrFirst, firstLimit, quoted(first.Output))
	case first.Code != 0:
		return nil, fmt.Errorf("%w; it ended with exit code %d%s", ErrFirst, first.Code, quoted(first.Output))
	case len(first.Processes) == 0:
		return nil, fmt.Errorf("%w; it did, but no process opened an adapter, so nothing can fail", ErrFirst)
	case first.Denied != "":
		return nil, fmt.Errorf("%w, and so must the oracle say; it said no: %s", ErrFirst, first.Denied)
	}
	return first, nil
}

// quoted returns the last lines of an output behind a colon.
func quoted(output string) string {
	if output == "" {
		return ""
	}
	return ":\n" + lastLines(output)
}

// Explore runs the program once for each fault. first is the run without faults. If the context or the time ends, the report has the runs
// until then.
func (p *Program) Explore(ctx context.Context, first *Run, o Options) (*Report, error) {
	faults, cut := Plan(first.Processes, o.Selection)
	report := newReport(p, first, faults, cut, o)
	faults, err := report.take(o.Earlier, faults)
	if err != nil {
		return nil, err
	}
	begin, earlier := time.Now(), report.Tried
	defer func() { report.finish(time.Since(begin), report.Tried-earlier) }()
	s := series{p: p, faults: faults, limit: func(f *Fault) time.Duration { return o.limit(f, first) }}
	s.more = func(next *Fault) bool {
		if o.Budget > 0 && time.Since(begin) >= o.Budget || o.FailFast && report.Findings() > 0 {
			return false
		}
		if o.Progress != nil {
			o.Progress(report, next)
		}
		return true
	}
	s.done = func(f *Fault, r *Run) { report.add(f, r, first) }
	return report, s.run(ctx)
}

// Again runs the program under a rule, and returns what became of it. output gets what the program writes. first is the run without faults.
func (p *Program) Again(ctx context.Context, first *Run, f Fault, o Options, output io.Writer) (*Result, error) {
	r, err := p.Run(ctx, &f, o.limit(&f, first), output)
	if err != nil {
		return nil, err
	}
	return resultOf(&f, r, first), nil
}

// Limit returns how long a run under a fault may take; r is the run without faults.
func (r *Run) Limit(f *Fault) time.Duration { return (&Options{}).limit(f, r) }

// limit returns the limit of a run under a fault.
func (o *Options) limit(f *Fault, first *Run) time.Duration {
	if o.Limit > 0 {
		return o.Limit
	}
	return max(leastLimit, times*first.Duration, first.timers(f)*3/2) + f.longer
}

// timers returns how long the timers of queue pairs and connections take to fail under a fault if a peer does not answer.
func (r *Run) timers(f *Fault) time.Duration {
	faster := speedup
	if f.steady {
		faster = 1
	}
	var queuePairs, messages time.Duration
	for i := range r.Processes {
		p := &r.Processes[i]
		queuePairs = max(queuePairs, p.Timeout+time.Duration(p.Retries)*clock.SpeedUp(p.Timeout, faster))
		for _, c := range p.Packets[sites.Sent] {
			if fault.IsMessage(c.What) {
				messages = cmTime
			}
		}
	}
	return min(queuePairs+messages, mostTimers)
}
