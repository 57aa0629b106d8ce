package verbstest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/fault/sites"
)

// causesEnv contains the names of the findings that the fault of a subtest causes by itself, which Check does not report.
const causesEnv = "SOFTHCA_EXPLORE_CAUSES"

// Explore runs a test of a program that uses package verbs, rdmacm or stream, again and again: first without a fault, and then
// as a subtest for each thing that can go wrong in it: calls that fail, work requests that complete with an error, lost,
// repeated, late and refused packets and messages of connections, receives that are missing, and asynchronous events. Of
// each kind it tries the first, the last and the middle; with -short only the first. The name of a subtest is the rule of the
// fault, as softhca faults explains it.
//
// An error that a call, a completion or an event reports to the test is not a failure: the test should end then, and close
// what it has opened. It should call t.Error if the program's data is wrong, and use Check, so that leaks and other errors in
// the use of verbs are found. To run one subtest, run the first one, too: -run 'TestX/^(first|wc_LOC_PROT_ERR_nth=1_op=SEND)$'. A subtest whose fault does not happen is skipped. If the test does not end in ten times its time
// without a fault, and at least 5 s (more if its queue pairs wait longer), the process panics, with the stacks of all goroutines.
//
// The adapters must be opened by the test itself, with verbs.Open, rdmacm.Open or package stream: the faults are in the
// environment of the process. So neither t nor its parents may be parallel. Explore needs Linux; elsewhere it skips the test.
func Explore(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("verbstest.Explore needs Linux") // it counts in files that only Linux has
	}
	var first *explore.Run
	if !t.Run("first", func(t *testing.T) { first = observe(t, nil, time.Hour, test) }) {
		return
	}
	if first == nil || len(first.Processes) == 0 {
		t.Fatal("verbstest.Explore: the test has skipped itself or opened no adapter, so nothing can fail; a pattern of -run must match the subtest first, too: -run 'TestX/^(first|wc_.*)$'")
	}
	kinds := slices.DeleteFunc(explore.Kinds(), func(k string) bool { return k == explore.KindProcess })
	faults, cut := explore.Plan(first.Processes, explore.Selection{Kinds: kinds})
	if cut > 0 {
		t.Logf("verbstest.Explore: %d faults are beyond the bound of a plan", cut)
	}
	for i := range faults {
		f := &faults[i]
		if testing.Short() && f.Nth > 1 {
			continue
		}
		rule, _, _ := strings.Cut(f.Rule, " process=")
		t.Run(rule, func(t *testing.T) {
			if r := observe(t, f, first.Limit(f), test); r.Acted == 0 && !t.Failed() {
				t.Skip("the fault did not happen: the test took another way than at first")
			}
		})
	}
}

// observe runs the test once, under a fault or none, and returns what was recorded.
func observe(t *testing.T, f *explore.Fault, limit time.Duration, test func(t *testing.T)) *explore.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sites")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(device.SitesEnv, dir)
	what := "without a fault"
	if f != nil {
		what = f.String()
		for name, value := range f.Environment() {
			t.Setenv(name, value)
		}
		t.Setenv(causesEnv, strings.Join(f.Causes(), ","))
	}
	begin := time.Now()
	watch := time.AfterFunc(limit, func() {
		stacks := make([]byte, maxStacks)
		panic(fmt.Sprintf("verbstest.Explore: the test has not ended after %v: %s\n%s", limit, what, stacks[:runtime.Stack(stacks, true)]))
	})
	defer watch.Stop()
	test(t)
	r := &explore.Run{Duration: time.Since(begin)}
	var err error
	if r.Processes, err = sites.Read(dir); err != nil {
		t.Fatal(err)
	}
	for i := range r.Processes {
		r.Acted += r.Processes[i].Acted
	}
	return r
}

// maxStacks bounds the stacks of a test that does not end, in bytes.
const maxStacks = 1 << 20

// caused reports whether the fault of this subtest causes findings with a name by itself.
func caused(name string) bool {
	return slices.Contains(strings.Split(environ.Getenv(causesEnv), ","), name)
}
