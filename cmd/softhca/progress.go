package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// seldom is the time between two lines of progress if the output is not a terminal.
const seldom = 10 * time.Second

// progress shows the progress of a command: on a terminal in one line that it overwrites,
// elsewhere in a line every few seconds.
type progress struct {
	w       io.Writer
	columns int           // of the terminal; 0 if the output is not one
	last    time.Duration // time of the last line, since the start
	shown   bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if os.Getenv("TERM") != "dumb" {
		p.columns = columns(w)
	}
	return p
}

// Sequences that return to the start of the line, and erase the rest of it.
const (
	overwrite = "\r"
	eraseRest = "\x1b[K"
)

// show shows the state of the command at a time since its start. It ignores errors of the
// output.
func (p *progress) show(elapsed time.Duration, line string) {
	switch {
	case p.columns > 0:
		p.shown = true
		_, _ = fmt.Fprintf(p.w, "%s%.*s%s", overwrite, p.columns-1, line, eraseRest) // cut to one line
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

// left estimates the remaining time from the part done and the elapsed time. It returns 0 if
// nothing is done yet.
func left(elapsed time.Duration, done, all uint64) time.Duration {
	if done == 0 || done >= all {
		return 0
	}
	return time.Duration(float64(elapsed) * float64(all-done) / float64(done))
}

// howFar returns the percentage done and the estimated remaining time, in words.
func howFar(elapsed time.Duration, done, all uint64) string {
	s := fmt.Sprintf("%3d %%, %v", 100*done/max(all, 1), elapsed.Round(time.Second))
	if d := left(elapsed, done, all); d > 0 {
		s += fmt.Sprintf(", about %v left", d.Round(time.Second))
	}
	return s
}
