//go:build linux && cgo

package test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fabric/sandbox"
)

// cmProgram is the program with the scenarios of librdmacm's calls.
type cmProgram struct {
	*stand
	path string
}

// newCM builds the scenarios of librdmacm's calls, which are Debian's library's over
// our libibverbs.so.1. It skips the test where they cannot be built.
func newCM(t *testing.T) *cmProgram {
	t.Helper()
	b := newBuilds(t, "program", plain)
	p := &cmProgram{stand: &stand{builds: b, variant: plain}, path: filepath.Join(b.dir, "cm")}
	if *buildsDir == "" && !b.built("cm") {
		b.buildCM(t, p.path)
	}
	return p
}

// buildCM builds the program with the scenarios of librdmacm's calls.
func (b *builds) buildCM(t *testing.T, path string) {
	t.Helper()
	if !compiles("#include <rdma/rdma_cma.h>\n", "-E") {
		// They are of programs over librdmacm, which is not ours.
		t.Skip("no headers of librdmacm: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)")
	}
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", path}, sources(t, "cm")...)
	run(t, "gcc", append(args, "-L"+filepath.Join(b.dir, plain.name), "-lrdmacm", "-l:libibverbs.so.1")...)
}

// do runs the program: with the name of a scenario, or with nothing to have it name all.
func (p *cmProgram) do(t *testing.T, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), *patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// bySix begins the names of the scenarios that want addresses of both families.
const bySix = "six-"

// all runs those scenarios that are by IPv6, or those that are not, each as a program of
// its own over an adapter that has the addresses that addr returns.
func (p *cmProgram) all(t *testing.T, six bool, addr func() string) {
	t.Helper()
	names, err := p.do(t, []string{"LD_LIBRARY_PATH=" + filepath.Join(p.dir, p.variant.name)})
	if err != nil || !strings.Contains(names, bySix) {
		t.Fatalf("the program does not name its scenarios: %v\n%s", err, names)
	}
	for name := range strings.Lines(names) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, bySix) != six {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if out, err := p.do(t, p.over(t, addr()), name); err != nil || !strings.HasSuffix(out, "ok\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestD2_CMCalls runs scenarios of librdmacm's calls. Each file of the directory cm has
// those of one theme.
func TestD2_CMCalls(t *testing.T) {
	p := newCM(t)
	p.all(t, false, func() string { return p.addresses(1) })
}

// TestCMStartsQuietly wants librdmacm's question whether there are addresses of AF_IB to
// leave nothing in the log: librdmacm expects the refusal.
func TestCMStartsQuietly(t *testing.T) {
	p := newCM(t)
	out, err := p.do(t, append(p.over(t, p.addresses(1)), "SOFTHCA_LOG_LEVEL=debug"), "private-tcp")
	if err != nil || !strings.Contains(out, "level=DEBUG") {
		t.Fatalf("%v, or no log:\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "AF_IB") || strings.Contains(line, "an address of") {
			t.Errorf("the log says %s", line)
		}
	}
}

// TestD2_CMCallsIPv6 runs those of an adapter with addresses of both families, on an
// interface: Linux sends no multicast of IPv6 by its loopback interface.
func TestD2_CMCallsIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.7.0.1/24"), netip.MustParsePrefix("fd00::1/64"))
	newCM(t).all(t, true, func() string { return "10.7.0.1,fd00::1" })
}
