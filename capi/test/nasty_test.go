//go:build linux && cgo

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/nasty"
)

// nastySeeds is the number of seeds with which the tests run each program.
const nastySeeds = 20

// nastyProgram is the program with bugs that nasty behaviours show.
const nastyProgram = "nasty"

// buildNasty builds the program.
func (b *builds) buildNasty(t *testing.T, v variant) {
	t.Helper()
	if b.built(v.name, nastyProgram) {
		return
	}
	dir := filepath.Join(b.dir, v.name)
	args := append(v.compiler(), "-o", filepath.Join(dir, nastyProgram), "program/rig.c")
	run(t, "gcc", append(append(args, sources(t, nastyProgram)...), "-L"+dir, "-l:libibverbs.so.1")...)
}

// only returns the words that follow a seed so that all behaviours but one are left out.
func only(name string) string {
	var words strings.Builder
	for p := range nasty.NumParts {
		if p.String() != name {
			fmt.Fprintf(&words, ",%s%v", nasty.WithoutPrefix, p)
		}
	}
	return words.String()
}

// TestK2_NastyShowsBugs runs programs with a bug, which pass on an adapter that is not nasty. One behaviour alone
// shows the bug with one of the seeds. Without the bug they pass with all seeds and behaviours.
func TestK2_NastyShowsBugs(t *testing.T) {
	b := newBuilds(t, "program", plain)
	b.buildNasty(t, plain)
	s := &stand{builds: &builds{dir: b.dir, program: nastyProgram}, variant: plain}
	seeds := fmt.Sprint(nastySeeds)
	for _, c := range s.bugs(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range [][]string{{"bug", "0", ""}, {"right", "0", ""}, {"right", seeds, ""}, {"right", seeds, only(c.finding)}} {
				if out, err := s.runArgs(t, append([]string{c.name}, p...)); err != nil || !strings.HasSuffix(out, "ok\n") {
					t.Errorf("%s %q: %v\n%s", c.name, p, err, out)
				}
			}
			out, err := s.runArgs(t, []string{c.name, "bug", seeds, only(c.finding)})
			if err == nil || !strings.Contains(out, "nasty.c:") || !strings.Contains(out, ": failed: ") {
				t.Errorf("%s does not show the bug of %s: %v\n%s", c.finding, c.name, err, out)
			}
			t.Log(out)
		})
	}
}

// TestK2_NastyPassesRightPrograms runs the programs of the checker without their bugs, each with a seed of its own.
func TestK2_NastyPassesRightPrograms(t *testing.T) {
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain)
	}
	s := &stand{builds: &builds{dir: b.dir, program: checkedProgram}, variant: plain}
	for i, c := range s.bugs(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			choices := fmt.Sprintf("SOFTHCA_NASTY=%d", i+1)
			if out, err := s.runArgs(t, []string{c.name, "right"}, choices); err != nil {
				t.Errorf("%s right, with %s: %v\n%s", c.name, choices, err, out)
			}
		})
	}
}

// TestNastyTextIsWrong opens an adapter with a text that is none.
func TestNastyTextIsWrong(t *testing.T) {
	s := &stand{builds: newBuilds(t, "program", plain), variant: plain}
	out, err := s.run(t, "transfer", "SOFTHCA_NASTY=7,without=plaecment")
	if err == nil || !strings.Contains(out, `SOFTHCA_NASTY \"7,without=plaecment\": there is no behaviour \"plaecment\" (late, `) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestK2_NastyPassesPingPong runs rdma-core's programs, client and server, with each seed.
func TestK2_NastyPassesPingPong(t *testing.T) {
	s := &stand{builds: newBuilds(t, "program", plain), variant: plain}
	for _, args := range [][]string{
		{"ibv_rc_pingpong"}, {"ibv_rc_pingpong", "-e"}, {"ibv_rc_pingpong", "-e", "-s", "100"},
		{"ibv_srq_pingpong", "-e"}, {"ibv_ud_pingpong", "-e"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("no %s: install ibverbs-utils", args[0]) // a Debian program that is not installed
			}
			for seed := range nastySeeds {
				s.pingPong(t, slices.Concat(args, []string{"-g", "0", "-n", "100"}), fmt.Sprintf("SOFTHCA_NASTY=%d", seed+1))
			}
		})
	}
}

// pingPong runs a server and its client, each on an address of its own.
func (s *stand) pingPong(t *testing.T, args []string, choices string) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must.Do(t, l.Close())
	args = slices.Concat(args, []string{"-p", strconv.Itoa(port)})
	var ended atomic.Bool
	var server sync.WaitGroup
	server.Go(func() {
		if out, err := s.runLine(t, args, "SOFTHCA_ADDR="+s.addresses(1), choices); err != nil {
			t.Errorf("%q as a server, with %s: %v\n%s", args, choices, err, out)
		}
		ended.Store(true)
	})
	defer server.Wait()
	for !listens(t, port) && !ended.Load() {
		runtime.Gosched()
	}
	if out, err := s.runLine(t, slices.Concat(args, []string{"127.0.0.1"}), "SOFTHCA_ADDR="+s.addresses(1), choices); err != nil {
		t.Errorf("%q as a client, with %s: %v\n%s", args, choices, err, out)
	}
}

// listens reports whether a process listens to a TCP port.
func listens(t *testing.T, port int) bool {
	t.Helper()
	return slices.ContainsFunc([]string{"/proc/net/tcp", "/proc/net/tcp6"}, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && regexp.MustCompile(fmt.Sprintf(`:%04X 0+:0000 0A `, port)).Match(text)
	})
}
