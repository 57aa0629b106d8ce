package virtual

import (
	"math/rand/v2"
	"time"
)

// streamAction and more are the streams of random numbers of the actions.
const streamAction = 1 << 32

// dice is the random source of the actions of a run. Each action has its own
// choices, so that leaving one out does not change others.
type dice struct {
	Rand   *rand.Rand // of the current action
	source *rand.PCG
	seed   uint64
}

func newDice(seed uint64) dice {
	source := rand.NewPCG(0, 0)
	return dice{rand.New(source), source, seed}
}

// turn starts the choices of an action. It returns the time until the next action,
// less than twice the mean; this is drawn first, so it is the same if the action is
// left out.
func (d *dice) turn(action int, mean time.Duration) time.Duration {
	d.source.Seed(d.seed, streamAction+uint64(action))
	return time.Duration(d.Rand.Int64N(int64(2 * mean)))
}

// Draw draws an index by weight.
func Draw(r *rand.Rand, weights []int) int {
	sum := 0
	for _, n := range weights {
		sum += n
	}
	v := r.IntN(sum)
	for i, n := range weights {
		if v -= n; v < 0 {
			return i
		}
	}
	panic("virtual: weights do not add up")
}
