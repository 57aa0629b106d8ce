package channels

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/sim/run"
)

// Streams of random numbers of a seed.
const (
	streamSetup = iota + 1
	streamNet
	streamAction
)

// world is one run.
type world struct {
	cfg      run.Config
	now      clock.Instant
	plan     plan
	net      *rand.Rand
	healed   bool
	healedAt clock.Instant
	flight   deadline.Heap[packet]
	nodes    []*node
	byAddr   map[netip.Addr]*node
	channels []*channel
	programs []*program
	works    map[uint64]*work
	nextID   uint64
	acted    int
	nextAct  clock.Instant
	pause    time.Duration // time before the programs' next action

	packets, posted, completions uint64

	// quiet is the reason why the packet being delivered must have no effect;
	// empty: it may have one.
	quiet string

	marks     [numMarks]uint64
	violation *run.Violation
	telling   bool // events are recorded
	ladder    []string
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

// Run makes one run. A panic of the engine is a violation like any other. A
// failed run is repeated exactly, with its last events recorded; recording every
// run would take longer than the runs.
func Run(c run.Config) *run.Result {
	w := newWorld(c)
	w.run()
	r := &run.Result{
		Troubles: w.plan.String(), Packets: w.packets, Posted: w.posted, Completions: w.completions, Virtual: time.Duration(w.now),
		Marks: w.marks[:], Violation: w.violation,
	}
	if w.violation == nil || c.Ladder == 0 {
		return r
	}
	if !w.telling {
		w = newWorld(c)
		w.telling = true
		w.run()
	}
	r.Ladder = w.ladder
	return r
}

func newWorld(c run.Config) *world {
	return &world{
		cfg: c, plan: newPlan(c.Seed), net: rand.New(rand.NewPCG(c.Seed, streamNet)), byAddr: make(map[netip.Addr]*node),
		works: make(map[uint64]*work), flight: deadline.New(func(p *packet) *deadline.Link { return &p.arrival }),
		telling: c.Trace != nil,
	}
}

func (w *world) run() {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v\n%s", p, debug.Stack())
		}
	}()
	w.setUp()
	for w.violation == nil && w.acted < w.cfg.Ops {
		w.step(w.nextAct)
		if w.now < w.nextAct {
			continue
		}
		if !w.cfg.Skip[w.acted] {
			w.act(rand.New(rand.NewPCG(w.cfg.Seed, streamAction<<32+uint64(w.acted))))
		}
		w.acted++
		w.nextAct, w.pause = w.now.Add(w.plan.pace+w.pause), 0
		w.turn()
		w.onTime()
	}
	w.settle()
}

// fail records the first violation.
func (w *world) fail(check, format string, args ...any) {
	if w.violation == nil {
		w.violation = &run.Violation{Check: check, Detail: fmt.Sprintf(format, args...), Action: w.acted, At: time.Duration(w.now)}
		w.say("VIOLATION %s: %s", check, w.violation.Detail)
	}
}

// say adds a line to the ladder.
func (w *world) say(format string, args ...any) {
	if !w.telling {
		return
	}
	line := fmt.Sprintf("%10v  %s", time.Duration(w.now), fmt.Sprintf(format, args...))
	if w.cfg.Trace != nil {
		fmt.Fprintln(w.cfg.Trace, line)
	}
	if w.ladder = append(w.ladder, line); len(w.ladder) > 2*w.cfg.Ladder {
		w.ladder = append([]string(nil), w.ladder[len(w.ladder)-w.cfg.Ladder:]...)
	}
}

// step advances to the next event, at most to latest.
func (w *world) step(latest clock.Instant) {
	at := min(latest, w.flight.Next())
	for _, n := range w.nodes {
		at = min(at, n.hca.Shard().Deadline())
	}
	w.now = max(w.now, at)
	for p := w.flight.Due(w.now); p != nil; p = w.flight.Due(w.now) {
		w.arrive(p)
	}
	for _, n := range w.nodes {
		if n.hca.Shard().Deadline() <= w.now {
			n.hca.Shard().Advance(w.now)
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
		for k := 0; n.hca.Shard().Pending() && w.violation == nil; k++ {
			n.hca.Shard().Transmit(w.now, n.batch)
			for i := range n.batch.Pending() {
				w.carry(n, &n.batch.Pending()[i])
			}
			n.batch.Reset()
			n.poll()
			if k == maxTurns {
				w.fail("liveness", "adapter %d does not stop sending", n.index)
			}
		}
	}
}
