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
	"github.com/softhca/softhca/internal/restrack/file"
)

// scenarios are those of the directory program: the library's behaviour that programs in C rely
// on, and misuse that it must survive.
var scenarios = []string{
	"transfer", "datagrams", "atomic-write", "flush", "flush-file", "refusals", "gone", "guid", "handler-before", "handler-after", "handler-late", "handler-once", "handler-sent",
	"handler-sent-inside", "signals", "signals-unseen", "signals-sudden", "signals-spared", "cycles", "outlived", "many", "threads", "channel", "arm-late", "slices",
	"asleep", "cancelled", "fork-before", "fork-after", "fork-keeps", "exit", "_exit", "crowd", "domains",
	"generations", "fork-closes", "same-number", "errno-kept", "state-told", "draining-told", "controlled-qkey", "reported-once", "later", "xrc", "xrc-files", "xrc-inode", "xrc-processes", "xrc-full", "xrc-shared", "counts", "sizes", "windows",
	"standard-closed", "none-inherited", "timestamps", "moderated", "srq-resized", "parent-cq", "device-memory", "null-region", "on-demand", "dmabuf", "second-gid", "modes", "modes-shared",
	"sets", "sets-interrupted", "sets-shared", "sets-replaced", "sets-left", "sets-of-child", "sets-cancelled",
}

// checked are the scenarios that also run with the sanitizers of addresses and of undefined
// behaviour. The others handle faults, fork or end abruptly, which the sanitizers do not
// support.
var checked = []string{"transfer", "datagrams", "atomic-write", "flush", "flush-file", "refusals", "channel", "threads", "many", "crowd", "domains", "later", "outlived", "windows", "timestamps", "moderated", "srq-resized", "parent-cq", "device-memory", "null-region", "xrc", "modes"}

// preloaded are the scenarios that also run with the preload library, as softhca run loads it,
// because it changes their course.
var preloaded = []string{"handler-before", "handler-after", "handler-late", "handler-once", "handler-sent",
	"handler-sent-inside", "fork-after", "transfer", "signals", "signals-of-child", "signals-unseen", "signals-sudden", "asleep", "cancelled", "closes",
	"closes-unlisted", "closes-with-few", "limits-kept", "none-inherited", "standard-closed", "daemons", "unseen-children", "counts", "cycles", "modes", "modes-shared",
	"sets", "sets-interrupted", "sets-shared", "sets-replaced", "sets-left", "sets-of-child", "sets-cancelled", "sets-served",
}

// onRecorder are the scenarios over the recorder, an engine in C that records what the library
// passes to it and returns what the scenario asks for. Those of onRecorderPreloaded run with the
// preload library: without it, threads do not sleep in the engine. Those of onRecorderSanitized
// also run with the sanitizers.
var (
	onRecorder = []string{"recorded-config", "recorded-table", "recorded-fields", "recorded-posts", "recorded-watched", "recorded-events",
		"recorded-ends", "recorded-sought", "recorded-rooms", "recorded-xrc"}
	onRecorderPreloaded = []string{"recorded-sleeps", "recorded-descriptors", "recorded-waits", "recorded-told", "recorded-caught", "recorded-sets", "recorded-nasty-numbers"}
	onRecorderSanitized = []string{"recorded-config", "recorded-table", "recorded-fields", "recorded-watched", "recorded-events", "recorded-rooms", "recorded-xrc"}
)

// seeRecorded runs the scenarios over the recorder. It is the only engine that returns any value,
// raises any event and fails at will, and with which a scenario waits for nothing.
func seeRecorded(t *testing.T, b *builds) {
	s := &stand{builds: b, variant: plain, engine: filepath.Join(plain.name, recorderFile)}
	for _, name := range onRecorder {
		t.Run(name, func(t *testing.T) { s.pass(t, name) })
	}
	for _, name := range onRecorderPreloaded {
		t.Run(name, func(t *testing.T) { s.pass(t, name, "LD_PRELOAD="+filepath.Join(b.dir, libraries.Preload)) })
	}
	t.Run("sanitized", func(t *testing.T) {
		s := &stand{builds: b, variant: sanitized, engine: s.engine}
		if why := s.missing(); why != "" {
			t.Skip(why) // a tool for developers is missing
		}
		for _, name := range onRecorderSanitized {
			t.Run(name, func(t *testing.T) { s.pass(t, name) })
		}
	})
}

