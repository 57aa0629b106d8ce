package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/internal/must"
)

const captures = "../../internal/testdata/captures/"

// loopback returns address i of those that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 224+pid>>8&15, pid&255, i)
}

// command runs a command line and returns its exit code and what it printed.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	var errs shared
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// shared is standard error of a command, which a process that it starts writes
// to at the same time.
type shared struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

// String returns the written text, after the last write.
func (s *shared) String() string { return s.buf.String() }

// commands returns the whole tree, but what cobra adds itself, and commands that only this program starts.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" && !sub.Hidden {
			all = append(all, commands(sub)...)
		}
	}
	return all
}

// TestExamples looks whether each command's help has examples and whether
// the command line of each is accepted.
func TestExamples(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		if c.Long == "" || c.Example == "" {
			t.Errorf("%s has no long help or no examples", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if err := accepts(strings.TrimSpace(line)); err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), strings.TrimSpace(line), err)
			}
		}
	}
	for _, wrong := range []string{"softhca demos", "softhca demo now", "softhca states --format", "softhca decode", "ls"} {
		if accepts(wrong) == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// words splits a command line at blanks, but for those between single quotes.
func words(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}

// accepts parses a line of examples: a command, perhaps with a redirection or
// a pipe, perhaps followed by blanks and an explanation.
func accepts(line string) error {
	for _, end := range []string{"   ", " | ", " < ", " > "} {
		line, _, _ = strings.Cut(line, end)
	}
	args := words(line)
	if len(args) < 2 || args[0] != "softhca" {
		return fmt.Errorf("not a softhca command")
	}
	root := newRootCommand()
	c, rest, err := root.Find(args[1:])
	if err != nil {
		return err
	}
	if c == root {
		return fmt.Errorf("no such command")
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

func TestHelp(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		code, out, errs := command(t, args...)
		if code != exitOK || errs != "" || !strings.Contains(out, "Examples:") {
			t.Errorf("%v: exit code %d, %q\n%s", args, code, errs, out)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"--no-such-flag"},
		{"nonsense"},
		{"states", "--type", "xrc"},
		{"states", "--format", "xml"},
		{"states", "now"},
		{"decode"},
		{"decode", "a", "b"},
		{"devices", "--transport", "pigeon", "--addr", "127.0.0.1"},
		{"devices", "--log-level", "shout", "--addr", "127.0.0.1"},
		{"perf", "write", "--type", "xrc"},
		{"demo", "--type", "uc"},
		{"demo", "--type", "rd", "--apm"},
		{"perf", "write", "--size", "0"},
		{"perf", "write", "a", "b"},
		{"perf", "write", "--qps", "many"},
		{"perf", "read", "--latency", "--events", "127.0.0.1"},
		{"perf", "send", "--events", "127.0.0.1"},
		{"demo", "now"},
	} {
		code, out, errs := command(t, args...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: ") || !strings.Contains(errs, "--help") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}

func TestDecode(t *testing.T) {
	code, out, errs := command(t, "decode", captures+"errs_bad_rkey_write.pcap")
	last := "\npackets=3 roce=3 icrc_ok=3 icrc_bad=0 malformed=0\n"
	if code != exitOK || errs != "" || strings.Count(out, "\n") != 4 || !strings.HasSuffix(out, last) {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}
	code, out, errs = command(t, "decode", "--json", captures+"errs_bad_rkey_write.pcap")
	if code != exitOK || errs != last[1:] {
		t.Errorf("--json: exit code %d, %q", code, errs)
	}
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestDecodeBad(t *testing.T) {
	data, err := os.ReadFile(captures + "errs_bad_rkey_write.pcap")
	must.Do(t, err)
	name := filepath.Join(t.TempDir(), "bad.pcap")
	write := func(b []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(name, b, 0o600))
	}
	changed := bytes.Clone(data)
	changed[len(changed)-1]++
	write(changed)
	code, out, errs := command(t, "decode", name)
	if code != exitFailed || !strings.HasSuffix(out, "icrc_ok=2 icrc_bad=1 malformed=0\n") || !strings.Contains(errs, "1 of 3") {
		t.Errorf("wrong ICRC: exit code %d, %q\n%s", code, errs, out)
	}
	write(data[:len(data)-1])
	if code, out, _ = command(t, "decode", name); code != exitFailed || !strings.HasSuffix(out, "icrc_ok=2 icrc_bad=0 malformed=0\n") {
		t.Errorf("file that breaks off: exit code %d\n%s", code, out)
	}
	if code, _, _ = command(t, "decode", filepath.Join(t.TempDir(), "none")); code != exitFailed {
		t.Errorf("no file: exit code %d", code)
	}
}

func TestStates(t *testing.T) {
	code, out, errs := command(t, "states", "--type", "UD")
	if code != exitOK || errs != "" || !strings.Contains(out, "UD: ") || strings.Contains(out, "RC: ") {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}
	if code, out, _ = command(t, "states", "--format", "json"); code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("JSON: exit code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "states", "--format", "dot"); code != exitOK || !strings.HasPrefix(out, "digraph") {
		t.Errorf("dot: exit code %d\n%s", code, out)
	}
}

func TestDevices(t *testing.T) {
	addr := loopback(1)
	code, out, errs := command(t, "devices", "--addr", addr, "--json")
	var found []struct {
		Name string
		Port struct{ GIDs []struct{ Addr string } }
	}
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil || len(found) != 1 || found[0].Port.GIDs[0].Addr != addr {
		t.Errorf("exit code %d, %q, %v\n%s", code, errs, err, out)
	}
	if code, out, _ = command(t, "devices", "--addr", "192.0.2.99"); code != exitFailed || !strings.Contains(out, "not usable") {
		t.Errorf("foreign address: exit code %d\n%s", code, out)
	}
}

// TestDemo runs it, and decodes the capture that it makes.
func TestDemo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	code, out, errs := command(t, "demo", "--addr", loopback(2), "--peer", loopback(3), "--measure", "5ms", "--capture", file)
	if code != exitOK || errs != "" || !strings.Contains(out, "Everything was verified") {
		t.Fatalf("exit code %d, %q\n%s", code, errs, out)
	}
	code, out, errs = command(t, "decode", file)
	for _, want := range []string{
		"  REQ comm 0x", "  REP comm 0x", "  RTU comm 0x", "RC_SEND_FIRST", "NAK_REMOTE_ACCESS", "RC_FETCH_ADD",
		"  DREQ comm 0x", "  DREP comm 0x", "icrc_bad=0 malformed=0\n",
	} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Fatalf("its capture: exit code %d, %q, no %q in\n%s", code, errs, want, out[max(0, len(out)-1000):])
		}
	}
}

func TestDemoHints(t *testing.T) {
	code, _, errs := command(t, "demo", "--addr", loopback(4), "--peer", "192.0.2.99")
	if code != exitFailed || !strings.Contains(errs, "--peer B") {
		t.Errorf("foreign address: exit code %d, %q", code, errs)
	}
	code, _, errs = command(t, "demo", "--addr", loopback(4), "--peer", loopback(4))
	if code != exitFailed || !strings.Contains(errs, "needs a free address") {
		t.Errorf("one address twice: exit code %d, %q", code, errs)
	}
}
