package run

import (
	"math/rand/v2"
	"time"
)

// StreamAction and more are the streams of random numbers of the actions.
const StreamAction = 1 << 32

// Dice is the random source of the actions of a run. Each action has its own
// choices, so that leaving one out does not change others.
type Dice struct {
	*rand.Rand
	source *rand.PCG
	seed   uint64
}

// NewDice returns the dice of a run.
func NewDice(seed uint64) Dice {
	source := rand.NewPCG(0, 0)
	return Dice{rand.New(source), source, seed}
}

// Turn starts the choices of an action. It returns the time until the next action,
// less than twice the mean; this is drawn first, so it is the same if the action is
// left out.
func (d *Dice) Turn(action int, mean time.Duration) time.Duration {
	d.source.Seed(d.seed, StreamAction+uint64(action))
	return time.Duration(d.Int64N(int64(2 * mean)))
}
