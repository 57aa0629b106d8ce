package explore

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/printable"
)

// Version is the version of the format of a Report in JSON.
const Version = 1

// Report says what became of a program under the faults that can befall it.
type Report struct {
	Version   int             `json:"version"`            // version of this format; it grows when a field changes its meaning or is removed
	Program   []string        `json:"program"`            // the program and its arguments
	Processes []string        `json:"processes"`          // those of the first run that opened an adapter
	Sites     uint64          `json:"sites"`              // calls, requests, packets and so on of the first run at which a planned kind of fault can happen
	Planned   int             `json:"planned"`            // faults that were to be tried
	Cut       uint64          `json:"cut"`                // faults beyond the bound of a plan
	Tried     int             `json:"tried"`              // faults that were tried
	Millis    int64           `json:"milliseconds"`       // how long all runs under faults took
	Rate      int             `json:"runs_per_minute"`    // runs under faults in a minute, without those of the report of --resume
	Counts    map[Verdict]int `json:"verdicts"`           // how many runs ended so
	Results   []Result        `json:"results"`            // in the order of the runs
	Baseline  *Comparison     `json:"baseline,omitempty"` // with --baseline: how the findings differ from it

	limit  time.Duration // of Options
	oracle string        // of Program
}

func newReport(p *Program, first *Run, faults []Fault, cut uint64, o Options) *Report {
	r := &Report{Version: Version, Program: p.Args, Processes: []string{}, Sites: sitesOf(faults), Planned: len(faults), Cut: cut, Counts: map[Verdict]int{}, Results: []Result{}, limit: o.Limit, oracle: p.Oracle}
	for _, q := range first.Processes {
		r.Processes = append(r.Processes, q.Name)
	}
	return r
}

// sitesOf returns how many places in the first run the faults of a plan are chosen from.
func sitesOf(faults []Fault) (n uint64) {
	type group struct{ process, kind, what string }
	most := map[group]uint64{}
	for i := range faults {
		f := &faults[i]
		g := group{f.Process, f.Kind, f.What}
		if before := most[g]; f.Of > before {
			n += f.Of - before
			most[g] = f.Of
		}
	}
	return n
}

// add adds a run.
func (r *Report) add(f *Fault, run, first *Run) {
	r.keep(resultOf(f, run, first))
}

// keep adds a result.
func (r *Report) keep(one *Result) {
	r.Tried++
	r.Counts[one.Verdict]++
	r.Results = append(r.Results, *one)
}

// finish counts the time of a number of runs.
func (r *Report) finish(took time.Duration, runs int) {
	r.Millis += took.Milliseconds()
	if runs > 0 {
		r.Rate = int(math.Round(float64(runs) / took.Minutes()))
	}
}

// resultOf returns what became of a run.
func resultOf(f *Fault, run, first *Run) *Result {
	v, why := judge(f, run, first)
	one := &Result{Fault: *f, Verdict: v, Why: why, Code: run.Code, Millis: run.Duration.Milliseconds()}
	if v.Finding() {
		one.Output = lastLines(run.Output)
	}
	if v == Hung {
		one.Stacks = run.Stacks
	}
	return one
}

// Findings returns how many runs showed a bug of the program.
func (r *Report) Findings() (n int) {
	for v, count := range r.Counts {
		if v.Finding() {
			n += count
		}
	}
	return n
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Text writes the report for people: the findings, the worst first, and then the numbers.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, v := range Verdicts() {
		for i := range r.Results {
			if f := &r.Results[i]; f.Verdict == v && v.Finding() {
				f.text(&b, r)
			}
		}
	}
	fmt.Fprintf(&b, "%d of %d faults tried in %.1f s, in %s\n", r.Tried, r.Planned, float64(r.Millis)/1000, strings.Join(r.Processes, ", "))
	for _, v := range Verdicts() {
		if n := r.Counts[v]; n > 0 {
			fmt.Fprintf(&b, "%6d %-9s  %s\n", n, v, v.Text())
		}
	}
	if r.Cut > 0 {
		fmt.Fprintf(&b, "%d more faults are beyond the bound of a plan: choose some with --only\n", r.Cut)
	}
	if r.Rate > 0 {
		fmt.Fprintf(&b, "%d runs a minute\n", r.Rate)
	}
	if r.Baseline != nil {
		r.Baseline.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text writes a finding.
func (f *Result) text(b *strings.Builder, r *Report) {
	fmt.Fprintf(b, "%s: %s\n", f.Verdict, f.Fault.String())
	if f.Why != "" {
		fmt.Fprintf(b, "  %s\n", printable.Line(f.Why, shownBytes))
	}
	for i := range f.Stacks {
		f.Stacks[i].Text(b, "  ")
	}
	for line := range strings.SplitSeq(f.Output, "\n") {
		if line != "" {
			fmt.Fprintf(b, "  | %s\n", printable.Line(line, shownBytes))
		}
	}
	fmt.Fprintf(b, "  again: %s\n\n", r.Command(f))
}

// Command returns the command that shows what became of a program under a fault again.
func (r *Report) Command(f *Result) string {
	flags := ""
	if r.limit > 0 {
		flags = fmt.Sprintf("--limit %v ", r.limit)
	}
	if r.oracle != "" {
		flags += "--oracle " + shellWords([]string{r.oracle}) + " "
	}
	return fmt.Sprintf("softhca explore %s--replay %s -- %s", flags, shellWords([]string{f.Rule}), shellWords(r.Program))
}

// shellWords returns words as a shell reads them.
func shellWords(words []string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.Trim(w, plain) != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// The output of a run that is shown.
const (
	shownLines = 6
	shownBytes = 1000
)

// lastLines returns the last lines of an output.
func lastLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	s := strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
	return s[max(0, len(s)-shownBytes):]
}
