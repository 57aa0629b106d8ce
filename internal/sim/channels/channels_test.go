package channels

import (
	"flag"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/virtual"
)

var (
	flagSeed  = flag.Uint64("seed", 0, "run only this seed")
	flagSeeds = flag.Uint64("seeds", 60, "seeds")
)

const testOps = 300

// TestChannels runs some seeds, each of which must be clean; and all of them
// together must reach every counted situation.
func TestChannels(t *testing.T) {
	first, last := uint64(1), *flagSeeds
	if *flagSeed != 0 {
		first, last = *flagSeed, *flagSeed
	}
	marks := make([]uint64, len(markNames))
	var packets, completions uint64
	for seed := first; seed <= last; seed++ {
		r := virtual.Run(virtual.Config{Seed: seed, Ops: testOps, Ladder: 200}, Open)
		if v := r.Violation; v != nil {
			t.Fatalf("seed %d (%s): %s: %s, at %v after action %d\n%s", seed, r.Faults, v.Check, v.Detail, v.At, v.Action,
				strings.Join(r.Ladder[max(0, len(r.Ladder)-60):], "\n"))
		}
		for i, n := range r.Marks {
			marks[i] += n
		}
		packets, completions = packets+r.Packets, completions+r.Completions
	}
	t.Logf("seeds %d to %d: %d packets, %d completions", first, last, packets, completions)
	for i, n := range marks {
		t.Logf("%8d %s", n, markNames[i])
		if n == 0 && *flagSeed == 0 {
			t.Errorf("%s never happened", markNames[i])
		}
	}
}
