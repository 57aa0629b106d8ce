//go:build linux && cgo

package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildCM builds the scenarios of librdmacm's calls, which are Debian's library's over
// our libibverbs.so.1. It skips the test where they cannot be built.
func (s *stand) buildCM(t *testing.T) (program string) {
	t.Helper()
	if !compiles("#include <rdma/rdma_cma.h>\n", "-E") {
		// They are of programs over librdmacm, which is not ours.
		t.Skip("no headers of librdmacm: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)")
	}
	program = filepath.Join(s.dir, "cm")
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program}, sources(t, "cm")...)
	run(t, "gcc", append(args, "-L"+filepath.Join(s.dir, s.variant.name), "-lrdmacm", "-l:libibverbs.so.1")...)
	return program
}

// TestD2_CMCalls runs scenarios of librdmacm's calls, each as a program of its own.
// Each file of the directory cm has those of one theme.
func TestD2_CMCalls(t *testing.T) {
	s := &stand{builds: newBuilds(t, plain), variant: plain}
	program := s.buildCM(t)
	list := func(t *testing.T, env []string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	names, err := list(t, []string{"LD_LIBRARY_PATH=" + filepath.Join(s.dir, s.variant.name)})
	if err != nil || names == "" {
		t.Fatalf("the program does not name its scenarios: %v\n%s", err, names)
	}
	for name := range strings.Lines(names) {
		name = strings.TrimSpace(name)
		t.Run(name, func(t *testing.T) {
			if out, err := list(t, s.over(t, s.addresses(1)), name); err != nil || !strings.HasSuffix(out, "ok\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
