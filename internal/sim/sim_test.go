package sim

import (
	"flag"
	"strings"
	"testing"
)

var (
	flagSeed    = flag.Uint64("seed", 0, "run only this seed")
	flagProfile = flag.String("profile", "", "run only this profile")
	flagSeeds   = flag.Uint64("seeds", 20, "seeds of each profile")
)

// TestProfiles runs some seeds of every profile.
func TestProfiles(t *testing.T) {
	for _, name := range ProfileNames() {
		if *flagProfile != "" && name != *flagProfile {
			continue
		}
		t.Run(name, func(t *testing.T) {
			first, last := uint64(1), *flagSeeds
			if *flagSeed != 0 {
				first, last = *flagSeed, *flagSeed
			}
			for seed := first; seed <= last; seed++ {
				r, err := Run(Config{Seed: seed, Profile: name})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					t.Fatalf("seed %d (%s): %v\n%s", seed, r.Troubles, r.Violation, strings.Join(r.Ladder[max(0, len(r.Ladder)-40):], "\n"))
				}
			}
		})
	}
}
