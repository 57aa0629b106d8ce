package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSimRunsSeeds(t *testing.T) {
	code, out, errs := command(t, "sim", "--seeds", "5..9", "--ops", "100")
	if code != exitOK || !strings.HasPrefix(out, "clean: 5 runs (profile mixed, 100 ops, seeds up to 9)") {
		t.Errorf("exit code %d, output %q, errors %q", code, out, errs)
	}
	for _, want := range []string{"packets/s/core", "situations", "Q3 modify"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestSimJSON(t *testing.T) {
	code, out, errs := command(t, "sim", "--seed", "3", "--profile", "loss", "--json")
	var got struct {
		Runs    uint64            `json:"runs"`
		Packets uint64            `json:"packets"`
		Profile string            `json:"profile"`
		PerCore float64           `json:"packets_per_second_per_core"`
		Marks   map[string]uint64 `json:"marks"`
	}
	if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, errors %q", code, err, errs)
	}
	if got.Runs != 1 || got.Packets == 0 || got.Profile != "loss" || got.PerCore <= 0 || got.Marks["Q3 modify"] == 0 {
		t.Errorf("%+v", got)
	}
}

func TestSimTraceIsTheSameEachTime(t *testing.T) {
	trace := func() string {
		_, out, _ := command(t, "sim", "--seed", "7", "--profile", "chaos", "--trace", "--ops", "60")
		events, _, found := strings.Cut(out, "\nclean: ")
		if !found {
			t.Fatalf("no result after the trace: %q", out[max(0, len(out)-200):])
		}
		return events
	}
	if one := trace(); one != trace() || strings.Count(one, "\n") < 100 {
		t.Errorf("a trace of %d lines, or another one the second time", strings.Count(one, "\n"))
	}
}

// TestSimConnect runs the profile that is a world of its own.
func TestSimConnect(t *testing.T) {
	code, out, errs := command(t, "sim", "--seeds", "1..4", "--profile", "connect")
	if code != exitOK || !strings.HasPrefix(out, "clean: 4 runs (profile connect, 400 ops, seeds up to 4)") {
		t.Errorf("exit code %d, output %q, errors %q", code, out, errs)
	}
	for _, want := range []string{"connections tried", "situations", "cells of the connection manager's state table"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	code, out, errs = command(t, "sim", "--seed", "1", "--profile", "connect", "--json")
	var got struct {
		Marks map[string]uint64 `json:"marks"`
		Cells map[string]uint64 `json:"cells"`
	}
	if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, errors %q", code, err, errs)
	}
	if got.Marks["connections tried"] == 0 || got.Cells["REQ_SENT: REP"] == 0 {
		t.Errorf("%+v", got)
	}
}

func TestSimStopsAtPackets(t *testing.T) {
	code, out, _ := command(t, "sim", "--packets", "3000", "--jobs", "1", "--profile", "clean")
	if code != exitOK || !strings.HasPrefix(out, "clean: ") {
		t.Fatalf("exit code %d, output %q", code, out)
	}
}

func TestSimRefuses(t *testing.T) {
	for _, args := range []string{
		"--seeds 9..5", "--seeds x", "--seeds 1..x", "--seed 1 --seeds 1..2", "--profile nonsense", "--ops 0", "--jobs 0",
		"--seed 0", "--seeds 0..5", "--trace", "--loss-ratio 1", "--for -1s", "--only 3", "--fault drop", "now",
	} {
		if code, out, errs := command(t, append([]string{"sim"}, strings.Fields(args)...)...); code == exitOK || out != "" || errs == "" {
			t.Errorf("sim %s: exit code %d, output %q, errors %q", args, code, out, errs)
		}
	}
}

func TestParseSeeds(t *testing.T) {
	for s, want := range map[string][2]uint64{"1..1000": {1, 1000}, "7": {7, 7}, "5..": {5, 0}, "0..0": {}} {
		first, last, err := parseSeeds(s)
		if bad := s == "0..0"; bad != (err != nil) || !bad && [2]uint64{first, last} != want {
			t.Errorf("%q: %d to %d, %v", s, first, last, err)
		}
	}
}
