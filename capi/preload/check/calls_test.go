//go:build linux

package check

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// seed returns one that calls prints.
func seed() string { return strconv.FormatUint(uint64(rand.Uint32()), 10) }

// TestCalls makes every call that the library takes the place of.
func TestCalls(t *testing.T) {
	b := newBench(t)
	if got := b.output(t, compile(t, "calls"), b.guid, seed()); !strings.HasSuffix(got, "\n0 failures\n") {
		t.Error(got)
	}
}

// TestStorm looks from threads, children and signal handlers at once.
func TestStorm(t *testing.T) {
	b := newBench(t)
	got := b.output(t, compile(t, "storm"), "100")
	if !strings.HasPrefix(got, "100 forks, ") || !strings.HasSuffix(got, " 0 wrong\n") {
		t.Error(got)
	}
}

// TestBeforeConstructors looks when the library has not begun.
func TestBeforeConstructors(t *testing.T) {
	b := newBench(t)
	early := compile(t, "early", "-shared", "-fPIC")
	cmd := b.command(t, "", "true")
	cmd.Env = append(cmd.Env, "LD_PRELOAD="+b.lib+" "+early) // the last one is the first to begin
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "early: all is there\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSanitized makes the calls and the storm with the library compiled to notice
// wrong accesses to memory and undefined behaviour.
func TestSanitized(t *testing.T) {
	runtime := sanitizer(t)
	flags := []string{"-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"}
	b := newBench(t, flags...)
	for name, args := range map[string][]string{"calls": {b.guid, seed()}, "storm": {"10"}} {
		cmd := b.command(t, runtime+" ", append([]string{compile(t, name)}, args...)...)
		cmd.Env = append(cmd.Env, "ASAN_OPTIONS=detect_leaks=0")
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("ERROR")) || bytes.Contains(out, []byte("runtime error")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// A board that is too short is noticed by the library itself.
	board := filepath.Join(b.root, "board")
	must.Do(t, os.Truncate(board, 64))
	cmd := b.command(t, runtime+" ", "cat", counts+"sent_pkts")
	cmd.Env = append(cmd.Env, "ASAN_OPTIONS=detect_leaks=0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Input/output error") {
		t.Errorf("a board that is too short: %v, %s", err, out)
	}
}

// sanitizer returns the library that has to be loaded before all others.
func sanitizer(t *testing.T) string {
	t.Helper()
	cc, err := libraries.Compiler()
	if err != nil {
		// See newBench.
		t.Skip(err)
	}
	out, err := exec.Command(cc, "-print-file-name=libasan.so").Output()
	name := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(name) {
		// clang has it elsewhere, and small compilers have none.
		t.Skip("the C compiler has no address sanitizer")
	}
	name, err = filepath.EvalSymlinks(name)
	must.Do(t, err)
	return name
}
