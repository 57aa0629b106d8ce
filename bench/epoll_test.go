//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

func TestRequestRate(t *testing.T) {
	const text = "94264 requests/s, client: 94275 requests, each 2.62 us of processor time and 0.54 waits\n"
	if v, err := requestRate(text); v != 94.264 || err != nil {
		t.Errorf("%v, %v of what bench/epoll prints", v, err)
	}
	for _, none := range []string{"", "requests/s,", "many requests/s,", "server: 5 requests, each 1 us"} {
		if v, err := requestRate(none); err == nil {
			t.Errorf("%q is %v", none, v)
		}
	}
}

// TestEpollMeasurements checks that both sides of each measurement have the same arguments, and the
// program over our libraries the wire of its target.
func TestEpollMeasurements(t *testing.T) {
	p := programs{softhca: "/x/softhca", epoll: "/x/epoll", seconds: 0.5}
	all := epollMeasurements()
	checkMeasurements(t, all)
	for _, m := range all {
		own, reference := p.side(&m.own, false, "4711"), p.side(&m.reference, false, "4711")
		at := slices.Index(own, "/x/epoll")
		if at < 0 || own[at+1] != "rdma" || reference[1] != "tcp" || !slices.Equal(own[at+2:], reference[2:]) {
			t.Errorf("%s: %q is compared with %q", m.name, own, reference)
		}
		if !strings.Contains(strings.Join(own, " "), " --wire "+m.own.wire+" --addr "+pairClient+" ") {
			t.Errorf("%s: its client is %q", m.name, own)
		}
		least := map[string]float64{"udp": 0.8, "auto": 1.2}[m.own.wire]
		if !m.target.met(&result{Ratio: spread{Median: least}}) || m.target.met(&result{Ratio: spread{Median: least - 0.01}}) {
			t.Errorf("%s: %q is not %g", m.name, m.target.text, least)
		}
	}
}

// TestEpollOverTCP runs the program with several threads: it checks each message, and ends by itself.
func TestEpollOverTCP(t *testing.T) {
	if why := epollMissing(); why != "" {
		t.Skip(why) // the program cannot be compiled here
	}
	tree, ok := libraries.Tree()
	if !ok {
		t.Fatal("no source tree")
	}
	program := filepath.Join(t.TempDir(), "epoll")
	must.Do(t, buildEpoll(t.Context(), tree, program))
	p := programs{epoll: program, seconds: 0.1}
	for _, size := range []int{64, 64 << 10} {
		s := asleep("", size, 5, 2)
		if v, err := p.measurePair(t.Context(), &s); err != nil || v <= 0 {
			t.Errorf("%d bytes: %v, %v", size, v, err)
		}
	}
	for _, args := range [][]string{{}, {"udp"}, {"tcp", "-c", "0"}, {"tcp", "-b", "8x"}, {"tcp", "-z"}, {"tcp", "127.0.0.1", "127.0.0.1"}} {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err == nil || !regexp.MustCompile(`usage: epoll|is not a number from`).Match(out) {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}

// TestBuildEpollFails returns what the compiler says.
func TestBuildEpollFails(t *testing.T) {
	if why := epollMissing(); why != "" {
		t.Skip(why) // there is no compiler
	}
	tree := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(tree, "bench", "epoll"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(tree, "bench", "epoll", "a.c"), []byte("int main(void) { return undeclared; }\n"), 0o644))
	if err := buildEpoll(t.Context(), tree, filepath.Join(tree, "epoll")); err == nil || !strings.Contains(err.Error(), "undeclared") {
		t.Errorf("the error of a program that does not compile: %v", err)
	}
}
