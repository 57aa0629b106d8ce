//go:build linux && cgo

package test

import (
	"cmp"
	"flag"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
)

var (
	modelSeed  = flag.Int("model-seed", 0, "run the model test with this seed alone; 0 runs those of the gate")
	modelSteps = flag.Int("model-steps", 0, "steps of each thread of the model test; 0 takes as many as the gate does")
	modelHang  = flag.Int("model-hang", 20, "seconds without a step after which the model test says that a thread hangs")
)

// modelRun says how the model test runs on a variant: one process for each seed.
type modelRun struct {
	name    string
	variant variant
	preload bool // with the preload library, as softhca run loads it
	seeds   []int
	steps   int
}

// Half of the CPU time of this test is spent compiling the program with the sanitizers.
var modelRuns = []modelRun{
	{name: "plain", variant: plain, seeds: []int{1, 2, 3, 4, 5, 6}, steps: 600},
	{name: "preloaded", variant: plain, preload: true, seeds: []int{7, 8}, steps: 300},
	{name: "sanitized", variant: sanitized, seeds: []int{9, 10, 11}, steps: 300},
}

// TestD1_Model runs threads that make random calls of the library, and compares the results of
// the calls, and all deliveries, with a model.
func TestD1_Model(t *testing.T) {
	b := newBuilds(t, "model", modelRuns[0].variant, sanitized)
	for _, r := range modelRuns {
		t.Run(r.name, func(t *testing.T) {
			s := &stand{builds: b, variant: r.variant}
			if why := s.missing(); why != "" {
				t.Skip(why) // a tool for developers is missing
			}
			var env []string
			if r.preload {
				env = append(env, "LD_PRELOAD="+filepath.Join(b.dir, libraries.Preload))
			}
			if *modelSeed != 0 {
				r.seeds = []int{*modelSeed}
			}
			for _, seed := range r.seeds {
				s.passModel(t, seed, cmp.Or(*modelSteps, r.steps), env...)
			}
		})
	}
}

// passModel runs the model's program, with two adapters.
func (s *stand) passModel(t *testing.T, seed, steps int, env ...string) {
	t.Helper()
	args := []string{"-seed", strconv.Itoa(seed), "-steps", strconv.Itoa(steps), "-hang", strconv.Itoa(*modelHang)}
	env = append(env, "SOFTHCA_ADDR="+strings.ReplaceAll(s.addresses(2), ",", ";"))
	if out, err := s.runArgs(t, args, env...); err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%v\n%s", err, out)
		t.Logf("again with: -run '^%s$' -model-seed %d -model-steps %d", t.Name(), seed, steps)
	}
}
