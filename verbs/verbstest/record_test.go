package verbstest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/must"
)

// TestRunCheck runs a program in Go as "softhca run --check" does, and reads what it has recorded.
func TestRunCheck(t *testing.T) {
	for words, c := range map[string]struct {
		errors, advice, exit int
	}{"error": {1, 0, 0}, "error,advice": {1, 1, 0}, "fatal": {1, 0, 86}} {
		t.Run(words, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=1", "SOFTHCA_CHECK="+words, "SOFTHCA_CHECK_DIR="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != c.exit {
				t.Fatalf("the program ends with %v: want exit code %d\n%s", err, c.exit, out)
			}
			r, err := check.Read(dir, check.Options{Advice: true})
			must.Do(t, err)
			if r.Errors != c.errors || r.Advice != c.advice || len(r.Processes) != 1 || len(r.Problems) != 0 {
				t.Fatalf("%d errors, %d advice, processes %v, problems %q: want %+v", r.Errors, r.Advice, r.Processes, r.Problems, c)
			}
			f := r.Findings[0]
			frame := f.Stacks[0].Frames[0]
			if f.Name != "used-after-destroy" || f.Count != 1 || !strings.HasSuffix(frame.Function, "verbstest_test.useDestroyed") ||
				!strings.HasSuffix(frame.File, "main_test.go") || frame.Line == 0 {
				t.Errorf("found %s, %d times, in %+v: want used-after-destroy, once, in useDestroyed", f.Name, f.Count, frame)
			}
		})
	}
}
