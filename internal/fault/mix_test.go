package fault

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// ingredients are rules that the mixture is made of; those from hurts on make
// packets arrive changed.
var ingredients = [...]string{
	"drop p=0.2", "drop every=3 count=5", "drop nth=4", "dup p=0.3", "dup every=2", "delay 3ms p=0.3", "delay 1ms every=5",
	"reorder p=0.4", "reorder every=2 by=2", "rate 5000packets/s queue=20", "rate 1Mbit/s queue=3", "partition after=5ms for=5ms",
	"corrupt p=0.2", "corrupt byte=-1 every=4", "corrupt bit=99 p=0.5", "corrupt reseal p=0.2 byte=30", "truncate 40 p=0.2",
	"truncate 30 reseal p=0.1", "truncate 3 every=7",
}

const hurts = 12

// TestMixtures runs random mixtures of rules on random traffic both ways. With
// any rules, the port stays within its bounds and releases all held packets;
// and if no rule changes packets, all arriving ones are intact.
func TestMixtures(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var rules []string
		intact := true
		for range 1 + r.IntN(4) {
			i := r.IntN(len(ingredients))
			intact = intact && i < hurts
			rules = append(rules, ingredients[i]+" dir="+[...]string{"out", "in", "both"}[r.IntN(3)])
		}
		x := newBench(t, strings.Join(rules, ";"), r.IntN(2) == 0)
		what := fmt.Sprintf("seed %d, %v", seed, rules)
		for range 30 {
			x.now += clock.Instant(r.IntN(int(2 * time.Millisecond)))
			x.out(r.IntN(20))
			x.in(r.IntN(20))
			for _, got := range []string{x.arrived(x.far), x.arrived(x.port)} {
				if intact && strings.ContainsAny(got, "!?(") {
					t.Fatalf("%s: %s arrives", what, got)
				}
				if strings.Contains(got, "derivable") {
					t.Fatalf("%s: a damaged packet passes a receiver that cannot see identifications: %s", what, got)
				}
			}
		}
		x.now += clock.Instant(time.Hour)
		x.arrived(x.port)
		if n := x.port.leave.heap.Len() + x.port.arrive.heap.Len(); n != 0 || x.port.isLate() {
			t.Fatalf("%s: %d packets are held for ever", what, n)
		}
		for _, l := range x.port.rules {
			if l.waiting != 0 {
				t.Fatalf("%s: the queue of %s still holds %d", what, l.Text(), l.waiting)
			}
		}
	}
}
