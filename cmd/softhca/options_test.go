package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpFits wants lines that fit a terminal, and no option that has no
// effect.
func TestHelpFits(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		_, out, _ := command(t, args...)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%v: a line has %d columns: %s", args, n, line)
			}
		}
		for _, f := range ignored(c) {
			if strings.Contains(out, "--"+f.Name+" ") {
				t.Errorf("%v names --%s, which has no effect there", args, f.Name)
			}
		}
	}
	if _, out, _ := command(t, "perf", "--help"); !strings.Contains(out, "--fault-seed") {
		t.Errorf("perf --help has no --fault-seed:\n%s", out)
	}
}

// TestIgnoredOptions gives commands options of adapters that they do not have.
func TestIgnoredOptions(t *testing.T) {
	for _, c := range []struct {
		line, want string
	}{
		{"sim --addr 127.0.0.1", "--addr has no effect here: softhca sim opens no adapter"},
		{"states --log-level info", "--log-level has no effect"},
		{"decode --capture y x", "--capture has no effect"},
		{"faults --addr 127.0.0.1", "--addr has no effect here: of the options of adapters softhca faults has --fault, --fault-file"},
		{"devices --fault drop", "--fault has no effect"},
		{"broker --transport raw", "--transport has no effect"},
		{"--explain", "--explain has no effect"},
	} {
		if code, _, errs := command(t, strings.Fields(c.line)...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.line, code, errs, c.want)
		}
	}
}
