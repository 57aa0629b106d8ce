//go:build linux && cgo

package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// scenarios are those of program.c: what a program in C relies on, and what it
// may do to the library.
var scenarios = []string{
	"transfer", "refusals", "gone", "handler-before", "handler-after", "signals", "cycles", "many", "threads", "channel",
	"fork-before", "fork-after", "fork-keeps", "exit", "_exit",
}

// TestProgram runs each scenario on the library, as a program of its own.
func TestProgram(t *testing.T) {
	dir, program := build(t)
	for i, name := range scenarios {
		t.Run(name, func(t *testing.T) { scenario(t, dir, program, name, address(i)) })
	}
}

// TestProgramIsRefused shows that a scenario which fails is seen.
func TestProgramIsRefused(t *testing.T) {
	dir, program := build(t)
	if out, err := start(dir, program, "no-such-scenario", address(len(scenarios))); err == nil || strings.HasSuffix(out, "ok\n") {
		t.Errorf("what is no scenario passes: %s", out)
	}
}

// TestSanitized runs scenarios with the library compiled for address and
// undefined behaviour sanitizers.
func TestSanitized(t *testing.T) {
	dir, program := build(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	for i, name := range []string{"transfer", "refusals", "channel", "threads", "many"} {
		t.Run(name, func(t *testing.T) { scenario(t, dir, program, name, address(100+i)) })
	}
}

// address returns an address of the loopback network that no other test has.
func address(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 2+pid>>8&0x7f, pid&0xff, 1+i)
}

func scenario(t *testing.T, dir, program, name, addr string) {
	t.Helper()
	if out, err := start(dir, program, name, addr); err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s on %s: %v\n%s", name, addr, err, out)
	}
}

// start runs a scenario to its end.
func start(dir, program, name, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, name)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "SOFTHCA_ADDR="+addr, "ASAN_OPTIONS=detect_leaks=0:allow_user_segv_handler=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
