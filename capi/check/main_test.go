//go:build linux

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// names returns the names of the cases that run in a suite.
func names(t *testing.T, suite string) []string {
	t.Helper()
	c := &checker{list: true, suite: suite}
	must.Do(t, c.all(t.Context()))
	return c.names
}

// TestEveryPairRunsOnOneAddressToo checks that each case with two processes runs between two
// addresses and on one, on the host and in the roots. Cases with one process, and cases that
// are skipped without being tried, have one name only.
func TestEveryPairRunsOnOneAddressToo(t *testing.T) {
	var single []string
	for _, p := range alone {
		single = append(single, p.name)
	}
	for _, p := range tests() {
		if p.Skip != "" {
			single = append(single, p.Name)
		}
	}
	for _, m := range slices.Concat(meetings, overDAPL(), tcp) {
		if m.skip != "" {
			single = append(single, m.client)
		}
	}
	for _, suite := range append([]string{host}, rootSuites...) {
		all := names(t, suite)
		pairs := 0
		for _, name := range all {
			if two, one := strings.CutSuffix(name, onOne); one {
				pairs++
				if !slices.Contains(all, two) {
					t.Errorf("%s: %q does not run between two addresses", suite, two)
				}
			} else if !slices.Contains(all, name+onOne) && !slices.Contains(single, name) &&
				name != "rdma-core's unit tests" && !strings.Contains(name, "AllocPD") {
				t.Errorf("%s: %q does not run on one address", suite, name)
			}
		}
		if pairs < 40 {
			t.Errorf("%s: %d pairs", suite, pairs)
		}
	}
}

// TestCoreHasEveryWayToWait: the core has programs that poll memory, programs that poll
// completions and programs that sleep until an event, of several packages.
func TestCoreHasEveryWayToWait(t *testing.T) {
	core := names(t, "trixie")
	for _, name := range []string{
		"ib_write_lat -n 500 -F", "qperf -cm 1 -t 1 SERVER rc_rdma_write_poll_lat", // memory
		"ib_send_lat -n 500 -F", "ibv_rc_pingpong", "ib_write_bw -n 500 -F", "UCX_TLS=rc_v ucx_perftest -t tag_lat", // completions
		"ib_send_lat -n 500 -e -F", "ibv_rc_pingpong -e", "rping -c -C 100 -v -a SERVER", "UCX_TLS=rc_v ucx_perftest -t tag_lat -E sleep -I", // events
	} {
		for _, n := range []string{name, name + onOne} {
			if !slices.Contains(core, n) {
				t.Errorf("the core lacks %q", n)
			}
		}
	}
	if n := len(names(t, host)); len(core) > n/2 {
		t.Errorf("the core has %d of %d cases", len(core), n)
	}
}

// TestGateCases: each case of the gate exists, in the section of its package, and the gate installs
// the packages of its cases and no others.
func TestGateCases(t *testing.T) {
	all := names(t, host)
	for pkg, cases := range gatePrograms {
		if programs[pkg] == "" {
			t.Errorf("%s is not among the packages of the programs", pkg)
		}
		for _, name := range cases {
			if !slices.Contains(all, name) {
				t.Errorf("no case is called %q", name)
			}
		}
	}
	got := slices.Sorted(maps.Keys(needed([]string{host}, true)))
	want := slices.Sorted(maps.Keys(gatePrograms))
	want = append(want, slices.Collect(maps.Keys(builders))...)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the gate installs %q, want %q", got, want)
	}
}
