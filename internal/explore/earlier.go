package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/fault"
)

// maxReport bounds a report that is read, in bytes.
const maxReport = 1 << 30

// ErrReport is the error of a file that is not a report of this version of explore.
var ErrReport = errors.New("not a report of softhca explore --json")

// ReadReport reads a report that JSON has written.
func ReadReport(r io.Reader) (*Report, error) {
	one := new(Report)
	if err := json.NewDecoder(io.LimitReader(r, maxReport)).Decode(one); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if one.Version != Version {
		return nil, fmt.Errorf("%w of this version: its version is %d, not %d", ErrReport, one.Version, Version)
	}
	for i := range one.Results {
		if v := one.Results[i].Verdict; !slices.Contains(Verdicts(), v) {
			return nil, fmt.Errorf("%w: the verdict %q is unknown", ErrReport, v)
		}
		if rules, err := fault.Parse(one.Results[i].Rule); err != nil || len(rules) != 1 {
			return nil, fmt.Errorf("%w: %.200q is not one rule", ErrReport, one.Results[i].Rule)
		}
	}
	return one, nil
}

// identity tells a fault from others in all explorations of a program.
type identity struct {
	process, kind, what, err, place string
}

// identity returns the identity of the fault. The first, the last and the middle of what happens in a process are the same ones if there is one
// more or less in another run.
func (f *Fault) identity() identity {
	place := strconv.FormatUint(f.Nth, 10)
	switch f.Nth {
	case 1:
		place = "first"
	case f.Of:
		place = "last"
	case middle(f.Of):
		place = "middle"
	}
	return identity{f.Process, f.Kind, f.What, f.Error, place}
}

// ErrOtherProgram is the error of a report that is to be continued with another program.
var ErrOtherProgram = errors.New("the report is of another program")

// take takes the results of an earlier report of the program, and returns the faults that it does not have.
func (r *Report) take(earlier *Report, faults []Fault) ([]Fault, error) {
	if earlier == nil {
		return faults, nil
	}
	if !slices.Equal(earlier.Program, r.Program) {
		return nil, fmt.Errorf("%w: %s", ErrOtherProgram, shellWords(earlier.Program))
	}
	known := map[identity]bool{}
	for i := range earlier.Results {
		one := &earlier.Results[i]
		if id := one.identity(); !known[id] {
			known[id] = true
			r.keep(one)
		}
	}
	left := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return known[f.identity()] })
	r.Planned = r.Tried + len(left)
	r.Millis = earlier.Millis
	return left, nil
}

// Comparison says how the findings of a report differ from those of an earlier one, the baseline.
type Comparison struct {
	Name  string   `json:"name"`  // of the file with the baseline
	New   []Change `json:"new"`   // findings that the baseline does not have
	Worse []Change `json:"worse"` // findings with a graver verdict than in the baseline
	Gone  []Change `json:"gone"`  // faults that are no findings any more
	Same  int      `json:"same"`  // findings that the baseline has, with the same verdict or a graver one
	Left  int      `json:"left"`  // findings of the baseline whose faults were not tried, or did not happen
}

// Change is a fault with another verdict than in the baseline.
type Change struct {
	Rule    string  `json:"rule"`          // of --replay
	Verdict Verdict `json:"verdict"`       // the verdict now
	Was     Verdict `json:"was,omitempty"` // the verdict in the baseline, if it has the fault

	fault string // in words
}

// Compare compares the findings with those of an earlier report, which is in the file name.
func (r *Report) Compare(earlier *Report, name string) {
	c := &Comparison{Name: name, New: []Change{}, Worse: []Change{}, Gone: []Change{}}
	was := map[identity]Verdict{}
	for i := range earlier.Results {
		was[earlier.Results[i].identity()] = earlier.Results[i].Verdict
	}
	for i := range r.Results {
		f := &r.Results[i]
		before, known := was[f.identity()]
		if known && f.Verdict != Unreached {
			delete(was, f.identity())
		}
		change := Change{Rule: f.Rule, Verdict: f.Verdict, Was: before, fault: f.Fault.String()}
		switch {
		case f.Verdict.Finding() && (!known || !before.Finding()):
			c.New = append(c.New, change)
		case f.Verdict.Finding() && f.Verdict.rank() < before.rank():
			c.Worse = append(c.Worse, change)
		case f.Verdict.Finding():
			c.Same++
		case before.Finding() && f.Verdict != Unreached:
			c.Gone = append(c.Gone, change)
		}
	}
	for _, v := range was {
		if v.Finding() {
			c.Left++
		}
	}
	r.Baseline = c
}

// rank returns the place of a verdict among all, the worst first.
func (v Verdict) rank() int { return slices.Index(Verdicts(), v) }

// Bad returns how many findings are new, or worse than in the baseline.
func (c *Comparison) Bad() int { return len(c.New) + len(c.Worse) }

// text writes the comparison.
func (c *Comparison) text(b *strings.Builder) {
	for _, group := range []struct {
		name    string
		changes []Change
	}{{"new", c.New}, {"worse", c.Worse}, {"gone", c.Gone}} {
		for _, ch := range group.changes {
			was := ""
			if ch.Was != "" {
				was = ", was " + string(ch.Was)
			}
			fmt.Fprintf(b, "%s: %s: %s%s\n", group.name, ch.fault, ch.Verdict, was)
		}
	}
	fmt.Fprintf(b, "findings compared with %s: %d new, %d worse, %d the same, %d gone", c.Name, len(c.New), len(c.Worse), c.Same, len(c.Gone))
	if c.Left > 0 {
		fmt.Fprintf(b, ", %d not tried again, or not reached", c.Left)
	}
	b.WriteByte('\n')
}
