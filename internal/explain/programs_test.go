package explain

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// programs has captures of our own programs, of which it is known what went wrong.
const programs = "testdata/programs/"

// programTruths reads what is known of them.
func programTruths(t testing.TB) (all []truth) {
	t.Helper()
	b, err := os.ReadFile("testdata/programs.txt")
	must.Do(t, err)
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), "|"); len(f) == 4 && !strings.HasPrefix(lines.Text(), "#") {
			all = append(all, truth{strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3])})
		}
	}
	return all
}

// TestProgramCaptures explains captures of programs that were killed, had one or two
// faults, or were captured in part: the verdict is what is known from how they were
// made.
func TestProgramCaptures(t *testing.T) {
	known := programTruths(t)
	files, err := filepath.Glob(programs + "*.gz")
	if err != nil || len(files) != len(known) || len(known) < 20 {
		t.Fatalf("%d captures, %d are known; %v", len(files), len(known), err)
	}
	for _, k := range known {
		b, err := os.ReadFile(programs + k.name + ".gz")
		must.Do(t, err)
		z, err := gzip.NewReader(bytes.NewReader(b))
		must.Do(t, err)
		r, err := Read(z, Config{})
		must.Do(t, err)
		if r.Verdict.Outcome != k.outcome || r.Verdict.Cause != k.cause {
			t.Errorf("%s (%s): %s %s, want %s %s; found %s", k.name, k.made, r.Verdict.Outcome, r.Verdict.Cause, k.outcome, k.cause, names(r))
		}
		if oneSided := strings.Contains(k.made, "only"); oneSided && len(r.Verdict.Caveats) == 0 {
			t.Errorf("%s: nothing says that one direction is not there", k.name)
		}
	}
}
