//go:build !portable

package campaign

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
)

var (
	rounds = flag.Int("near-rounds", 1, "rounds of each test that kills, stops, replaces or forks a process")
	crowd  = flag.Int("near-crowd", 8, "processes that all meet each other; each pair takes 2 MiB of memory")
	seed   = flag.Uint64("near-seed", 0, "seed of everything random; 0 draws one")
)

// role is the variable of the environment that makes the test binary the other process of a test.
const role = "SOFTHCA_TEST_CAMPAIGN"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "the other process:", err)
		os.Exit(1)
	}
}

// draw returns the source of what is random in a test, and prints its seed.
func draw(t testing.TB) *rand.Rand {
	n := *seed
	if n == 0 {
		n = rand.Uint64()>>1 + 1
	}
	t.Logf("-near-seed %d", n)
	return rand.New(rand.NewPCG(n, 0))
}

var addresses atomic.Uint32

// loopback returns an address that no other test uses.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&63, pid&255, addresses.Add(1)%250+1)
}
