package storm

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/sim/run"
)

// The streams of random numbers of a run. Each is independent of the others,
// so that leaving out an action changes as little as possible.
const (
	streamPlan = 1
	streamNet  = 2
	streamHost = 1 << 40
	streamSide = 1 << 48
)

// world is one run.
type world struct {
	cfg    run.Config
	plan   plan
	now    clock.Instant
	net    network
	hosts  []*host
	byAddr map[netip.Addr]*host
	sides  map[uint64]*side    // all sides ever created, by number
	tasks  deadline.Heap[task] // future actions of programs

	dice    run.Dice
	acted   int // actions done or left out
	nextAct clock.Instant
	healed  clock.Instant // time when the network healed; Never: not yet

	violation   *run.Violation
	ladder      ladder
	marks       [numMarks]uint64
	cells       cells
	before      []where // scratch
	packets     uint64
	posted      uint64
	serials     uint64 // number of REQs and REPs that named a queue pair
	completions uint64
}

// Run makes one run.
func Run(c run.Config) *run.Result {
	w := newWorld(c)
	w.run()
	r := &run.Result{
		Troubles: w.plan.about, Packets: w.packets, Posted: w.posted, Completions: w.completions,
		Virtual: time.Duration(w.now), Marks: w.marks[:], Cells: w.cells.list(), Violation: w.violation,
	}
	if w.violation != nil {
		r.Ladder = w.ladder.lines()
	}
	return r
}

func newWorld(c run.Config) *world {
	w := &world{
		cfg: c, plan: newPlan(c.Seed), byAddr: make(map[netip.Addr]*host), sides: make(map[uint64]*side),
		dice: run.NewDice(c.Seed), healed: clock.Never,
		tasks: deadline.New(func(t *task) *deadline.Link { return &t.time }),
	}
	w.net.init(w.plan.net, c.Seed)
	w.ladder.init(max(c.Ladder, 1))
	return w
}

// run makes the run. A panic of the engine is a violation like any other.
func (w *world) run() {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v\n%s", p, debug.Stack())
		}
	}()
	w.setUp()
	for w.violation == nil && w.acted < w.cfg.Ops {
		w.step(clock.Never)
	}
	w.settle()
}

func (w *world) setUp() {
	for i := range w.plan.hosts {
		h := &host{w: w, index: i, addrs: [2]netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}),
		}}
		for _, a := range h.addrs {
			w.byAddr[a] = h
		}
		w.hosts = append(w.hosts, h)
		h.open()
	}
}

// step executes the next event: a packet arrives, a timer fires, or a program
// acts or decides. It reports whether there was one by the limit.
func (w *world) step(limit clock.Instant) bool {
	at := w.net.flight.Next()
	var timer *host
	for _, h := range w.hosts {
		if h.deadline < at {
			at, timer = h.deadline, h
		}
	}
	thinking, acting := w.tasks.Next() <= at, false
	if thinking {
		at = w.tasks.Next()
	}
	if w.acted < w.cfg.Ops && w.nextAct <= at {
		at, acting = w.nextAct, true
	}
	if at > limit || at == clock.Never {
		return false
	}
	w.now = max(w.now, at)
	switch {
	case acting:
		w.takeTurn()
	case thinking:
		w.tasks.Due(w.now).run()
	case timer != nil:
		timer.advance()
	default:
		p := w.net.flight.Due(w.now)
		p.to.receive(p)
		w.net.release(p)
	}
	return true
}

// fail records the first violation; the run ends with it.
func (w *world) fail(check, format string, args ...any) {
	if w.violation != nil {
		return
	}
	w.violation = &run.Violation{
		Check: check, Detail: fmt.Sprintf(format, args...), Action: w.acted - 1, At: time.Duration(w.now),
	}
	w.sayf("VIOLATION %s: %s", check, w.violation.Detail)
}

// task is a delayed action of a program on a side. It is skipped if the side's
// phase has changed by then.
type task struct {
	time deadline.Link
	side *side
	turn uint64
	do   func(*side)
}

// after schedules an action of a side's program. With a time of 0 it runs after
// the adapter's current work.
func (s *side) after(d time.Duration, do func(*side)) {
	w := s.host.w
	w.tasks.Set(&task{side: s, turn: s.turn, do: do}, w.now.Add(d))
}

// run does the task.
func (t *task) run() {
	if s := t.side; s.alive() && s.turn == t.turn {
		t.do(s)
		s.host.pump()
	}
}
