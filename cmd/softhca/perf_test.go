package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/internal/must"
)

// TestMain lets perf --local start this binary again as its server, tests of run have it as
// a process whose place a program can take, and shells ask it what may come next.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "explore" {
		main() // also with what it does at Ctrl-C; it does not return
	}
	if len(os.Args) > 1 && slices.Contains([]string{"perf", "run", "explore-job", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, os.Args[1]) {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// typeOf returns the service that arguments of perf ask for.
func typeOf(args []string) string {
	if i := slices.Index(args, "--type"); i >= 0 {
		return args[i+1]
	}
	return "rc"
}

func TestPerfLocal(t *testing.T) {
	for _, args := range [][]string{
		{"write"},
		{"write", "--size", "64", "--post-list", "1"},
		{"send", "--size", "100000", "--depth", "4", "--qps", "2", "--mtu", "1024"},
		{"read", "--latency"},
		{"write", "--latency"},
		{"write", "--type", "uc"},
		{"send", "--type", "ud", "--rate-limit", "100M"},
		{"write", "--type", "rd", "--qps", "4", "--static-rate", "2.5"},
		{"read", "--type", "rd", "--fault", "drop p=0.01 dir=both"},
		{"send", "--type", "rd", "--latency"},
		{"send", "--type", "xrc", "--qps", "4"},
		{"send", "--type", "xrc", "--latency", "--events"},
		{"atomic-write", "--type", "xrc"},
		{"read", "--window", "--qps", "2"},
		{"bind", "--latency"},
	} {
		line := append([]string{"perf", "--local", "--json", "--duration", "100ms", "--addr", loopback(20)}, args...)
		code, out, errs := command(t, line...)
		var s perf.Summary
		if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK {
			t.Fatalf("%v: exit code %d, %q, %s", args, code, out, errs)
		}
		if s.Op != args[0] || s.Messages == 0 || s.Seconds < 0.1 || s.Type != typeOf(args) || s.Window != slices.Contains(args, "--window") {
			t.Errorf("%v: %+v", args, s)
		}
	}
}

// TestM4_PerfOnOneAddress lets the server and the client of a measurement share an address, or two.
func TestM4_PerfOnOneAddress(t *testing.T) {
	addrs := loopback(34) + "," + loopback(35)
	for _, c := range []struct {
		op, addr, host string
		more           []string
	}{
		{"send", loopback(33), loopback(33), []string{"--type", "xrc", "--qps", "3"}},
		{"send", addrs, loopback(35), []string{"--type", "xrc", "--latency", "--events"}},
		{"write", loopback(33), loopback(33), []string{"--window"}},
	} {
		port := freePort(t, c.host)
		server := exec.CommandContext(t.Context(), os.Args[0], "perf", c.op, "--addr", c.addr, "--port", port)
		said, err := server.StderrPipe()
		must.Do(t, err)
		must.Do(t, server.Start())
		line, err := bufio.NewReader(said).ReadString('\n') // the server listens
		must.Do(t, err)
		code, out, errs := command(t, append([]string{"perf", c.op, "--addr", c.addr, "--port", port, "--json", "--duration", "100ms", c.host}, c.more...)...)
		var s perf.Summary
		if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || s.Messages == 0 || s.Type != typeOf(c.more) {
			t.Errorf("%v: exit code %d, %q, %s; the server said %s", c, code, out, errs, line)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("%v: the server ends with %v", c, err)
		}
	}
}

// TestV15_PerfMigrates cuts the first path between two processes.
func TestV15_PerfMigrates(t *testing.T) {
	code, out, errs := command(t, "perf", "write", "--local", "--json", "--duration", "1500ms", "--timeout", "60ms", "--retry", "4",
		"--addr", loopback(30), "--alt", loopback(32), "--fault", "drop path=primary after=300ms")
	var s perf.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %q, %s", code, out, errs)
	}
	if s.Migrated == nil || s.Migrated.QPs != 1 || s.Migrated.After <= 0 || s.Migrated.Pause <= 0 || s.Server.Migrations != 1 {
		t.Errorf("the path is cut, and the result says %s", out)
	}
}

// freePort returns a unused TCP port.
func freePort(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	must.Do(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestPerfForever has a server refuse one client, serve another, and end
// without complaint.
func TestPerfForever(t *testing.T) {
	client, server := loopback(22), loopback(23)
	port := freePort(t, server)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var errs strings.Builder
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"perf", "write", "--forever", "--addr", server, "--port", port}, &strings.Builder{}, &errs)
	}()
	measure := func(op string) (int, string) {
		for start := time.Now(); ; {
			code, _, errs := command(t, "perf", op, "--addr", client, "--port", port, "--duration", "20ms", server)
			if code == exitOK || !strings.Contains(errs, "connection refused") || time.Since(start) > 10*time.Second {
				return code, errs
			}
		}
	}
	if code, errs := measure("send"); code != exitFailed || !strings.Contains(errs, "this server serves write") {
		t.Errorf("a client of another operation ends with %d: %s", code, errs)
	}
	// A stranger that connects and sends nothing keeps no client waiting: neither the next
	// one, which waits 10 seconds for its turn, nor one after the maximum number of waiting
	// strangers.
	for range 3 {
		silent, err := net.Dial("tcp", net.JoinHostPort(server, port))
		must.Do(t, err)
		defer silent.Close()
	}
	begin := time.Now()
	if code, errs := measure("write"); code != exitOK || time.Since(begin) > 8*time.Second {
		t.Errorf("the next client ends with %d after %v: %s", code, time.Since(begin), errs)
	}
	end()
	if c := <-code; c != exitOK {
		t.Errorf("interrupted, the server ends with %d: %s", c, errs.String())
	}
	if !strings.Contains(errs.String(), "the client measures send") {
		t.Errorf("the server does not say why it refused: %s", errs.String())
	}
}

