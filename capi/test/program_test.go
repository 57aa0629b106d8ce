//go:build linux && cgo

package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/libraries"
)

// scenarios are those of program.c: what a program in C relies on, and what it
// may do to the library.
var scenarios = []string{
	"transfer", "datagrams", "refusals", "gone", "guid", "handler-before", "handler-after", "handler-late", "handler-once",
	"signals", "cycles", "many", "threads", "channel", "arm-late", "slices",
	"asleep", "fork-before", "fork-after", "fork-keeps", "exit", "_exit",
}

// sanitized are those that run with the library compiled for the sanitizers of
// addresses and of undefined behaviour. The others handle faults, fork, or end
// in the middle, which the sanitizers do not like.
var sanitized = []string{"transfer", "datagrams", "refusals", "channel", "threads", "many"}

// preloaded are those that go another way with the preload library, as
// `softhca run` has it.
var preloaded = []string{"handler-before", "handler-after", "handler-late", "handler-once", "fork-after", "transfer"}

// TestProgram runs each scenario on the library, as a program of its own.
func TestProgram(t *testing.T) {
	dir := buildEngine(t)
	s := stand{dir: dir, program: build(t, dir)}
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) { s.pass(t, name) })
	}
	if out, err := s.run("no-such-scenario"); err == nil || strings.HasSuffix(out, "ok\n") {
		t.Errorf("what is no scenario passes: %s", out)
	}
	if err := libraries.BuildPreload(t.Context(), "../..", dir); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"LD_PRELOAD=" + filepath.Join(dir, libraries.Preload)}
	for _, name := range preloaded {
		t.Run("preloaded/"+name, func(t *testing.T) { s.pass(t, name) })
	}
	s.env = nil
	s.program = build(t, dir, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	for _, name := range sanitized {
		t.Run("sanitized/"+name, func(t *testing.T) { s.pass(t, name) })
	}
}

// stand is where scenarios run.
type stand struct {
	dir, program string
	env          []string // more of it
	runs         int
}

// address returns an address of the loopback network that no other test has.
func (s *stand) address() string {
	s.runs++
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 2+pid>>8&0x7f, pid&0xff, s.runs)
}

// pass runs a scenario, which is to say that it went well.
func (s *stand) pass(t *testing.T, name string) {
	t.Helper()
	if out, err := s.run(name); err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// run runs a scenario to its end.
func (s *stand) run(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, name)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+s.dir, "SOFTHCA_ADDR="+s.address(), "ASAN_OPTIONS=detect_leaks=0")
	cmd.Env = append(cmd.Env, s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
