//go:build linux && cgo

package test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/libraries"
)

// scenarios are those of program.c: what a program in C relies on, and what it
// may do to the library.
var scenarios = []string{
	"transfer", "datagrams", "refusals", "gone", "guid", "handler-before", "handler-after", "handler-late", "handler-once", "handler-sent",
	"handler-sent-inside", "signals", "signals-unseen", "signals-sudden", "signals-spared", "cycles", "outlived", "many", "threads", "channel", "arm-late", "slices",
	"asleep", "cancelled", "fork-before", "fork-after", "fork-keeps", "exit", "_exit", "crowd", "domains",
	"generations", "fork-closes", "same-number", "errno-kept", "state-told", "controlled-qkey", "reported-once", "later", "counts", "sizes",
	"standard-closed", "none-inherited",
}

// checked are those that run with the library compiled for the sanitizers of
// addresses and of undefined behaviour. The others handle faults, fork, or end
// in the middle, which the sanitizers do not like.
var checked = []string{"transfer", "datagrams", "refusals", "channel", "threads", "many", "crowd", "domains", "later", "outlived"}

// preloaded are those that go another way with the preload library, as
// `softhca run` has it.
var preloaded = []string{"handler-before", "handler-after", "handler-late", "handler-once", "handler-sent",
	"handler-sent-inside", "fork-after", "transfer", "signals", "signals-of-child", "signals-unseen", "signals-sudden", "asleep", "cancelled", "closes",
	"closes-unlisted", "limits-kept", "none-inherited", "standard-closed", "daemons", "unseen-children", "counts", "cycles",
}

// TestD1_Program runs each scenario on the library, as a program of its own.
func TestD1_Program(t *testing.T) {
	b := newBuilds(t, "program", plain, sanitized, threads)
	s := &stand{builds: b, variant: plain}
	t.Run("library", func(t *testing.T) { wantSymbols(t, b) })
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.pass(t, name)
		})
	}
	for _, name := range preloaded {
		t.Run("preloaded/"+name, func(t *testing.T) {
			t.Parallel()
			s.pass(t, name, "LD_PRELOAD="+filepath.Join(b.dir, libraries.Preload))
		})
	}
	t.Run("fatal-events", func(t *testing.T) {
		t.Parallel()
		s.pass(t, "fatal-events", "SOFTHCA_FATAL_EVENTS=1")
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		if out, err := s.run(t, "no-such-scenario"); err == nil || strings.HasSuffix(out, "ok\n") {
			t.Errorf("what is no scenario passes: %s", out)
		}
	})
	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		seeErrors(t, s)
	})
	t.Run("refused", func(t *testing.T) { seeRefusals(t, s) }) // it sets the environment
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		seeNames(t, s)
	})
	t.Run("taken", func(t *testing.T) {
		t.Parallel()
		seeTaken(t, s)
	})
	t.Run("other-build", func(t *testing.T) {
		t.Parallel()
		seeOtherBuild(t, s)
	})
	t.Run("closes-unkept", func(t *testing.T) {
		t.Parallel()
		seeUnkept(t, s)
	})
	t.Run("captured", func(t *testing.T) {
		t.Parallel()
		seeCaptured(t, s)
	})
	t.Run("sanitized", func(t *testing.T) {
		t.Parallel()
		look(t, &stand{builds: b, variant: sanitized}, checked, "stray", "heap-use-after-free")
	})
	t.Run("threads-sanitized", func(t *testing.T) {
		t.Parallel()
		look(t, &stand{builds: b, variant: threads, engine: filepath.Join(threads.name, standinFile), tool: unmoved}, []string{"crowd"}, "race", "data race")
	})
	t.Run("valgrind", func(t *testing.T) {
		t.Parallel()
		look(t, &stand{builds: b, variant: plain, engine: filepath.Join(plain.name, standinFile), tool: valgrind}, []string{"crowd"}, "stray", "Invalid read")
	})
}

// look runs scenarios under the eyes of a tool, which must see what is wrong with
// one more.
func look(t *testing.T, s *stand, names []string, wrong, says string) {
	if why := s.missing(); why != "" {
		t.Skip(why) // it is a tool for developers
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { s.pass(t, name) })
	}
	if out, err := s.run(t, wrong); err == nil || !strings.Contains(out, says) {
		t.Errorf("the tool does not see what is wrong with %s: %v\n%s", wrong, err, out)
	}
}

// stand is where scenarios run: on a variant.
type stand struct {
	*builds
	variant variant
	engine  string   // its file, below the directory of the builds; the adapter if empty
	tool    []string // that runs the program
}

// Tools that run programs. The sanitizer of threads wants to have memory where it
// expects it.
var (
	unmoved  = []string{"setarch", "-R"}
	valgrind = []string{"valgrind", "-q", "--fair-sched=yes", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"}
)

// missing says what a variant cannot run without, if it is not there.
func (s *stand) missing() string {
	if !s.has(s.variant) {
		return "the C compiler has no such sanitizer"
	}
	for _, t := range s.tool[:min(1, len(s.tool))] {
		if _, err := exec.LookPath(t); err != nil {
			return fmt.Sprintf("no %s: install it", t)
		}
	}
	return ""
}

// addresses returns addresses of the loopback network that no other test has.
func (s *stand) addresses(n int) string {
	pid := os.Getpid()
	var all []string
	for range n {
		all = append(all, fmt.Sprintf("127.%d.%d.%d", 2+pid>>8&0x7f, pid&0xff, s.runs.Add(1)))
	}
	return strings.Join(all, ",")
}

// pass runs a scenario, which is to say that it went well.
func (s *stand) pass(t *testing.T, name string, env ...string) {
	t.Helper()
	if out, err := s.run(t, name, env...); err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// patience bounds a scenario.
var patience = flag.Duration("patience", 3*time.Minute, "time after which a scenario that has not ended fails")

// run runs a scenario to its end.
func (s *stand) run(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	return s.runArgs(t, []string{name}, env...)
}

// runArgs runs the program with arguments.
func (s *stand) runArgs(t *testing.T, args []string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *patience)
	defer cancel()
	dir := filepath.Join(s.dir, s.variant.name)
	line := append(append(slices.Clone(s.tool), filepath.Join(dir, s.program)), args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "SOFTHCA_ENGINE="+filepath.Join(s.dir, cmp.Or(s.engine, engineFile)), "SOFTHCA_ADDR="+s.addresses(2),
		"ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=halt_on_error=1")
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 10 * time.Second // a child of one that failed may live on, and have its output
	out, err := cmd.CombinedOutput()
	return string(out), err
}
