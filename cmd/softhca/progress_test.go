package main

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/sim"
)

// TestSimTellsHowFar has the total and what is left of it in the progress.
func TestSimTellsHowFar(t *testing.T) {
	for _, c := range []struct {
		flags    simFlags
		campaign sim.Campaign
		summary  sim.Summary
		want     string
	}{
		{simFlags{}, sim.Campaign{First: 1, Last: 1000}, sim.Summary{Runs: 250, Packets: 2e6, Elapsed: 10 * time.Second}, " 25 %, 10s, about 30s left, 250 of 1000 runs, 2.0 M packets, "},
		{simFlags{}, sim.Campaign{First: 5, Last: 5}, sim.Summary{Elapsed: 3 * time.Second}, "  0 %, 3s, 0 of 1 run, "},
		{simFlags{}, sim.Campaign{First: 1, Packets: 1e6}, sim.Summary{Runs: 7, Packets: 5e5, Elapsed: time.Minute}, " 50 %, 1m0s, about 1m0s left, 7 runs, 0.5 M packets, "},
		{simFlags{duration: time.Hour}, sim.Campaign{First: 1}, sim.Summary{Runs: 7, Elapsed: time.Minute}, "1m0s of 1h0m0s, 59m0s left, 7 runs, "},
		{simFlags{}, sim.Campaign{First: 3}, sim.Summary{Runs: 1, Elapsed: time.Minute}, "1m0s, 1 run, "},
	} {
		if got := c.flags.howFar(&c.campaign, &c.summary); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestProgress writes one line over the other on a terminal, and a line now and then elsewhere.
func TestProgress(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, columns: 10}
	p.end()
	p.show(time.Second, "quite a long line")
	p.show(2*time.Second, "line")
	p.end()
	if want := "\rquite a l\x1b[K\rline\x1b[K\r\x1b[K"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	p = newProgress(&out)
	for i := range 25 {
		p.show(time.Duration(i)*time.Second, "line")
	}
	p.end()
	if want := "line\nline\n"; out.String() != want {
		t.Errorf("in 24 seconds %q, want %q", out.String(), want)
	}
}
