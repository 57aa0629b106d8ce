package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   series
		want spread
	}{
		{series{3}, spread{3, 3, 3}},
		{series{5, 1, 3}, spread{3, 1, 5}},
		{series{4, 1, 2, 9}, spread{3, 1, 9}},
	} {
		if got := c.in.spread(); got != c.want {
			t.Errorf("%v: spread is %+v, want %+v", c.in, got, c.want)
		}
	}
	if got := (series{6, 1}).over(series{3, 2}); got[0] != 2 || got[1] != 0.5 {
		t.Errorf("ratios of the rounds are %v, want [2 0.5]", got)
	}
}

// crowded is the measurement whose target is no ratio.
const crowded = "WRITE 4 KiB, 1000 QPs, receive buffer 208 KiB"

// TestCrowdedTarget checks that a timeout misses the target at any rate.
func TestCrowdedTarget(t *testing.T) {
	for _, m := range measurements() {
		if m.name == crowded {
			if m.target.met(&result{Timeouts: 1}) || !m.target.met(&result{}) {
				t.Errorf("%q is met with timeouts, or not without", m.target.text)
			}
			return
		}
	}
	t.Error("it is not measured")
}

// TestMeasurements checks that each name occurs once, each measurement has a
// reference, and no command is empty.
func TestMeasurements(t *testing.T) {
	for _, all := range [][]measurement{measurements(), programMeasurements()} {
		checkMeasurements(t, all)
	}
}

func checkMeasurements(t *testing.T, all []measurement) {
	p := programs{baseline: "/x/baseline", softhca: "/x/softhca", seconds: 1}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] || m.reference.name == "" {
			t.Errorf("%q is there twice, or has no reference", m.name)
		}
		seen[m.name] = true
		own := told(p.command(&m.own, m.loss.share))
		if !strings.Contains(own, "softhca ") {
			t.Errorf("%s: measured by %q", m.name, own)
		}
		if strings.HasPrefix(own, "softhca ") && !strings.Contains(own, " --wire ") {
			t.Errorf("%s: %q does not say that packets take UDP", m.name, own)
		}
		if reference := told(p.command(&m.reference, m.loss.share)); reference == "" && m.reference.run != runConstant {
			t.Errorf("%s: no reference", m.name)
		}
	}
	if cmd := program(t.Context(), []string{"/x/softhca"}); cmd.Env[len(cmd.Env)-1] != "SOFTHCA_WIRE=udp" {
		t.Errorf("the environment of programs is %q", cmd.Env)
	}
	var text strings.Builder
	if err := list(&text, all); err != nil || strings.Count(text.String(), "\n") != len(seen) {
		t.Errorf("the list of %d is (%v):\n%s", len(seen), err, text.String())
	}
}

// TestTargets checks each target with values that meet it and values that miss
// it.
func TestTargets(t *testing.T) {
	type verdict struct {
		value, ratio float64
		met          bool
	}
	want := map[string][]verdict{
		"WRITE 1 MiB, PMTU 4096, 1 QP":               {{15, 0.6, true}, {99, 0.59, false}},
		"WRITE 64 B, one a post":                     {{1.5, 0.1, true}, {0.1, 0.5, true}, {1.4, 0.49, false}},
		"WRITE 64 KiB, 2 QPs, fairness":              {{0.8, 0.8, true}, {0.79, 0.79, false}},
		"WRITE 1 MiB, 0.1 % lost each way":           {{1, 0.85, true}, {99, 0.84, false}},
		"SEND 1 MiB, 0.1 % lost each way":            {{1, 0.85, true}, {99, 0.84, false}},
		"READ 1 MiB, 0.1 % lost each way":            {{1, 0.85, true}, {99, 0.84, false}},
		"WRITE 1 MiB, 1 % lost each way":             {{1, 0.5, true}, {99, 0.49, false}},
		"SEND 1 MiB, 1 % lost each way":              {{1, 0.5, true}, {99, 0.49, false}},
		"READ 1 MiB, 1 % lost each way":              {{1, 0.5, true}, {99, 0.49, false}},
		"WRITE 1 MiB, veth, 0.1 % lost each way":     {{1, 0.9, true}, {99, 0.89, false}},
		"WRITE 1 MiB, veth, 1 % lost each way":       {{1, 0.9, true}, {99, 0.89, false}},
		"WRITE 1 MiB, veth, 5 % lost each way":       {{1, 0.9, true}, {99, 0.89, false}},
		"WRITE 64 B, 1 QP":                           {{1, 0.1, true}, {0.9, 0.15, true}, {0.99, 0.14, false}},
		"WRITE 8 B round trip":                       {{10, 2, true}, {1, 2.01, false}},
		"SEND 64 B round trip, both programs asleep": {{80, 1.5, true}, {1, 1.51, false}},
		"WRITE 1 MiB, addresses shared":              {{1, 0.95, true}, {99, 0.94, false}},
		"WRITE 64 B, addresses shared":               {{0.1, 0.95, true}, {9, 0.94, false}},
		"WRITE 8 B round trip, addresses shared":     {{99, 1.05, true}, {1, 1.06, false}},
	}
	for _, m := range paced() {
		want[m.name] = []verdict{{0.98, 0.98, true}, {1, 1, true}, {0.979, 0.979, false}, {1.01, 1.01, false}}
	}
	for _, m := range measurements() {
		if m.name == crowded {
			continue
		}
		if (m.target.met != nil) != (want[m.name] != nil) {
			t.Errorf("%s: has a target: %v, want %v", m.name, m.target.met != nil, want[m.name] != nil)
			continue
		}
		for _, v := range want[m.name] {
			x := result{Name: m.name, Softhca: spread{Median: v.value}, Ratio: spread{Median: v.ratio}}
			x.judge(m.target)
			r := report{Results: []result{x}}
			if *x.Met != v.met || (len(r.missed()) == 0) != v.met {
				t.Errorf("%s: %g with ratio %g meets %q: %v, want %v", m.name, v.value, v.ratio, x.Target, *x.Met, v.met)
			}
		}
	}
}

