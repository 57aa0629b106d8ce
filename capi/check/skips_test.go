//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// skippedIn returns the unit tests of a suite that skip themselves.
func skippedIn(t *testing.T, suite string) []string {
	t.Helper()
	text, err := skips.ReadFile(skipsFile(suite))
	must.Do(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestEverySkipHasAReason checks that each unit test that skips itself in some suite has exactly one
// reason, that each reason has such a test, and that each reason says what is lacking.
func TestEverySkipHasAReason(t *testing.T) {
	table, err := reasons()
	must.Do(t, err)
	used := make([]bool, len(table))
	for _, suite := range rootSuites {
		for _, s := range skippedIn(t, suite) {
			name, _, _ := strings.Cut(s, "\t")
			found := 0
			for i, r := range table {
				if r.tests.MatchString(name) {
					found++
					used[i] = true
				}
			}
			if found != 1 {
				t.Errorf("%s: %s has %d reasons in capi/check/%s, want 1", suite, name, found, reasonsFile)
			}
		}
	}
	for i, r := range table {
		if !used[i] {
			t.Errorf("no suite skips %s, and it has a reason", r.tests)
		}
		if !slices.Contains(lacking, r.lacks) || r.why == "" {
			t.Errorf("%s: %q lacks something, want one of %q; the reason is %q", r.tests, r.lacks, lacking, r.why)
		}
	}
}

// TestSkipsSection: tests of the same class with the same message and the same reason share a row. A
// test without a reason has a row without a reason.
func TestSkipsSection(t *testing.T) {
	section, err := skipsSection([]string{
		"test_flow.FlowTest.test_a\tno QP", "test_flow.FlowTest.test_b\tno QP", "test_flow.FlowTest.test_c\tno flow", "test_new.Test.test_d\tnothing",
	})
	must.Do(t, err)
	table, err := reasons()
	must.Do(t, err)
	why := table[slices.IndexFunc(table, func(r reason) bool { return r.tests.MatchString("test_flow.FlowTest.test_a") })].why
	want := "| `test_flow.FlowTest`: `test_a`, `test_b` | adapter | " + why + " | no QP |\n" +
		"| `test_flow.FlowTest`: `test_c` | adapter | " + why + " | no flow |\n" +
		"| `test_new.Test`: `test_d` | | | nothing |\n"
	if got := strings.TrimPrefix(section, skipsHead); got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}

// TestChanged: the error of a run names the tests that now skip themselves, or no longer do.
func TestChanged(t *testing.T) {
	got := changed([]string{"a\twhy", "b\twhy", "c\twhy"}, []string{"a\twhy", "c\twhy not", "d\twhy"})
	if want := []string{"- b\twhy", "- c\twhy", "+ c\twhy not", "+ d\twhy"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := changed(got, got); len(got) > 0 {
		t.Errorf("equal lists differ in %q", got)
	}
}

// TestModules: all modules of tests run, compressed or not, except those for the adapters of a vendor.
func TestModules(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"test_srq.py", "test_cq.py.gz", "test_mlx5_cq.py", "test_efadv.py.gz", "test_efa_srd.py", "base.py", "mlx5_base.py", "run_tests.py"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	got, err := modules(dir)
	must.Do(t, err)
	if want := []string{"tests.test_cq", "tests.test_srq"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
