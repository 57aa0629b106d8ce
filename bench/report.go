package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the content of a file of results.
type report struct {
	Date    string    `json:"date"`
	Machine machine   `json:"machine"`
	Command string    `json:"command"`
	Before  string    `json:"before,omitempty"` // commit of the older program
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds"` // length of each measurement
	Results []result  `json:"results"`
	Overall []overall `json:"overall,omitempty"` // of the groups of -tables

	kind string // of the table, in the names of files
}

// result is one line of the table. Ratio is over the rounds, each of which
// measured both sides one after the other.
type result struct {
	Name        string  `json:"name"`
	Unit        string  `json:"unit"`
	Skipped     string  `json:"skipped,omitempty"` // why it was not measured
	Failed      string  `json:"failed,omitempty"`  // the error that prevented the measurement
	Rounds      int     `json:"rounds"`
	Reference   string  `json:"reference"` // name of the reference
	Baseline    spread  `json:"baseline"`
	Softhca     spread  `json:"softhca"`
	Ratio       spread  `json:"ratio"`
	Before      *spread `json:"before,omitempty"` // of the older program
	Change      *spread `json:"change,omitempty"` // ratio of softhca to the older program
	Retransmits uint64  `json:"retransmits"`      // packets, all rounds together
	Timeouts    uint64  `json:"timeouts"`         // of the client's retry timers
	Target      string  `json:"target,omitempty"`
	Met         *bool   `json:"met,omitempty"`
	BaselineRun string  `json:"baseline_command"`
	SofthcaRun  string  `json:"softhca_command"`

	group string // of -tables
}

// judge sets whether the medians meet the target.
func (r *result) judge(t target) {
	if t.met != nil {
		r.Target, r.Met = t.text, new(t.met(r))
	}
}

// verdict says whether the target is met; it is empty without a target.
func (r *result) verdict() string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return "ok"
	default:
		return "MISSED"
	}
}

// change compares the adapter with the older program.
func (r *result) change() string {
	if r.Change == nil {
		return ""
	}
	return fmt.Sprintf(", %s before, change %s", r.Before.in(r.Unit), r.Change.in(""))
}

// String returns the result in a line.
func (r *result) String() string {
	switch {
	case r.Skipped != "":
		return fmt.Sprintf("%s: not measured: it %s", r.Name, r.Skipped)
	case r.Failed != "":
		return fmt.Sprintf("%s: failed: %s", r.Name, r.Failed)
	}
	return fmt.Sprintf("%s: %s, %s %s, ratio %s%s",
		r.Name, r.Softhca.in(r.Unit), r.Reference, r.Baseline.in(r.Unit), r.Ratio.in(""), r.change())
}

// measured reports whether the result has figures.
func (r *result) measured() bool { return r.Skipped == "" && r.Failed == "" }

// names returns the names of the results that are so.
func (r *report) names(so func(*result) bool) (names []string) {
	for i := range r.Results {
		if so(&r.Results[i]) {
			names = append(names, r.Results[i].Name)
		}
	}
	return names
}

// failed returns the names of the results without figures because of an error.
func (r *report) failed() []string { return r.names(func(x *result) bool { return x.Failed != "" }) }

// missed returns the names of the results that miss their targets.
func (r *report) missed() []string {
	names := r.names(func(x *result) bool { return x.Met != nil && !*x.Met })
	for _, o := range r.Overall {
		if !o.Met {
			names = append(names, "all "+o.Group)
		}
	}
	return names
}

// print writes the table.
func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...string) {
		// The writer keeps everything until Flush, which returns the error.
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	line("", "reference", "", "softhca", "ratio", "target", "")
	for i := range r.Results {
		x := &r.Results[i]
		if !x.measured() {
			continue
		}
		line(x.Name, x.Reference, x.Baseline.in(x.Unit), x.Softhca.in(x.Unit), x.Ratio.in(""), x.Target, x.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Results {
		if x := &r.Results[i]; !x.measured() || x.Change != nil {
			if _, err := fmt.Fprintln(w, x); err != nil {
				return err
			}
		}
	}
	for _, o := range r.Overall {
		if _, err := fmt.Fprintf(w, "all %s: ratio %.3f (geometric mean; above 1 is better), target %s\n", o.Group, o.Ratio, o.Target); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "medians of up to %d rounds of %g s (least-greatest); %s, %d cores, %s %s, %s\n",
		r.Rounds, r.Seconds, r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Kernel, r.Machine.Go)
	return err
}

// in returns the spread with its unit.
func (s spread) in(unit string) string {
	text := fmt.Sprintf("%.3g", s.Median)
	if unit != "" {
		text += " " + unit
	}
	return text + fmt.Sprintf(" (%.3g-%.3g)", s.Min, s.Max)
}

// write stores the report in dir, and its figure if there is one, and returns
// the files' names. It replaces files of the same day and machine.
func (r *report) write(dir string, now time.Time) (names []string, err error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	base := filepath.Join(dir, now.Format(time.DateOnly)+"-"+r.Machine.kind())
	if r.kind != "" {
		base += "-" + r.kind
	}
	names = append(names, base+".json")
	if err := os.WriteFile(names[0], append(b, '\n'), 0o644); err != nil {
		return nil, err
	}
	p, ok := r.lossPlot(measurements())
	if !ok {
		return names, nil
	}
	var svg bytes.Buffer
	if err := p.write(&svg); err != nil {
		return nil, err
	}
	names = append(names, base+"-loss.svg")
	return names, os.WriteFile(names[1], svg.Bytes(), 0o644)
}
