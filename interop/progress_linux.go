package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/softhca/softhca/interop/suite"
)

// progress shows the user the progress of the cases, and keeps their results.
// It is safe for concurrent use.
type progress struct {
	w     io.Writer
	cases []suite.Case // in the order of the report
	again string       // flags to repeat a case with

	mu    sync.Mutex // guards the fields below
	done  map[string]suite.Result
	start time.Time
}

func newProgress(w io.Writer, cases []suite.Case) *progress {
	return &progress{w: w, cases: cases, done: map[string]suite.Result{}, start: time.Now()}
}

// usual is the cost of a case whose family gives none.
const usual = 3 * time.Second

func cost(c suite.Case) time.Duration {
	if c.Cost == 0 {
		return usual
	}
	return c.Cost
}

// began records that a case began. The clock starts with the first.
func (p *progress) began(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.done) == 0 {
		p.start = time.Now()
	}
}

// ended records a case's result and prints it.
func (p *progress) ended(r suite.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[r.ID] = r
	fmt.Fprintf(p.w, "[%*d/%d] %-8s %s (%.1f s)%s%s\n", len(fmt.Sprint(len(p.cases))), len(p.done), len(p.cases), r.Verdict, r.ID, r.Seconds, note(r), p.left())
	if r.Verdict == suite.Fail {
		fmt.Fprintf(p.w, "    again:   go run ./interop%s -kernel %s -run '^%s$'\n    capture: %s\n", p.again, r.Values["kernel"], r.ID, r.Dir)
	}
}

func note(r suite.Result) string {
	text := ""
	for _, s := range []string{r.Note, r.Measured} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// left returns how long the rest will take, at the speed so far.
func (p *progress) left() string {
	var spent, rest time.Duration
	for _, c := range p.cases {
		if _, ok := p.done[c.ID()]; ok {
			spent += cost(c)
		} else {
			rest += cost(c)
		}
	}
	if rest == 0 || spent == 0 {
		return ""
	}
	d := time.Duration(float64(time.Since(p.start)) * float64(rest) / float64(spent))
	if d < time.Minute {
		return fmt.Sprintf(" · about %d s left", int(d.Seconds())+1)
	}
	return fmt.Sprintf(" · about %d min left", int(d.Minutes()+0.5))
}

// results returns the cases' results, in the order of the report.
func (p *progress) results() []suite.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rs []suite.Result
	for _, c := range p.cases {
		if r, ok := p.done[c.ID()]; ok {
			rs = append(rs, r)
		}
	}
	return rs
}

// failed returns how many cases failed.
func (p *progress) failed() int {
	return len(slices.DeleteFunc(p.results(), func(r suite.Result) bool { return r.Verdict != suite.Fail }))
}

// summary returns the last line.
func (p *progress) summary(took time.Duration) string {
	n := map[suite.Verdict]int{}
	sent, got := 0, 0
	for _, r := range p.results() {
		n[r.Verdict]++
		sent, got = sent+r.Sent, got+r.Got
	}
	return fmt.Sprintf("%d passed, %d differ as expected, %d failed, of %d; %d packets sent, %d received, each ICRC checked; %v",
		n[suite.Pass], n[suite.Expected], n[suite.Fail], len(p.cases), sent, got, took.Round(time.Second))
}
