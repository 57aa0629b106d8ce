package main

import (
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
	Date    string   `json:"date"`
	Machine machine  `json:"machine"`
	Command string   `json:"command"`
	Before  string   `json:"before,omitempty"` // commit of the older program
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds"` // of each measurement
	Results []result `json:"results"`
}

// result is one line of the table. Ratio is of the rounds, each of which
// measured both sides one after the other.
type result struct {
	Name        string  `json:"name"`
	Unit        string  `json:"unit"`
	Baseline    spread  `json:"baseline"`
	Softhca     spread  `json:"softhca"`
	Ratio       spread  `json:"ratio"`
	Before      *spread `json:"before,omitempty"` // of the older program
	Change      *spread `json:"change,omitempty"` // ratio of softhca to that
	Retransmits uint64  `json:"retransmits"`      // packets, all rounds together
	Target      string  `json:"target,omitempty"`
	Met         *bool   `json:"met,omitempty"`
	BaselineRun string  `json:"baseline_command"`
	SofthcaRun  string  `json:"softhca_command"`
}

// judge sets whether the medians meet the target.
func (r *result) judge(t target) {
	if t.met != nil {
		met := t.met(r.Softhca.Median, r.Ratio.Median)
		r.Target, r.Met = t.text, &met
	}
}

// change says how the adapter compares with the older program.
func (r *result) change() string {
	if r.Change == nil {
		return ""
	}
	return fmt.Sprintf(", %s before, change %s", r.Before.in(r.Unit), r.Change.in(""))
}

// missed returns the names of the results that miss their targets.
func (r *report) missed() []string {
	var names []string
	for i := range r.Results {
		if met := r.Results[i].Met; met != nil && !*met {
			names = append(names, r.Results[i].Name)
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
	line("", "baseline", "softhca", "ratio", "target", "")
	for i := range r.Results {
		x := &r.Results[i]
		verdict := ""
		if x.Met != nil {
			verdict = "MISSED"
			if *x.Met {
				verdict = "ok"
			}
		}
		line(x.Name, x.Baseline.in(x.Unit), x.Softhca.in(x.Unit), x.Ratio.in(""), x.Target, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Results {
		if x := &r.Results[i]; x.Change != nil {
			if _, err := fmt.Fprintf(w, "%s: %s%s\n", x.Name, x.Softhca.in(x.Unit), x.change()); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "medians of %d rounds of %g s (least-greatest); %s, %d cores, %s %s, %s\n",
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

// write stores the report in dir and returns the file's name. A report of the
// same day and machine is replaced.
func (r *report) write(dir string, now time.Time) (string, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(dir, now.Format(time.DateOnly)+"-"+r.Machine.kind()+".json")
	return name, os.WriteFile(name, append(b, '\n'), 0o644)
}
