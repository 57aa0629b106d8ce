package verbstest_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/verbs"
)

// bugCase is a program with a bug, the corrected program, and the findings of the bug.
type bugCase struct {
	finds string // names, separated by spaces and sorted; empty: both programs are right
	run   func(r *rig, bug bool)
}

// runCases runs both programs of each case. The bug gives exactly its findings, which name the marked line, and
// the corrected program gives none. A golden file has the facts of all findings.
func runCases(t *testing.T, all []bugCase, file string, rig func(testing.TB) *rig) {
	lines := sources(t)
	marked := markedLines(lines)
	facts, ran := "", 0
	for _, c := range all {
		function := runtime.FuncForPC(reflect.ValueOf(c.run).Pointer()).Name()
		name := function[strings.LastIndex(function, ".")+1:]
		if strings.HasPrefix(name, "func") { // of a setting
			name = c.finds
		}
		for _, bug := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/bug=%v", name, bug), func(t *testing.T) {
				r := rig(t)
				c.run(r, bug)
				if ran++; bug && c.finds != "" {
					facts += name + "\n" + r.facts(lines)
				}
				for _, f := range r.found {
					checkMark(t, f, marked)
				}
				want := ""
				if bug {
					want = c.finds
				}
				if have := r.findings(); have != want {
					t.Errorf("found %q: want %q", have, want)
					for _, f := range r.found {
						t.Log(f)
					}
				}
			})
		}
	}
	if ran == 2*len(all) { // and not only some, with the flag -run
		golden.Check(t, filepath.Join("testdata", file+".txt"), facts)
	}
}

// findings returns the names of what was found, sorted.
func (r *rig) findings() string {
	var names []string
	for _, f := range r.found {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// checkMark requires that the first call of a finding is the marked line of a case: the innermost frame outside
// of the rig.
func checkMark(t *testing.T, f *verbs.Finding, marked map[string]bool) {
	t.Helper()
	for _, frame := range f.Calls[0].Stack {
		place := fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		switch {
		case strings.Contains(frame.Function, "verbstest_test.(*"):
		case !marked[place]:
			t.Errorf("the call of %s is at %s, which is not marked", f.Name, place)
			return
		default:
			return
		}
	}
	t.Errorf("%s names no call of the program", f.Name)
}

// markedLines returns the places of the marks in the tests of this package.
func markedLines(lines map[string][]string) map[string]bool {
	marked := map[string]bool{}
	for name, of := range lines {
		for i, line := range of {
			if strings.HasSuffix(line, "// BUG") {
				marked[fmt.Sprintf("%s:%d", name, i+1)] = true
			}
		}
	}
	return marked
}