func TestPerfRefuses(t *testing.T) {
	for why, args := range map[string][]string{
		"no operation":            {},
		"no such operation":       {"erase"},
		"a path MTU of 1000":      {"write", "--mtu", "1000"},
		"no time":                 {"write", "--duration", "0s"},
		"no bytes":                {"write", "--local", "--duration", "10ms", "--size", "0"},
		"nothing outstanding":     {"write", "--local", "--duration", "10ms", "--depth", "0"},
		"nothing in a post":       {"write", "--local", "--duration", "10ms", "--post-list", "0"},
		"more than outstanding":   {"write", "--local", "--duration", "10ms", "--depth", "4", "--post-list", "5"},
		"no queue pairs":          {"write", "--local", "--duration", "10ms", "--qps", "0"},
		"a size of an atomic":     {"fetch-add", "--size", "4"},
		"both sides and a host":   {"write", "--local", "127.0.0.1"},
		"both sides, for ever":    {"write", "--local", "--forever"},
		"both sides of a network": {"write", "--local", "--addr", "lo"},
		"two hosts":               {"write", "127.0.0.1", "127.0.0.2"},
		"no such service":         {"write", "--local", "--type", "tcp"},
		"a READ of UD":            {"read", "--local", "--type", "ud"},
		"a rate limit of RD":      {"write", "--local", "--type", "rd", "--rate-limit", "10M"},
		"a window of a SEND":      {"send", "--local", "--window"},
		"a window of XRC":         {"write", "--local", "--type", "xrc", "--window"},
		"a server's window":       {"write", "--window"},
		"a bind of RD":            {"bind", "--local", "--type", "rd"},
		"no second address":       {"write", "--local", "--alt", "second"},
		"a path from nowhere":     {"write", "--alt", "127.0.0.3", "127.0.0.2"},
		"paths of two families":   {"write", "--local", "--alt", "fd00::1"},
		"the same path twice":     {"write", "--local", "--addr", "127.0.0.9", "--alt", "127.0.0.9"},
		"the path of the peer":    {"write", "--local", "--addr", "127.0.0.9", "--alt", "127.0.0.10"},
		"a path to the first":     {"write", "--local", "--addr", "127.0.0.9", "--alt", "127.0.0.8"},
	} {
		if code, _, errs := command(t, append([]string{"perf"}, args...)...); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d: %s", why, code, exitUsage, errs)
		}
	}
	addr := loopback(24)
	code, _, errs := command(t, "perf", "write", "--addr", addr, "--port", freePort(t, addr), addr)
	if code != exitFailed || !strings.Contains(errs, "no server at ") {
		t.Errorf("without a server: exit code %d: %s", code, errs)
	}
}
