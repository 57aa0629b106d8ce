//go:build linux && cgo

package test

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// limitsProgram is the program whose findings and notes meet an end or a bound of the checker.
const limitsProgram = "limits"

// limited is a run of it.
type limited struct {
	out    string
	code   int // exit code, or 128 plus the number of the signal that ended it
	took   time.Duration
	report *check.Report
}

// counts returns how often each finding was found.
func (l *limited) counts() map[string]uint64 {
	all := make(map[string]uint64)
	for _, f := range l.report.Findings {
		all[f.Name] += f.Count
	}
	return all
}

// newLimits builds the program.
func newLimits(t *testing.T) *stand {
	t.Helper()
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain) // and the library that reports freed memory
		b.buildLimits(t, plain)
	}
	return &stand{builds: &builds{dir: b.dir, program: limitsProgram}, variant: plain}
}

// buildLimits builds the program.
func (b *builds) buildLimits(t *testing.T, v variant) {
	t.Helper()
	if b.built(v.name, limitsProgram) {
		return
	}
	dir := filepath.Join(b.dir, v.name)
	args := append(v.compiler(), "-o", filepath.Join(dir, limitsProgram), "program/rig.c")
	run(t, "gcc", append(append(args, sources(t, limitsProgram)...), "-L"+dir, "-l:libibverbs.so.1")...)
}

// limit runs a scenario of the program.
func (s *stand) limit(t *testing.T, name, words string) *limited {
	t.Helper()
	dir, l, begun := t.TempDir(), new(limited), time.Now()
	out, err := s.runArgs(t, []string{name}, "SOFTHCA_CHECK="+words, "SOFTHCA_CHECK_DIR="+dir,
		"LD_PRELOAD="+filepath.Join(s.dir, s.variant.name, libraries.Memory)+":"+filepath.Join(s.dir, libraries.Preload))
	l.out, l.took = out, time.Since(begun)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		l.code = ended.ExitCode()
		if w, ok := ended.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			l.code = 128 + int(w.Signal())
		}
	} else {
		must.Do(t, err)
	}
	l.report, err = check.Read(dir, check.Options{})
	must.Do(t, err)
	return l
}

// fails fails the test with all that a run has said.
func (l *limited) fails(t *testing.T, why string) {
	t.Helper()
	t.Errorf("%s: exit code %d after %v, findings %v\n%s%s", why, l.code, l.took, l.counts(), l.out, text(t, l.report))
}

// endsSoon is shorter than the time for which a process that ends waits for its checker, if that is blocked.
const endsSoon = 3 * time.Second

// soon runs a scenario up to three times, on a machine that may be busy, until it ends soon.
func (s *stand) soon(t *testing.T, name, words string) *limited {
	t.Helper()
	l := s.limit(t, name, words)
	for i := 0; l.took >= endsSoon && i < 2; i++ {
		l = s.limit(t, name, words)
	}
	if l.took >= endsSoon {
		l.fails(t, "the end takes long")
	}
	return l
}

// TestK1_Crashes ends checked processes by signals. The report has what was found before; if the library sees the signal,
// also the notes that wait, and the counts.
func TestK1_Crashes(t *testing.T) {
	s := newLimits(t)
	all := map[string]uint64{"call-refused": 3, "peer-access-refused": 1}
	written := map[string]uint64{"call-refused": 1}
	for name, c := range map[string]struct {
		signal syscall.Signal
		want   map[string]uint64
	}{
		"crash": {syscall.SIGSEGV, all}, "crash-in-thread": {syscall.SIGSEGV, all}, "abort": {syscall.SIGABRT, written}, "kill": {syscall.SIGKILL, written},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if l := s.soon(t, name, findings.Error); l.code != 128+int(c.signal) || !maps.Equal(l.counts(), c.want) || len(l.report.Problems) > 0 {
				l.fails(t, fmt.Sprintf("want the signal %v and the findings %v", c.signal, c.want))
			}
		})
	}
}

