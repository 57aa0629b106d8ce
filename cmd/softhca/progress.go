package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// seldom is how often progress is written to what is no terminal, such as a log.
const seldom = 10 * time.Second

// progress shows how far a command is: in one line of a terminal that changes, or else in a
// line now and then.
type progress struct {
	w       io.Writer
	columns int           // of the terminal; 0 if it is none
	last    time.Duration // since the beginning
	shown   bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if os.Getenv("TERM") != "dumb" {
		p.columns = columns(w)
	}
	return p
}

// The line is written over the one before, and what is left of that is erased.
const (
	overwrite = "\r"
	eraseRest = "\x1b[K"
)

// show shows how far the command is after a time. Progress that cannot be shown is no reason
// to stop.
func (p *progress) show(elapsed time.Duration, line string) {
	switch {
	case p.columns > 0:
		p.shown = true
		_, _ = fmt.Fprintf(p.w, "%s%.*s%s", overwrite, p.columns-1, line, eraseRest) // in one line
	case elapsed-p.last >= seldom:
		p.last = elapsed
		_, _ = fmt.Fprintln(p.w, line)
	}
}

// end removes the line from a terminal.
func (p *progress) end() {
	if p.shown {
		p.shown = false
		_, _ = fmt.Fprint(p.w, overwrite, eraseRest)
	}
}

// left estimates how long the rest takes if a part is done after a time; 0 if there is
// nothing to go by.
func left(elapsed time.Duration, done, all uint64) time.Duration {
	if done == 0 || done >= all {
		return 0
	}
	return time.Duration(float64(elapsed) * float64(all-done) / float64(done))
}

// howFar says how much of a whole is done after a time, and how long the rest takes.
func howFar(elapsed time.Duration, done, all uint64) string {
	s := fmt.Sprintf("%3d %%, %v", 100*done/max(all, 1), elapsed.Round(time.Second))
	if d := left(elapsed, done, all); d > 0 {
		s += fmt.Sprintf(", about %v left", d.Round(time.Second))
	}
	return s
}
