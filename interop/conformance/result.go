package conformance

import (
	"fmt"
	"strings"
)

// Verdict is the outcome of a case.
type Verdict uint8

// The verdicts.
const (
	Pass     Verdict = iota
	Fail             // one of the two misbehaves
	Expected         // a known difference; the note says whose and why
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	switch v {
	case Pass:
		return "pass"
	case Fail:
		return "FAIL"
	case Expected:
		return "expected"
	default:
		return "unknown verdict"
	}
}

// Result is the outcome of a case.
type Result struct {
	Name     string   `json:"name"`
	Verdict  Verdict  `json:"verdict"`
	Note     string   `json:"note,omitempty"`     // one line for a table, the same in each run
	Measured string   `json:"measured,omitempty"` // figures of this run
	Details  []string `json:"details,omitempty"`  // for a failure: the differences and the last packets
}

// judge collects a case's errors and notes.
type judge struct {
	problems []string
	known    []string // known differences
	notes    []string
	measured []string
}

func (j *judge) wrong(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

func (j *judge) expect(ok bool, format string, args ...any) {
	if !ok {
		j.wrong(format, args...)
	}
}

func (j *judge) isKnown(format string, args ...any) {
	j.known = append(j.known, fmt.Sprintf(format, args...))
}

func (j *judge) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

func (j *judge) measure(format string, args ...any) {
	j.measured = append(j.measured, fmt.Sprintf(format, args...))
}

// result makes the verdict: an error of the tools is a failure like any other.
func (j *judge) result(name string, err error) Result {
	if err != nil {
		j.wrong("%v", err)
	}
	r := Result{Name: name, Measured: strings.Join(j.measured, "; ")}
	switch {
	case len(j.problems) > 0:
		r.Verdict, r.Note, r.Details = Fail, j.problems[0], j.problems
	case len(j.known) > 0:
		r.Verdict, r.Note = Expected, strings.Join(j.known, "; ")
	default:
		r.Note = strings.Join(j.notes, "; ")
	}
	return r
}
