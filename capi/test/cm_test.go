//go:build linux && cgo

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// cmProgram is the program with the scenarios of librdmacm.
type cmProgram struct {
	*stand
	path string
}

// newCM builds the scenarios of librdmacm. They run Debian's librdmacm over our
// libibverbs.so.1. newCM skips the test where they cannot be built.
func newCM(t *testing.T) *cmProgram {
	t.Helper()
	b := newBuilds(t, "program", plain)
	p := &cmProgram{stand: &stand{builds: b, variant: plain}, path: filepath.Join(b.dir, "cm")}
	if *buildsDir == "" && !b.built("cm") {
		b.buildCM(t, p.path)
	}
	return p
}

// buildCM builds the program with the scenarios of librdmacm.
func (b *builds) buildCM(t *testing.T, path string) {
	t.Helper()
	if !compiles("#include <rdma/rdma_cma.h>\n", "-E") {
		// They call librdmacm, which is not part of this project.
		t.Skip("no headers of librdmacm: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)")
	}
	args := append([]string{libraries.Dialect, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", path}, sources(t, "cm")...)
	run(t, "gcc", append(args, "-L"+filepath.Join(b.dir, plain.name), "-lrdmacm", "-l:libibverbs.so.1")...)
}

// do runs the program with the name of a scenario, or without arguments to list all names.
func (p *cmProgram) do(t *testing.T, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), *scenarioTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// bySix is the prefix of the scenarios that need addresses of both families.
const bySix = "six-"

// all runs the scenarios that use IPv6, or all others, each as a process of its own with an
// adapter on the addresses that addr returns.
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

// TestD2_CMCalls runs scenarios of librdmacm. Each file of the directory cm has those of one
// topic.
func TestD2_CMCalls(t *testing.T) {
	p := newCM(t)
	p.all(t, false, func() string { return p.addresses(1) })
}

// TestCMStartsQuietly checks that librdmacm's test for AF_IB support leaves nothing in the log:
// librdmacm expects the refusal.
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

// TestLogTellsWhatHappened checks that the log of level info says where a program listens, and at its
// end how often each fault rule acted.
func TestLogTellsWhatHappened(t *testing.T) {
	p := newCM(t)
	out, err := p.do(t, append(p.over(t, p.addresses(1)), "SOFTHCA_LOG_LEVEL=info", "SOFTHCA_FAULTS=delay 1ms op=REQ dir=out nth=1\ndrop op=LAP"), "private-tcp")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`level=INFO msg="listening on `, `rule="delay 1ms nth=1 op=REQ dir=out" acted=1`, `rule="drop op=LAP" acted=0`} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%d times %s in the log, want 1:\n%s", strings.Count(out, want), want, out)
		}
	}
}

// TestW1_EventsOfProgramsInC checks the log of events: with a format, each line is an object, both ends
// of the connection name it alike, and the process and the device are told. Unless the user asks for
// them there are no events, and a wrong format is refused.
func TestW1_EventsOfProgramsInC(t *testing.T) {
	p := newCM(t)
	env := p.over(t, p.addresses(1))
	out, err := p.do(t, append(env, "SOFTHCA_LOG_LEVEL=info", "SOFTHCA_LOG_FORMAT=json"), "private-tcp")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := map[string]int{}
	for text := range strings.Lines(out) {
		if !strings.Contains(text, `"connection established"`) {
			continue
		}
		var line struct {
			Time                         time.Time
			Level, Device, Conn, Service string
			PID                          int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		if line.Time.IsZero() || line.Level != "INFO" || line.Device != "softhca0" || line.PID == 0 || !strings.HasPrefix(line.Service, "tcp:") {
			t.Errorf("line %+v", line)
		}
		names[line.Conn]++
	}
	for conn, n := range names {
		if n%2 != 0 || !strings.Contains(conn, "/0x") {
			t.Errorf("connection %q is established at %d ends", conn, n)
		}
	}
	if len(names) == 0 {
		t.Errorf("no connection is logged:\n%s", out)
	}
	if out, err := p.do(t, env, "private-tcp"); err != nil || strings.Contains(out, "connection") || strings.Contains(out, "level=") {
		t.Errorf("without a level: %v\n%s", err, out)
	}
	if out, err := p.do(t, append(env, "SOFTHCA_LOG_FORMAT=xml"), "private-tcp"); err == nil || !strings.Contains(out, "xml\\\": want text or json") {
		t.Errorf("with a wrong format: %v\n%s", err, out)
	}
}

// TestD2_CMCallsIPv6 runs the scenarios that use IPv6, with an adapter on a network interface:
// Linux sends no IPv6 multicast over its loopback interface.
func TestD2_CMCallsIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.7.0.1/24"), netip.MustParsePrefix("fd00::1/64"))
	newCM(t).all(t, true, func() string { return "10.7.0.1,fd00::1" })
}

// TestK1_UnreadEvents runs a program that ends while an event of rdma_cm waits, and a program that reads the event first.
func TestK1_UnreadEvents(t *testing.T) {
	const name = "cm-events-never-read"
	p := newCM(t)
	for scenario, want := range map[string]bool{"unread-request": true, "unread-nothing": false} {
		dir := t.TempDir()
		out, err := p.do(t, append(p.over(t, p.addresses(1)), "SOFTHCA_CHECK="+findings.Advice, "SOFTHCA_CHECK_DIR="+dir), scenario)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r, err := check.Read(dir, check.Options{Advice: true})
		must.Do(t, err)
		isTold := func(f *check.Finding) bool {
			return f.Name == name && slices.ContainsFunc(f.Stacks[0].Frames, func(f check.Frame) bool { return f.Function == "request" })
		}
		if slices.ContainsFunc(r.Findings, isTold) != want || !want && slices.Contains(names(r, name), name) {
			t.Errorf("%s: want the finding: %t\n%s", scenario, want, text(t, r))
		}
	}
}

// TestK1_FatalDisconnects runs processes that end at their first finding. Their peers get a DREQ.
func TestK1_FatalDisconnects(t *testing.T) {
	p := newCM(t)
	for _, name := range []string{"wrong-call", "wrong-call-in-thread", "wrong-call-in-handler", "wrong-call-at-exit"} {
		dir := t.TempDir()
		out, err := p.do(t, append(p.over(t, p.addresses(1)), "SOFTHCA_CHECK="+findings.Error+",fatal", "SOFTHCA_CHECK_DIR="+dir), name)
		if want := fmt.Sprintf("exit code %d\nok\n", fatalExit); err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, want, out)
		}
		r, err := check.Read(dir, check.Options{})
		must.Do(t, err)
		if len(r.Findings) != 1 || r.Findings[0].Name != "call-refused" {
			t.Errorf("%s: want call-refused alone\n%s", name, text(t, r))
		}
	}
}
