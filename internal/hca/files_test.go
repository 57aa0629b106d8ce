package hca_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
)

// stepsEnv tells a copy of this program, built to count coverage, how many steps of a WRITE to take.
const stepsEnv = "SOFTHCA_TEST_STEPS"

// steps are the steps of a WRITE of one packet, and how many files of internal/qp each may execute
// at most: whoever changes a step has to read these.
var steps = []struct {
	name  string
	do    func(f *rig.Flight)
	files int
}{
	{"request", func(f *rig.Flight) { f.Request(1) }, 5},
	{"execution", func(f *rig.Flight) { f.Arrive(0) }, 5},
	{"answer", (*rig.Flight).Respond, 5},
	{"acknowledgement", func(f *rig.Flight) { f.Arrive(1) }, 5},
}

// TestFilesOfOneWrite counts the files of internal/qp that each step executes: those with
// statements that a run of one step more executes more often.
func TestFilesOfOneWrite(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv(stepsEnv)); err == nil {
		f := rig.NewFlight(t, ib.WRRDMAWrite, 64)
		f.Trip() // does what only the first WRITE does
		for _, s := range steps[:n] {
			s.do(f)
		}
		return
	}
	const pkg = "github.com/softhca/softhca/internal/qp"
	dir := t.TempDir()
	program, profile := filepath.Join(dir, "hca.test"), filepath.Join(dir, "profile")
	run(t, nil, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-cover", "-covermode=count", "-coverpkg="+pkg, "-o", program, ".")
	before := map[string]int{}
	for n := 0; n <= len(steps); n++ {
		run(t, []string{stepsEnv + "=" + strconv.Itoa(n)}, program, "-test.run=^TestFilesOfOneWrite$", "-test.coverprofile="+profile)
		after := counts(t, profile)
		if n > 0 {
			s := steps[n-1]
			files := more(before, after)
			t.Logf("%s: %d files: %s", s.name, len(files), strings.Join(files, " "))
			if len(files) == 0 || len(files) > s.files {
				t.Errorf("the %s executes %d files, want at most %d", s.name, len(files), s.files)
			}
		}
		before = after
	}
}

// counts returns how often each block of statements was executed, by its file and place.
func counts(t *testing.T, profile string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] { // the first says the mode
		var block string
		var statements, n int
		if _, err := fmt.Sscan(line, &block, &statements, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		times[block] = n
	}
	return times
}

// more returns the names of the files with blocks that were executed more often.
func more(before, after map[string]int) (files []string) {
	for block, n := range after {
		if n > before[block] {
			name, _, _ := strings.Cut(path.Base(block), ":")
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// run runs a program with more environment.
func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
