package churn

import (
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
)

var (
	objects = flag.Int("churn-objects", 1e6, "objects of each kind that a churn test creates; a twentieth with -short or the race detector")
	seed    = flag.Uint64("churn-seed", 1, "seed of the churn tests")
)

// Objects returns how many objects of each kind a test creates.
func Objects() int {
	if testing.Short() || raced() {
		return *objects / 20
	}
	return *objects
}

// raced reports whether the race detector is on, which makes tests ten times
// slower.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Rand returns a test's source of random numbers. A test that fails prints how
// to run it again.
func Rand(t testing.TB) *rand.Rand {
	t.Logf("again with: -run '^%s$' -churn-seed %d -churn-objects %d", t.Name(), *seed, *objects)
	return rand.New(rand.NewPCG(*seed, 0))
}

// Pool holds objects from which one is drawn at random.
type Pool[T any] struct{ All []T }

// Add puts an object in.
func (p *Pool[T]) Add(x T) { p.All = append(p.All, x) }

// Len returns the number of objects.
func (p *Pool[T]) Len() int { return len(p.All) }

// Pick returns one of the objects, of which there must be one.
func (p *Pool[T]) Pick(r *rand.Rand) T { return p.All[r.IntN(len(p.All))] }

// Take returns one of the objects and takes it out.
func (p *Pool[T]) Take(r *rand.Rand) T { return p.Drop(r.IntN(len(p.All))) }

// Drop takes out the object at an index and returns it. The last object takes
// its place.
func (p *Pool[T]) Drop(i int) T {
	x, last := p.All[i], len(p.All)-1
	p.All[i] = p.All[last]
	p.All = slices.Delete(p.All, last, last+1)
	return x
}

// Tide says whether the next step creates or destroys, so that the number of
// objects goes up and down between Least and Most.
type Tide struct {
	Least, Most int
	to          int
}

// Rises reports whether the next step creates an object, when there are n.
func (t *Tide) Rises(r *rand.Rand, n int) bool {
	if n == t.to || t.to == 0 {
		t.to = t.Least + r.IntN(t.Most-t.Least) + 1
	}
	switch against := r.IntN(8) == 0; {
	case n <= t.Least:
		return true
	case n >= t.Most:
		return false
	default:
		return n < t.to != against
	}
}
