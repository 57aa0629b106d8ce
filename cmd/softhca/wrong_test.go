package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestFilesThatAreNone gives commands files that they cannot read: each prints nothing but
// one error, and its documented exit code.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"text": "root:x:0:0::/root:/bin/sh\n", "empty": "", "short": "r"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"decode"}, exitFailed},
		{[]string{"decode", "--json"}, exitFailed},
		{[]string{"explain"}, exitUsage},
		{[]string{"explain", "--json"}, exitUsage},
		{[]string{"explain", "--html", filepath.Join(dir, "page.html")}, exitUsage},
	} {
		for _, name := range []string{"missing", "text", "empty", "short", "."} {
			line := append(append([]string{}, c.args...), filepath.Join(dir, name))
			code, out, errs := command(t, line...)
			if code != c.code || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "softhca: "+c.args[0]) {
				t.Errorf("%q: exit code %d, want %d and one line of error only\n%s%s", line, code, c.code, out, errs)
			}
		}
	}
	for _, name := range []string{"text", "empty", "short"} {
		if code, out, errs := command(t, "play", filepath.Join(dir, name)); code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("play %s: exit code %d, want %d and one line of error only\n%s%s", name, code, exitFailed, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "page.html")); err == nil {
		t.Error("explain --html wrote a page of a file that it could not read")
	}
	if code, _, errs := command(t, "explain", "--html", dir, captures+"errs_bad_rkey_write.pcap"); code != exitUsage || !strings.Contains(errs, "is a directory") {
		t.Errorf("a page that cannot be written: exit code %d, want %d: %s", code, exitUsage, errs)
	}
}

// TestAddressesThatAreNone gives an address that is none to commands that open adapters:
// each names the cause once.
func TestAddressesThatAreNone(t *testing.T) {
	for _, line := range []string{
		"broker", "perf cm", "demo", "devices", "devices --json", "perf write", "perf cm 127.0.0.1",
	} {
		code, out, errs := command(t, append(strings.Fields(line), "--addr", "no-such-interface")...)
		if code != exitFailed || strings.Count(out+errs, "neither an IP address") != 1 || strings.Contains(errs, "waiting") {
			t.Errorf("%s: exit code %d, want %d and the cause once\n%s%s", line, code, exitFailed, out, errs)
		}
		if !strings.Contains(errs, "softhca: "+strings.Fields(line)[0]) {
			t.Errorf("%s: the error does not name the command: %s", line, errs)
		}
	}
}
