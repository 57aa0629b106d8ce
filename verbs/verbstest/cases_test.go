package verbstest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// bugCase is a program with a bug, the corrected program, and the findings of the bug.
type bugCase struct {
	finds string // names, separated by spaces and sorted; empty: both programs are right
	run   func(r *rig, bug bool)
}

// runCases runs both programs of each case. The bug gives exactly its findings, which name the marked line, and
// the corrected program gives none.
func runCases(t *testing.T, all []bugCase) {
	marked := markedLines(t)
	for _, c := range all {
		function := runtime.FuncForPC(reflect.ValueOf(c.run).Pointer()).Name()
		name := function[strings.LastIndex(function, ".")+1:]
		for _, bug := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/bug=%v", name, bug), func(t *testing.T) {
				r := newRig(t)
				c.run(r, bug)
				var names []string
				for _, f := range r.found {
					names = append(names, f.Name)
					checkMark(t, f, marked)
				}
				slices.Sort(names)
				want := ""
				if bug {
					want = c.finds
				}
				if have := strings.Join(names, " "); have != want {
					t.Errorf("found %q: want %q", have, want)
					for _, f := range r.found {
						t.Log(f)
					}
				}
			})
		}
	}
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
func markedLines(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	must.Do(t, err)
	marked := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.Do(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasSuffix(line, "// BUG") {
				marked[fmt.Sprintf("%s:%d", name, i+1)] = true
			}
		}
	}
	return marked
}
