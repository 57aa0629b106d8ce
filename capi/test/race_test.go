//go:build linux && cgo

package test

import (
	"errors"
	"flag"
	"os/exec"
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

// raceRuns is how often the programs without a race run, with each compiler.
var raceRuns = flag.Int("race-runs", 3, "number of runs of each program in which ThreadSanitizer must find no race")

// noRace is the second word of cases that are always right.
const noRace = "none"

// racesOf begins the names of the programs with bugs that a compiler has compiled for ThreadSanitizer.
const racesOf = "checked-tsan-"

// roomy runs a program with a fixed memory layout, and without the soft limit of address space that internal/mutation
// sets, because the thread sanitizer reserves terabytes.
var roomy = append(slices.Clone(unmoved), "sh", "-c", `ulimit -S -v unlimited 2>/dev/null; exec "$@"`, "sh")

// raceExit is ThreadSanitizer's exit code.
const raceExit = 66

// raced is at the end of the line of the program's access in a race.
var raced = regexp.MustCompile(`// RACES$`)

// frame is a source line in a report of ThreadSanitizer.
var frame = regexp.MustCompile(`[\w-]+\.c:\d+`)

// accesses returns the stacks of the two accesses in the first report of a race: that of the adapter and that of the
// program.
func accesses(t *testing.T, report string) (adapter, program string) {
	t.Helper()
	_, first, ok := strings.Cut(report, "WARNING: ThreadSanitizer: data race")
	parts := strings.SplitN(first, "\n\n", 3)
	if !ok || len(parts) < 3 {
		t.Fatalf("there is no report of a race\n%s", report)
	}
	if strings.Contains(parts[0], "#0 adapter_") {
		return parts[0], parts[1]
	}
	return parts[1], parts[0]
}

// atMark reports whether a stack has a marked line.
func atMark(stack string, lines map[string]bool) bool {
	return slices.ContainsFunc(frame.FindAllString(stack, -1), func(l string) bool { return lines[l] })
}

// race runs a case with or without its bug on some addresses, as `softhca run --check` does.
func (s *stand) race(t *testing.T, on, name, how string) (out string, code int, r *check.Report) {
	t.Helper()
	dir := t.TempDir()
	line := append(slices.Clone(s.tool), filepath.Join(s.dir, s.variant.name, s.program), name, how)
	out, err := s.runLine(t, line, "SOFTHCA_ADDR="+on, "SOFTHCA_CHECK="+findings.Error, "SOFTHCA_CHECK_DIR="+dir, "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0",
		"LD_PRELOAD="+filepath.Join(s.dir, s.variant.name, libraries.Memory)+":"+filepath.Join(s.dir, libraries.Preload))
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		must.Do(t, err)
	}
	r, err = check.Read(dir, check.Options{})
	must.Do(t, err)
	return out, code, r
}

// legal are the findings in programs without a race: one protects memory.
var legal = []string{"local-operation-error"}

// ordered fails if ThreadSanitizer or the checker finds anything in a case without its bug.
func (s *stand) ordered(t *testing.T, name string) {
	t.Helper()
	on := s.addresses(2)
	for range *raceRuns {
		out, code, r := s.race(t, on, name, "right")
		if code != 0 || out != "" || slices.ContainsFunc(r.Findings, func(f *check.Finding) bool { return !slices.Contains(legal, f.Name) }) {
			t.Fatalf("without a race the exit code is %d\n%s%s", code, out, text(t, r))
		}
	}
}

// TestK1_ThreadSanitizer runs programs that access memory while the adapter does. ThreadSanitizer must report
// both accesses, at the lines of the post and of the program's access, and nothing in the same programs without
// the bug, nor in those that are always right.
func TestK1_ThreadSanitizer(t *testing.T) {
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain)
	}
	posts, races := marks(t, marked), marks(t, raced)
	for _, compiler := range []string{"gcc", "clang"} {
		t.Run(compiler, func(t *testing.T) {
			s := &stand{builds: &builds{dir: b.dir, program: racesOf + compiler}, variant: plain, tool: roomy}
			b.compileRaces(t, compiler)
			if why := s.missing(); why != "" {
				t.Skip(why) // a tool for developers is missing
			}
			n := 0
			for _, c := range s.bugs(t) {
				isBug := strings.HasPrefix(c.finding, "adapter_")
				if !isBug && c.finding != noRace {
					continue
				}
				n++
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if isBug {
						s.races(t, c, posts, races)
					}
					s.ordered(t, c.name)
				})
			}
			if n == 0 {
				t.Error("the program has no races")
			}
		})
	}
}

// races fails unless ThreadSanitizer reports the race of a case, with a marked line in each of the two stacks.
func (s *stand) races(t *testing.T, c bug, posts, races map[string]bool) {
	t.Helper()
	out, code, _ := s.race(t, s.addresses(2), c.name, "bug")
	adapter, program := accesses(t, out)
	if code != raceExit || !strings.Contains(adapter, "#0 "+c.finding+" ") || !atMark(adapter, posts) || !atMark(program, races) {
		t.Errorf("the exit code is %d, want %d, with a race of %s\n%s", code, raceExit, c.finding, out)
	}
}

// compileRaces compiles the program with bugs for ThreadSanitizer. It skips the test if the compiler cannot.
func (b *builds) compileRaces(t *testing.T, compiler string) {
	t.Helper()
	const flag = "-fsanitize=thread"
	try := exec.Command(compiler, flag, "-x", "c", "-o", filepath.Join(t.TempDir(), "try"), "-")
	try.Stdin = strings.NewReader("int main(void) { return 0; }\n")
	if err := try.Run(); err != nil {
		t.Skipf("no %s with ThreadSanitizer: %v", compiler, err) // as TestD1_Sanitizers
	}
	if _, err := exec.LookPath("llvm-symbolizer"); err != nil && compiler == "clang" {
		t.Skip("no llvm-symbolizer: install llvm") // the reports have no source lines
	}
	if *buildsDir != "" && exists(b.dir, plain.name, racesOf+compiler) {
		return
	}
	dir := filepath.Join(b.dir, plain.name)
	args := append(plain.compiler(), flag, "-Wno-unknown-warning-option", "-o", filepath.Join(dir, racesOf+compiler), "program/rig.c")
	run(t, compiler, append(append(args, sources(t, checkedSources)...), "-L"+dir, "-l:libibverbs.so.1")...)
}
