package storm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/virtual"
)

// The streams of random numbers of a run. Each is independent of the others,
// so that leaving out an action changes as little as possible.
const (
	streamPlan = 1
	streamHost = 1 << 40
	streamSide = 1 << 48
)

// world is one run.
type world struct {
	virtual.World
	plan  plan
	hosts []*host
	sides map[uint64]*side // all sides ever created, by number

	loss  float64           // share of packets that are lost
	cut   virtual.Cuts[way] // ways on which nothing arrives
	burst clock.Instant     // until which nothing arrives at all

	cells   cells
	before  []where // scratch
	serials uint64  // number of REQs and REPs that named a queue pair
}

// Open returns a run to make.
func Open(c virtual.Config) virtual.Simulation { return newWorld(c) }

func newWorld(c virtual.Config) *world {
	w := &world{plan: newPlan(c.Seed), sides: make(map[uint64]*side), cut: make(virtual.Cuts[way])}
	w.Init(c, w.plan.net)
	w.Count(markNames[:])
	w.Gap, w.loss = w.plan.gap, w.plan.loss
	return w
}

// Simulate makes the run.
func (w *world) Simulate() {
	w.setUp()
	w.StepAll(w)
	w.settle()
}

// Report adds the faults and cells to the result.
func (w *world) Report(r *virtual.Result) {
	r.Faults, r.Cells = w.plan.about, w.cells.list()
}

func (w *world) setUp() {
	for i := range w.plan.hosts {
		h := &host{w: w, Adapter: w.Add(
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}),
		)}
		w.hosts = append(w.hosts, h)
		h.open()
	}
}

// Act does an action.
func (w *world) Act(i int, leftOut bool) {
	if !leftOut {
		w.doAction(i)
	}
}

// Receive passes an arrived packet to its adapter.
func (w *world) Receive(p *virtual.Packet) { w.hosts[p.To.Index].receive(p) }

// Advance fires the timers of an adapter.
func (w *world) Advance(a *virtual.Adapter) { w.hosts[a.Index].advance() }

// tell records an event or a call of a side.
func (w *world) tell(s *side, what string, name fmt.Stringer) {
	if w.Telling() {
		w.Say(s.host.Index, "%s %s %v", s, what, name)
	}
}