// TestK1_Forks forks while a note waits. The parent reports it, once, and the child what the child finds.
func TestK1_Forks(t *testing.T) {
	s := newLimits(t)
	names := []string{"call-refused", "peer-access-refused", "remote-access-error"}
	for name, checked := range map[string]int{"fork-_exit": 1, "fork-exit": 1, "fork-exec": 2, "fork-verbs": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var parent, child int
			l := s.limit(t, name, findings.Error)
			if _, err := fmt.Sscan(l.out, &parent, &child); err != nil || l.code != 0 || len(l.report.Processes) != checked {
				l.fails(t, fmt.Sprintf("%v, want %d checked processes", err, checked))
			}
			found := make(map[int][]string) // by process
			for _, f := range l.report.Findings {
				for _, pid := range f.PIDs {
					found[pid] = append(found[pid], f.Name)
				}
				if f.Count != 1 {
					l.fails(t, f.Name+" is not found once")
				}
			}
			want := map[int][]string{parent: names}
			if name == "fork-verbs" {
				want[child] = names
			}
			for _, all := range found {
				slices.Sort(all)
			}
			if !maps.EqualFunc(found, want, slices.Equal) {
				l.fails(t, fmt.Sprintf("found by process %v, want %v", found, want))
			}
		})
	}
}

// fatalExit is the exit code of a process that ends at its first finding.
const fatalExit = 86

// TestK1_Fatal runs processes that end at their first finding, wherever it is made.
func TestK1_Fatal(t *testing.T) {
	s := newLimits(t)
	for name, want := range map[string]string{
		"fatal": "call-refused", "fatal-thread": "call-refused", "fatal-handler": "call-refused", "fatal-atexit": "call-refused", "fatal-end": "error-never-polled",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := s.soon(t, name, findings.Error+",fatal")
			if l.code != fatalExit || l.out != "before\n" || !maps.Equal(l.counts(), map[string]uint64{want: 1}) {
				l.fails(t, fmt.Sprintf("want exit code %d, %s, and that the program does not go on", fatalExit, want))
			}
		})
	}
}

// TestK1_FullTables runs programs with more than the checker keeps. It counts or drops what is too much, and makes no false
// finding of it.
func TestK1_FullTables(t *testing.T) {
	s := newLimits(t)
	for name, want := range map[string]map[string]uint64{
		"many-refusals":  {"peer-access-refused": 32},
		"many-findings":  {"call-refused": 512},
		"many-stacks":    {"call-refused": 2},
		"deep-stack":     {"call-refused": 1},
		"many-destroyed": {"destroyed-twice": 1},
		"many-left":      {"objects-left-at-close": 64},
		"many-regions":   {"key-deregistered": 1, "key-unknown": 1},
		"many-receives":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := s.limit(t, name, findings.Error)
			if l.code != 0 || !maps.Equal(l.counts(), want) {
				l.fails(t, fmt.Sprintf("want the findings %v", want))
			}
			if lost := strings.Count(l.out, "are lost: there are too many\n"); (lost == 1) != (name == "many-findings") || lost > 1 {
				l.fails(t, "the program must say once that findings are lost")
			}
			for _, f := range l.report.Findings {
				calls := 0
				for _, frame := range f.Stacks[0].Frames {
					if !frame.Inlined {
						calls++
					}
				}
				if name == "deep-stack" && calls != 24 || name == "many-stacks" && calls != 0 {
					l.fails(t, "the stack has another size")
				}
				if f.Name == "key-unknown" && !strings.Contains(f.Text, "the checker has forgotten") {
					l.fails(t, "the text claims that no region had the key")
				}
			}
		})
	}
	// On a busy machine the adapter may send requests only after they have changed.
	t.Run("many-changes", func(t *testing.T) {
		const notes = 64
		var l *limited
		for range 10 {
			l = s.limit(t, "many-changes", findings.Error)
			if n := l.counts()["send-buffer-changed"]; l.code != 0 || n > notes || len(l.report.Findings) != 1 {
				l.fails(t, fmt.Sprintf("want at most %d changes", notes))
				return
			} else if n == notes {
				return
			}
		}
		l.fails(t, fmt.Sprintf("the table of %d changes is never full", notes))
	})
}