// asked are the scenarios that need a setting.
var asked = map[string]string{
	"fatal-events": "SOFTHCA_FATAL_EVENTS=1", "watched-receives": "SOFTHCA_FAULTS=fail op=PostRecv errno=ENOMEM nth=2",
}

// seen are scenarios of which a test sees more than that they pass.
var seen = map[string]func(*testing.T, *stand){
	"errors": seeErrors, "names": seeNames, "taken": seeTaken, "other-build": seeOtherBuild, "closes-unkept": seeUnkept, "captured": seeCaptured,
	"fork-polls": seeForkPolls,
}

// seeForkPolls gives the scenario a directory of tables of its own, which it reads.
func seeForkPolls(t *testing.T, s *stand) {
	s.pass(t, "fork-polls", file.DirVariable+"="+t.TempDir())
}

// TestD1_Program runs each scenario as a process of its own.
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
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		seeRecorded(t, b)
	})
	for name, setting := range asked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.pass(t, name, setting)
		})
	}
	for name, see := range seen {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			see(t, s)
		})
	}
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		if out, err := s.run(t, "no-such-scenario"); err == nil || strings.HasSuffix(out, "ok\n") {
			t.Errorf("what is no scenario passes: %s", out)
		}
	})
	t.Run("refused", func(t *testing.T) { seeRefusals(t, s) }) // it sets the environment
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

// look runs scenarios under a tool, which must find the error in the scenario wrong.
func look(t *testing.T, s *stand, names []string, wrong, says string) {
	if why := s.missing(); why != "" {
		t.Skip(why) // a tool for developers is missing
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { s.pass(t, name) })
	}
	if out, err := s.run(t, wrong); err == nil || !strings.Contains(out, says) {
		t.Errorf("the tool does not see what is wrong with %s: %v\n%s", wrong, err, out)
	}
}

// stand is an environment for scenarios: a variant, an engine and a tool.
type stand struct {
	*builds
	variant variant
	engine  string   // its file in the directory of the builds; empty: engineFile
	tool    []string // the command that runs the program
}

// Tools that run programs. The thread sanitizer needs a fixed memory layout.
var (
	unmoved  = []string{"setarch", "-R"}
	valgrind = []string{"valgrind", "-q", "--fair-sched=yes", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"}
)

// missing returns what a variant needs and the machine lacks, "" if nothing is missing.
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

// addresses returns loopback addresses that no other test uses.
func (s *stand) addresses(n int) string {
	pid := os.Getpid()
	var all []string
	for range n {
		run := int(s.runs.Add(1)-1) % 500 // the runs that had these addresses before have ended
		all = append(all, fmt.Sprintf("127.%d.%d.%d", 2+pid>>8&0x7f+126*(run/250), pid&0xff, 1+run%250))
	}
	return strings.Join(all, ",")
}

// pass runs a scenario and fails unless it reports success.
func (s *stand) pass(t *testing.T, name string, env ...string) {
	t.Helper()
	if out, err := s.run(t, name, env...); err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// scenarioTime bounds a scenario.
var scenarioTime = flag.Duration("scenario-time", 3*time.Minute, "time after which a scenario that has not ended fails")

// run runs a scenario to its end.
func (s *stand) run(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	return s.runArgs(t, []string{name}, env...)
}

// runArgs runs the program with arguments.
func (s *stand) runArgs(t *testing.T, args []string, env ...string) (string, error) {
	t.Helper()
	line := slices.Concat(s.tool, []string{filepath.Join(s.dir, s.variant.name, s.program)}, args)
	return s.runLine(t, line, append([]string{"SOFTHCA_ADDR=" + s.addresses(2)}, env...)...)
}

// runLine runs a command with the library.
func (s *stand) runLine(t *testing.T, line []string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *scenarioTime)
	defer cancel()
	dir := filepath.Join(s.dir, s.variant.name)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "SOFTHCA_ENGINE="+filepath.Join(s.dir, cmp.Or(s.engine, engineFile)),
		"ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=halt_on_error=1")
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 10 * time.Second // a child of a program that failed may keep its output open
	out, err := cmd.CombinedOutput()
	return string(out), err
}
