package nasty

import (
	"math/rand/v2"
	"time"
)

// Dice makes the random choices of one adapter. Each behaviour has its own sequence, so leaving
// one out does not change the others, except that order and events choose when completions enter if
// late completions are left out. A nil Dice has no behaviour. One goroutine at a time may
// use a behaviour.
type Dice struct{ rolls [NumParts]*rand.Rand }

// New returns the dice of an adapter, counted from 0, of a process; nil if the Config is zero.
func (c Config) New(adapter int) *Dice {
	if c.Seed == 0 {
		return nil
	}
	d := new(Dice)
	for p := range NumParts {
		if !c.Without[p] {
			d.rolls[p] = rand.New(rand.NewPCG(c.Seed, uint64(adapter)<<8|uint64(p)))
		}
	}
	return d
}

// Has reports whether the adapter has a behaviour.
func (d *Dice) Has(p Part) bool { return d != nil && d.rolls[p] != nil }

// OneIn reports true once in n times on average; never without the behaviour.
func (d *Dice) OneIn(p Part, n int) bool { return d.Has(p) && d.rolls[p].IntN(n) == 0 }

// IntN returns a number from 0 to n-1. The adapter has the behaviour.
func (d *Dice) IntN(p Part, n int) int { return d.rolls[p].IntN(n) }

// Time returns a time up to limit, more often a short one. The adapter has the behaviour.
func (d *Dice) Time(p Part, limit time.Duration) time.Duration {
	x := d.rolls[p].Float64()
	return time.Duration(x * x * float64(limit))
}
