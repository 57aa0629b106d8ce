package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choices returns the options of all commands that take one of some words, each
// by the line that would give it.
func choices() map[string]choice {
	all := make(map[string]choice)
	for _, cmd := range commands(newRootCommand()) {
		line := strings.TrimPrefix(cmd.CommandPath(), "softhca ")
		if cmd.Name() == "softhca" {
			line = "demo" // for the options that all commands have
		}
		visit := func(f *pflag.Flag) {
			if c, ok := f.Value.(choice); ok {
				all[line+" --"+f.Name] = c
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(visit)
		cmd.PersistentFlags().VisitAll(visit)
	}
	return all
}

// TestMistypedWords gives each option that takes one of some words another one,
// and one that is nearly right, and has a shell complete it.
func TestMistypedWords(t *testing.T) {
	all := choices()
	for _, line := range []string{"demo --log-level", "demo --transport", "demo --type", "perf --type", "states --format", "cm-states --state", "sim --profile"} {
		if _, ok := all[line]; !ok {
			t.Errorf("%s takes any word", line)
		}
	}
	for line, c := range all {
		for _, word := range c.all {
			code, out, errs := command(t, append(strings.Fields(line), word+"x")...)
			if code != exitUsage || out != "" || !strings.Contains(errs, `"`+word+`x": `) || !strings.Contains(errs, "did you mean ") || !strings.Contains(errs, word) {
				t.Errorf("%s %sx: exit code %d, %q, %q: want a hint of %s", line, word, code, out, errs, word)
			}
		}
		if code, _, errs := command(t, append(strings.Fields(line), "frobnicate")...); code != exitUsage || !strings.Contains(errs, "want "+c.all[0]) {
			t.Errorf("%s frobnicate: exit code %d, %q: want all words", line, code, errs)
		}
		_, out, _ := command(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if got := strings.Fields(out); len(got) < len(c.all) || !slices.Equal(got[:len(c.all)], c.all) {
			t.Errorf("%s is completed by\n%s\nwant %q", line, out, c.all)
		}
	}
}

// TestChoiceIgnoresCase takes a word however it is written, as its list has it.
func TestChoiceIgnoresCase(t *testing.T) {
	word, cmd := "raw", &cobra.Command{}
	addChoice(cmd.Flags(), &word, "kind", "", "udp", "raw")
	if err := cmd.ParseFlags([]string{"--kind", "UDP"}); err != nil || word != "udp" {
		t.Errorf("%q, %v", word, err)
	}
}
