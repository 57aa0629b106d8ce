//go:build linux && cgo

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// checkedProgram is the program with bugs, and checkedSources has its sources. It uses rig.c of the other
// scenarios.
const (
	checkedProgram = "checked"
	checkedSources = "../check/bugs/program"
)

// buildChecked builds the program with bugs, and the library that reports freed memory.
func (b *builds) buildChecked(t *testing.T, v variant) {
	t.Helper()
	if b.built(v.name, checkedProgram) {
		return
	}
	b.compileChecked(t, v, checkedProgram)
	must.Do(t, libraries.BuildOne(t.Context(), "../..", filepath.Join(b.dir, v.name), libraries.Memory))
}

// compileChecked compiles the program with bugs, with more options for the compiler.
func (b *builds) compileChecked(t *testing.T, v variant, as string, flags ...string) {
	t.Helper()
	dir := filepath.Join(b.dir, v.name)
	args := append(append(v.compiler(), flags...), "-o", filepath.Join(dir, as), "program/rig.c")
	run(t, "gcc", append(append(args, sources(t, checkedSources)...), "-L"+dir, "-l:libibverbs.so.1")...)
}

// marked is at the end of the line of the call with which the first stack of a finding begins.
var marked = regexp.MustCompile(`// FOUND$`)

// marks returns the lines of the programs with a mark, as file:line.
func marks(t *testing.T, mark *regexp.Regexp) map[string]bool {
	t.Helper()
	lines := make(map[string]bool)
	for _, s := range sources(t, checkedSources) {
		text, err := os.ReadFile(s)
		must.Do(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if mark.MatchString(line) {
				lines[fmt.Sprintf("%s:%d", filepath.Base(s), i+1)] = true
			}
		}
	}
	return lines
}

// checked runs a case of the program with or without its bug, and returns what the checker found.
func (s *stand) checked(t *testing.T, name, words, how string) *check.Report {
	t.Helper()
	dir := t.TempDir()
	out, err := s.runArgs(t, []string{name, how}, "SOFTHCA_CHECK="+words, "SOFTHCA_CHECK_DIR="+dir,
		"LD_PRELOAD="+filepath.Join(s.dir, s.variant.name, libraries.Memory), "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0")
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, how, err, out)
	}
	r, err := check.Read(dir, check.Options{Advice: words == findings.Advice})
	must.Do(t, err)
	return r
}

// setUp is the advice that the program gets for the set-up of its queue pairs.
var setUp = []string{"path-mtu-below-port", "rnr-retry-forever"}

// other has the findings about the other side of a connection, which is in the same program. The error that a case of
// error-never-polled leaves is that of a refused access.
var other = map[string]string{
	"remote-access-error": "peer-access-refused", "peer-access-refused": "remote-access-error", "error-never-polled": "peer-access-refused",
}

// names returns the names of findings, without those about the set-up unless one is wanted, and without the other
// side's of the wanted one.
func names(r *check.Report, wanted string) (all []string) {
	for _, f := range r.Findings {
		if f.Name == wanted || !slices.Contains(setUp, f.Name) && other[wanted] != f.Name {
			all = append(all, f.Name)
		}
	}
	return slices.Compact(all)
}

// text returns a report as users see it.
func text(t *testing.T, r *check.Report) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, r.Text(&b, false))
	return b.String()
}

// noCase has the findings that no case has, with the reason.
var noCase = map[string]string{
	"cm-events-never-read": "TestK1_UnreadEvents has it: the program does not use librdmacm",
	"poisoned-memory":      "TestK1_AddressSanitizer has it: only a program with AddressSanitizer has such memory",
}

// bug is a case of the program, and what the checker is to find.
type bug struct{ name, finding string }

// bugs returns the cases of the program.
func (s *stand) bugs(t *testing.T) (all []bug) {
	t.Helper()
	list, err := s.runArgs(t, nil)
	must.Do(t, err)
	for line := range strings.Lines(list) {
		name, finding, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, bug{name, finding})
	}
	return all
}

// times has how often a case has its bug, where the test counts that.
var times = map[string]uint64{"each-byte-changed": 173}

// exactly fails unless the checker finds a bug, and nothing else, with a marked line first in its stack, and
// nothing without the bug.
func (s *stand) exactly(t *testing.T, c bug, lines map[string]bool) {
	t.Helper()
	if c.finding == "-" {
		for _, how := range []string{"bug", "right"} {
			if r := s.checked(t, c.name, "error", how); len(r.Findings) > 0 {
				t.Errorf("%s: a right program has findings\n%s", how, text(t, r))
			}
		}
		return
	}
	row, ok := findings.Find(c.finding)
	if !ok {
		t.Fatalf("there is no finding %s", c.finding)
	}
	r := s.checked(t, c.name, row.Level, "bug")
	if got := names(r, c.finding); len(got) != 1 || got[0] != c.finding {
		t.Fatalf("with the bug, the findings are %q, want %s\n%s", got, c.finding, text(t, r))
	}
	if c.finding == "error-never-polled" && !slices.ContainsFunc(r.Findings, func(f *check.Finding) bool { return f.Name == other[c.finding] }) {
		t.Errorf("the refusal at the other side is not reported\n%s", text(t, r))
	}
	isMarked := func(f check.Frame) bool { return lines[fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)] }
	isTold := func(f *check.Finding) bool {
		return f.Name == c.finding && slices.ContainsFunc(f.Stacks[0].Frames, isMarked)
	}
	if !slices.ContainsFunc(r.Findings, isTold) {
		t.Errorf("the first stack has no marked line\n%s", text(t, r))
	}
	if n := times[c.name]; n > 0 && r.Findings[0].Count != n {
		t.Errorf("the bug is found %d times, want %d\n%s", r.Findings[0].Count, n, text(t, r))
	}
	// The set-up may get the advice that a case is about, but the marked line must not.
	if r := s.checked(t, c.name, row.Level, "right"); len(names(r, "")) > 0 || slices.ContainsFunc(r.Findings, isTold) {
		t.Errorf("without the bug, there are findings\n%s", text(t, r))
	}
}

// TestK1_AddressSanitizer runs the cases that AddressSanitizer's shadow memory tells, in a program that is
// compiled with it.
func TestK1_AddressSanitizer(t *testing.T) {
	const flag = "-fsanitize=address"
	if !compiles("int main(void) { return 0; }\n", flag) {
		t.Skip("the C compiler has no AddressSanitizer") // as TestD1_Sanitizers
	}
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain)
	}
	b.compileChecked(t, plain, "checked-asan", flag)
	s, lines, n := &stand{builds: &builds{dir: b.dir, program: "checked-asan"}, variant: plain}, marks(t, marked), 0
	for _, c := range s.bugs(t) {
		if c.finding != "poisoned-memory" {
			continue
		}
		n++
		t.Run(c.name, func(t *testing.T) { s.exactly(t, c, lines) })
	}
	if n == 0 {
		t.Error("no case has poisoned memory")
	}
}

// TestK1_BugsAreFound runs each case of the program with its bug, which the checker names exactly, with the line
// of the call, and without it, when the checker says nothing.
func TestK1_BugsAreFound(t *testing.T) {
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain)
	}
	s, lines, seen := &stand{builds: &builds{dir: b.dir, program: checkedProgram}, variant: plain}, marks(t, marked), make(map[string]bool)
	for _, c := range s.bugs(t) {
		seen[c.finding] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s.exactly(t, c, lines)
		})
	}
	for _, f := range findings.All() {
		if !seen[f.Name] && noCase[f.Name] == "" {
			t.Errorf("no case has the bug %s", f.Name)
		}
	}
}