func TestReport(t *testing.T) {
	m := machine{CPU: "Example(R) CPU @ 2.00GHz", Cores: 2, OS: "linux", Kernel: "6.1", Go: "go1.26"}
	x := result{Name: "A", Unit: "Gb/s", Reference: "UDP", Baseline: spread{20, 19, 21}, Softhca: spread{10, 9, 11}, Ratio: spread{0.5, 0.45, 0.55}}
	x.judge(atLeast(0.6))
	r := report{Machine: m, Rounds: 3, Seconds: 2, Results: []result{
		x, {Name: "B", Skipped: "needs a moon"}, {Name: "C", Failed: "it fell"},
	}}
	if got := r.failed(); len(got) != 1 || got[0] != "C" {
		t.Errorf("%q failed, want C", got)
	}
	var text strings.Builder
	must.Do(t, r.print(&text))
	for _, part := range []string{"20 Gb/s (19-21)", "10 Gb/s (9-11)", "0.5 (0.45-0.55)", "MISSED", "3 rounds of 2 s", "UDP", "B: not measured: it needs a moon", "C: failed: it fell"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the table has no %q:\n%s", part, text.String())
		}
	}
	names, err := r.write(t.TempDir()+"/results", time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	must.Do(t, err)
	if len(names) != 1 || !strings.HasSuffix(names[0], "/results/2026-03-01-example-r-cpu-2-00ghz-2cores.json") {
		t.Errorf("the results are in %s", names)
	}
	b, err := os.ReadFile(names[0])
	must.Do(t, err)
	var back report
	if err := json.Unmarshal(b, &back); err != nil || back.Results[0].Softhca != x.Softhca || *back.Results[0].Met {
		t.Errorf("the file holds %s (%v)", b, err)
	}
}

func TestCPUModel(t *testing.T) {
	if name, ok := cpuModel([]byte("processor\t: 0\nmodel name\t: A B\n")); !ok || name != "A B" {
		t.Errorf("model is %q, %v", name, ok)
	}
	if name, ok := cpuModel([]byte("processor\t: 0\n")); ok {
		t.Errorf("a model %q where there is none", name)
	}
	if m := thisMachine(); m.CPU == "" || m.Cores < 1 || m.Kernel == "" || m.Go == "" {
		t.Errorf("this machine is %+v", m)
	}
}

func TestTripTime(t *testing.T) {
	const text = "128000 bytes in 0.05 seconds = 20.48 Mbit/sec\n1000 iters in 0.05 seconds = 50.25 usec/iter\n"
	if v, err := tripTime(text); v != 50.25 || err != nil {
		t.Errorf("%v, %v of what pingpong prints", v, err)
	}
	for _, none := range []string{"", "usec/iter", "fast usec/iter"} {
		if v, err := tripTime(none); err == nil {
			t.Errorf("%q is %v", none, v)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for why, o := range map[string]options{
		"no rounds": {rounds: 0, seconds: 1},
		"no time":   {rounds: 1, seconds: 0},
	} {
		if err := run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
	for _, o := range []options{{path: -1, rounds: 1, seconds: 1}, {path: 0.1}} {
		if err := do(t.Context(), o, []string{"WRITE"}); err == nil {
			t.Errorf("%+v takes an argument", o)
		}
	}
}

// TestRevision distinguishes a program from another file.
func TestRevision(t *testing.T) {
	self, err := os.Executable()
	must.Do(t, err)
	if r, err := revision(self); err != nil || r == "" {
		t.Errorf("of this test: %q, %v", r, err)
	}
	if _, err := revision("bench_test.go"); err == nil {
		t.Error("a source file is taken for a program")
	}
}

// TestPacedShare checks that the whole rate is a share of 1: 64 KiB in 16
// packets of 4096 bytes, whose IP packets have 45 bytes more each.
func TestPacedShare(t *testing.T) {
	for _, m := range paced() {
		if m.name != "RC WRITE 64 KiB, static rate 5 Gb/s" {
			continue
		}
		if got := m.own.of(&outcome{Gbps: 5 * 4096 / 4141.0}); got < 0.99999 || got > 1.00001 {
			t.Errorf("the share is %v", got)
		}
		return
	}
	t.Error("it is not measured")
}
