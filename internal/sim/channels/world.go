package channels

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
)

// Streams of random numbers of a seed.
const (
	streamSetup  = 1
	streamAction = 3
)

// world is one run.
type world struct {
	virtual.World
	plan     plan
	nodes    []*node
	channels []*channel
	programs []*program
	works    map[uint64]*work
	nextID   uint64
	nextAct  clock.Instant
	pause    time.Duration // time before the programs' next action

	// quiet is the reason why the packet being delivered must have no effect;
	// empty: it may have one.
	quiet string
}

// plan holds the parameters that a seed draws.
type plan struct {
	nodes, programs, channels int
	mtu                       int
	loss, dup, late, damage   float64
	rnrRetry                  uint8 // 7 is unlimited
	pace                      time.Duration
	hold                      float64 // how often receives come late
	wild                      float64 // how often requests are bad
	unrest                    float64 // how often objects are moved, reset or destroyed
	roam                      float64 // how often paths are agreed on, left, and fail
	forgery                   float64 // how often strangers send
	shared                    bool    // half of the programs of an adapter share their receives
	inOrderOnly               bool
}

func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, streamSetup))
	some := func(p, most float64) float64 {
		if r.Float64() < p {
			return r.Float64() * most
		}
		return 0
	}
	p := plan{
		nodes: 2 + r.IntN(2), programs: 2 + r.IntN(5), channels: 1 + r.IntN(2), mtu: 1 + r.IntN(3),
		loss: some(.7, .08), dup: some(.6, .05), late: some(.6, .08), damage: some(.3, .03),
		rnrRetry: 7, pace: time.Duration(20+r.IntN(200)) * time.Microsecond,
		hold: some(.6, .6), wild: some(.6, .25), unrest: some(.6, .12), roam: some(.5, .15), forgery: some(.4, .1),
		shared: r.IntN(2) == 0, inOrderOnly: r.IntN(4) == 0,
	}
	if r.IntN(4) == 0 {
		p.rnrRetry = uint8(r.IntN(3))
	}
	return p
}

func (p *plan) String() string {
	return fmt.Sprintf("%d adapters, %d programs on each, %d channels between two, loss %.1f%%, repeated %.1f%%, late %.1f%%, damaged %.1f%%, "+
		"receives held %.0f%%, shared %v, bad requests %.0f%%, unrest %.0f%%, path changes %.0f%%, forgeries %.0f%%",
		p.nodes, p.programs, p.channels, 100*p.loss, 100*p.dup, 100*p.late, 100*p.damage,
		100*p.hold, p.shared, 100*p.wild, 100*p.unrest, 100*p.roam, 100*p.forgery)
}

// Open returns a run to make.
func Open(c virtual.Config) virtual.Simulation {
	w := &world{plan: newPlan(c.Seed), works: make(map[uint64]*work)}
	p := &w.plan
	w.Init(c, virtual.Faults{
		Odds: virtual.Odds{
			{Share: p.loss, Fate: virtual.Lost}, {Share: p.dup, Fate: virtual.Duplicated}, {Share: p.late, Fate: virtual.Delayed},
			{Share: p.damage, Fate: virtual.Damaged},
		},
		Latency: latency, Late: virtual.Delay{Usual: 300 * time.Microsecond, Long: lateness}, Damage: virtual.Damage{Bits: 1},
	})
	w.Count(markNames[:])
	return w
}

// Report adds the plan to the result.
func (w *world) Report(r *virtual.Result) { r.Faults = w.plan.String() }

// Simulate makes the run.
func (w *world) Simulate() {
	w.setUp()
	for w.Violation == nil && w.Acted < w.Config.Ops {
		w.step(w.nextAct)
		if w.Now < w.nextAct {
			continue
		}
		i := w.Acted
		w.Acted++
		if !w.Config.Skip[i] {
			w.act(rand.New(rand.NewPCG(w.Config.Seed, streamAction<<32+uint64(i))))
		}
		w.nextAct, w.pause = w.Now.Add(w.plan.pace+w.pause), 0
		w.turn()
		w.onTime()
	}
	w.settle()
}

// step advances to the next event, at most to latest.
func (w *world) step(latest clock.Instant) {
	at := min(latest, w.Net.Next())
	for _, n := range w.nodes {
		at = min(at, n.HCA.Single().Deadline())
	}
	w.Now = max(w.Now, at)
	for w.Deliver(w.arrive) {
	}
	for _, n := range w.nodes {
		if n.HCA.Single().Deadline() <= w.Now {
			n.HCA.Single().Advance(w.Now)
			n.poll()
		}
	}
	w.turn()
}

// maxTurns bounds the batches of one instant.
const maxTurns = 10_000

// turn lets every adapter transmit.
func (w *world) turn() {
	for _, n := range w.nodes {
		for k := 0; n.HCA.Single().Pending() && w.Violation == nil; k++ {
			n.Transmit(w.Now, func(run *fabric.Run) { w.carry(n, run) })
			n.poll()
			if k == maxTurns {
				w.Fail("liveness", "adapter %d does not stop sending", n.Index)
			}
		}
	}
}
