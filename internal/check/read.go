package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/check/symbols"
	"github.com/softhca/softhca/internal/printable"
)

// Bounds of a report.
const (
	maxProcesses = 1024 // files of records that are read
	maxFindings  = 2048 // different findings
	maxProblems  = 64
	maxText      = 2000 // characters of the text of a finding
	maxWord      = 400  // characters of any other text
	maxName      = 100  // characters of the name of a finding
)

// Suffix is the suffix of the names of the files of records.
const Suffix = ".jsonl"

// Options says what a report leaves out, and where symbols are.
type Options struct {
	Advice   bool          // also advice
	Suppress []Suppression // findings to hide
	DebugDir string        // of separate debug files; empty: symbols.DebugDir
}

// Read reads the files of records in a directory. What cannot be read is in Problems of the report;
// only if the directory itself cannot be read, Read fails.
func Read(dir string, o Options) (*Report, error) {
	names, err := listed(dir)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	m := &merger{
		report:  &Report{Version: Version, Findings: []*Finding{}, Processes: []Process{}, Problems: []string{}},
		options: o, symbols: symbols.New(cmp.Or(o.DebugDir, symbols.DebugDir), symbols.MaxDebug), known: map[string]*Finding{},
	}
	for i, name := range names {
		if i >= maxProcesses {
			m.problem("only the first %d of %d processes are in this report", maxProcesses, len(names))
			break
		}
		f, err := readFile(filepath.Join(dir, name))
		if f == nil {
			m.problem("a file of records cannot be read: %v", err)
			continue
		}
		m.add(f, name, err)
	}
	return m.finish(), nil
}

// listed returns the names of the files of records, in their order.
func listed(dir string) (names []string, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if strings.HasSuffix(e.Name(), Suffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// merger merges the findings of processes.
type merger struct {
	report  *Report
	options Options
	symbols *symbols.Table
	known   map[string]*Finding // by name and stacks
	dropped int                 // findings beyond maxFindings
}

// problem adds a problem to the report.
func (m *merger) problem(format string, args ...any) {
	text := printable.Line(fmt.Sprintf(format, args...), maxWord)
	if p := &m.report.Problems; len(*p) < maxProblems && !slices.Contains(*p, text) {
		*p = append(*p, text)
	}
}

// add adds the findings of a process. failed is the error that ended reading its file.
func (m *merger) add(f *recordFile, name string, failed error) {
	who := fmt.Sprintf("process %d", f.process.PID)
	if f.process.PID == 0 {
		who = name
	}
	if failed != nil {
		m.problem("%s: its records could be read only in part: %v", who, failed)
	}
	if f.wrong > 0 {
		m.problem("%s: lines that are no records: %d (the process may have been killed while it wrote)", who, f.wrong)
	}
	if f.more {
		m.problem("%s: it has more records than a report holds", who)
	}
	m.report.Processes = append(m.report.Processes, Process{PID: f.process.PID, Program: printable.Line(f.process.Program, maxPath)})
	for _, r := range f.findings {
		m.merge(m.finding(r, f.process.PID))
	}
}

// merge adds a finding, or its count to that of an equal one.
func (m *merger) merge(f *Finding) {
	if f.Level == findings.Advice && !m.options.Advice {
		return
	}
	f.setKey()
	same := m.known[f.key]
	switch {
	case same == nil && len(m.known) >= maxFindings:
		m.dropped++
		return
	case same == nil:
		m.known[f.key] = f
		return
	case f.FirstTime.Before(same.FirstTime):
		f, same = same, f
		m.known[same.key] = same
	}
	if same.Count += f.Count; same.Count < f.Count {
		same.Count = math.MaxUint64
	}
	for _, pid := range f.PIDs {
		if !slices.Contains(same.PIDs, pid) {
			same.PIDs = append(same.PIDs, pid)
		}
	}
}

// finish returns the report.
func (m *merger) finish() *Report {
	r := m.report
	all := slices.Collect(maps.Values(m.known))
	slices.SortFunc(all, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), a.FirstTime.Compare(b.FirstTime), strings.Compare(a.key, b.key))
	})
	for _, f := range all {
		slices.Sort(f.PIDs)
		switch {
		case slices.ContainsFunc(m.options.Suppress, func(s Suppression) bool { return s.hides(f) }):
			r.Suppressed++
			continue
		case f.Level == findings.Advice:
			r.Advice++
		default:
			r.Errors++
		}
		r.Findings = append(r.Findings, f)
	}
	if m.dropped > 0 {
		m.problem("findings beyond the first %d, which this report does not hold: %d", maxFindings, m.dropped)
	}
	return r
}

// setKey sets the key of a finding.
func (f *Finding) setKey() {
	var b strings.Builder
	b.WriteString(f.Name)
	for i := range f.Stacks {
		fmt.Fprintf(&b, "\n\n%s", f.Stacks[i].Title)
		for _, frame := range f.Stacks[i].Frames {
			if frame.File == "" {
				fmt.Fprintf(&b, "\n%s+%s", frame.Library, frame.Address)
			} else {
				fmt.Fprintf(&b, "\n%s %s:%d", frame.Function, frame.File, frame.Line)
			}
		}
	}
	f.key = b.String()
}

// finding returns the finding of a record.
func (m *merger) finding(r *findingRecord, pid int) *Finding {
	known, ok := findings.Find(r.Finding)
	name := known.Name
	if !ok {
		name = printable.Line(r.Finding, maxName)
		m.problem("the finding %s is not one that this version of softhca knows; it is reported as an error", name)
		known.Level, known.Title = findings.Error, "This version of softhca does not know the finding."
	}
	if r.Advice {
		known.Level = findings.Advice
	}
	f := &Finding{
		Name: name, Level: known.Level, Title: known.Title, Text: printable.Line(r.Text, maxText),
		Rule: known.Rule, Source: known.Source, Fix: known.Fix, Page: page(name, ok),
		Count: r.Count, PIDs: []int{pid}, Thread: r.TID, FirstTime: time.Unix(0, r.Time).UTC(), Stacks: make([]Stack, len(r.Stacks)),
	}
	for i, s := range r.Stacks {
		f.Stacks[i] = Stack{Title: printable.Line(s.Title, maxWord), Frames: []Frame{}}
		for j := range s.Frames {
			if len(f.Stacks[i].Frames) < maxFrames {
				f.Stacks[i].Frames = append(f.Stacks[i].Frames, m.frames(&s.Frames[j])...)
			}
		}
	}
	return f
}

// page returns where the documentation describes a finding.
func page(name string, known bool) string {
	if !known {
		return "docs/checks.md"
	}
	return "docs/checks.md#" + name
}

// frames returns the function of a frame, after those that are inlined there.
func (m *merger) frames(r *frameRecord) []Frame {
	if r.Function != "" {
		return []Frame{{Function: printable.Line(r.Function, maxWord), File: printable.Line(r.File, maxPath), Line: r.Line}}
	}
	base := Frame{Address: fmt.Sprintf("0x%x", r.Offset)}
	if len(r.File) > maxPath {
		return []Frame{base}
	}
	base.Library = printable.Line(r.File, maxPath)
	found := m.symbols.Lookup(r.File, r.Offset)
	if len(found) == 0 {
		base.Function = printable.Line(symbols.Demangle(r.Symbol), maxWord)
		return []Frame{base}
	}
	all := make([]Frame, len(found))
	for i, s := range found {
		all[i] = base
		all[i].Function, all[i].File, all[i].Line = printable.Line(s.Function, maxWord), printable.Line(s.File, maxPath), s.Line
		all[i].Inlined = i < len(found)-1
	}
	return all
}
