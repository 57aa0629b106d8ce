package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpFits checks that help lines fit a terminal, and that every option has
// an effect.
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
		{"perf write --size 1M", "--size has no effect here: it is for the client"},
		{"perf write --json", "--json has no effect here: it is for the client"},
		{"perf write --forever 127.0.0.1", "--forever has no effect here: it is for the server"},
		{"perf write --local --port 5", "--port has no effect here: --local runs both sides"},
		{"perf write --loss-ratio 0.1 127.0.0.1", "--loss-ratio has no effect here: it is for --local"},
		{"demo --apm --measure 1s", "--measure has no effect"},
		{"demo --type rd --measure 1s", "--measure has no effect"},
		{"perf cm --cm-timeout 1s", "--cm-timeout has no effect here: it is for the client"},
		{"perf cm --cm-retries 3", "--cm-retries has no effect here: it is for the client"},
		{"perf write --cm-retries 3", "has no option --cm-retries"},
		{"perf cm --json", "--json has no effect here: it is for the client"},
		{"perf cm --window 3", "--window has no effect here: it needs --local"},
		{"perf cm 127.0.0.1 --events", "--events has no effect here: it needs --local"},
		{"perf cm --local --window 3", "--window has no effect here: it is about --cycles"},
		{"faults --list drop", "--list takes no rules"},
		{"judge --agent-source --json x", "--json has no effect here: it goes with --peer or --list"},
		{"judge --agent-source --run e08", "--run has no effect here: it goes with --peer or --list"},
		{"judge --peer 127.0.0.1 --topics x", "--topics has no effect here: it goes with --page"},
		{"top --addr 127.0.0.1", "--addr has no effect here: softhca top opens no adapter"},
		{"top --json", "--json has no effect here: it needs --once"},
		{"top --once --json --view cqs", "--view has no effect here: --json prints everything"},
		{"metrics --addr 127.0.0.1", "--addr has no effect here: softhca metrics opens no adapter"},
		{"metrics --qp-limit 5", "--qp-limit has no effect here: it goes with --per-qp"},
		{"metrics --interval 5s", "--interval has no effect here: it goes with --textfile without --once"},
		{"metrics --once --textfile x --interval 5s", "--interval has no effect here"},
		{"metrics --once --listen :1", "--listen has no effect here: --once serves nothing"},
		{"metrics --textfile x --listen :1", "--listen has no effect here: --textfile serves nothing"},
		{"metrics --textfile x --node-names", "--node-names has no effect here: --textfile always has these names"},
		{"metrics --textfile x --interval 1ms", "--interval 1ms: want at least 1s"},
		{"metrics --per-qp --qp-limit 0", "--qp-limit 0: want 1 or more"},
		{"metrics --per-qp --qp-limit -1", "--qp-limit -1: want 1 or more"},
		{"sim --loss-ratio 0.1 --ops 5", "--ops has no effect here: --loss-ratio"},
	} {
		if code, _, errs := command(t, strings.Fields(c.line)...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.line, code, errs, c.want)
		}
	}
}
