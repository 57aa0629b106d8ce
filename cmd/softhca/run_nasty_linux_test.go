package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestK2_RunNasty checks which choices the program gets, and what run says.
func TestK2_RunNasty(t *testing.T) {
	i := install(t)
	const drawn = `\d+`
	for _, c := range []struct {
		args            []string
		env, got, print string // patterns of the variable that the program gets, and of what run prints
	}{
		{nil, "", "", ""},
		{nil, "9,without=cm", "9,without=cm", ""},
		{[]string{"--nasty"}, "9", drawn, "seed S; to repeat: --nasty=S"},
		{[]string{"--nasty=random"}, "", drawn, "seed S; to repeat: --nasty=S"},
		{[]string{"--nasty=7"}, "", "7", "seed 7; to repeat: --nasty=7"},
		{[]string{"--nasty=seed=0x10", "--check"}, "wrong", "16", "seed 16; to repeat: --nasty=16"},
		{[]string{"--nasty=seed=7,without=cm,without=late", "--explain"}, "", "7,without=late,without=cm", "seed 7 without late, cm; to repeat: --nasty=7,without=late,without=cm"},
		{[]string{"--nasty=without=cm", "--fault", "drop"}, "", drawn + ",without=cm", "seed S without cm; to repeat: --nasty=S,without=cm"},
		{[]string{"--nasty=random,without=cm"}, "", drawn + ",without=cm", "seed S without cm; to repeat: --nasty=S,without=cm"},
	} {
		t.Setenv("SOFTHCA_NASTY", c.env)
		state, out, errs := i.run(t, append(slices.Clone(c.args), "--addr", loopback(63), "--", "sh", "-c", "echo $SOFTHCA_NASTY")...)
		out = strings.TrimSuffix(out, "\n")
		if !state.Success() || !regexp.MustCompile("^"+c.got+"$").MatchString(out) {
			t.Errorf("run %q with %q: the program gets %q, want %s\n%s", c.args, c.env, out, c.got, errs)
		}
		seed, _, _ := strings.Cut(out, ",")
		want := fmt.Sprintf("softhca: nasty: %s\n", strings.ReplaceAll(c.print, "S", seed))
		if c.print == "" && strings.Contains(errs, "nasty") || c.print != "" && strings.Count(errs, want) != 1 {
			t.Errorf("run %q with %q prints %q, want %q", c.args, c.env, errs, want)
		}
	}
}

// TestRunNastyOptions checks what is said about wrong choices.
func TestRunNastyOptions(t *testing.T) {
	i := install(t)
	all := "seed=7"
	for _, name := range strings.Split("late, order, events, placement, losses, rnr, delays, cm, numbers, sizes", ", ") {
		all += ",without=" + name
	}
	for _, c := range []struct {
		env  string
		args []string
		errs string
	}{
		{"", []string{"--nasty="}, "--nasty is empty"},
		{"", []string{"--nasty=7,without=plaecment"}, `there is no behaviour "plaecment" (late, order, events, placement, `},
		{"", []string{"--nasty=7,8"}, `--nasty "7,8": a second seed; want SEED`},
		{"", []string{"--nasty=0"}, `the seed "0" is no number of at least 1`},
		{"", []string{"--nasty=bad"}, `--nasty "bad": the seed "bad" is no number of at least 1`},
		{"", []string{"--nasty=7,with=cm"}, `there is no "with"`},
		{"", []string{"--" + "nasty=" + all}, "leaves every behaviour out"},
		{"", []string{"--nasty", "7"}, "there is no program 7: write --nasty=7, with ="},
		{"", []string{"--nasty", "without=cm"}, "there is no program without=cm: write --nasty=without=cm, with ="},
		{"without=cm", nil, `SOFTHCA_NASTY "without=cm": the seed is missing`},
		{"7,without=x", nil, `SOFTHCA_NASTY "7,without=x": there is no behaviour "x" (late, `},
	} {
		t.Setenv("SOFTHCA_NASTY", c.env)
		state, out, errs := i.run(t, append(slices.Clone(c.args), "--", "echo", "ran")...)
		if state.ExitCode() != 125 || out != "" || !strings.Contains(errs, c.errs) {
			t.Errorf("run %q with %q: exit code %d, %q\n%s", c.args, c.env, state.ExitCode(), out, errs)
		}
	}
}
