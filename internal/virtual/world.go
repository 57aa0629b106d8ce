package virtual

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
)

// World is a run in progress. A simulation embeds it.
type World struct {
	Config    Config
	Now       clock.Instant
	Net       Network
	Adapters  []*Adapter // by index
	Violation *Violation

	dice
	Acted int           // actions done or left out
	Gap   time.Duration // mean time between actions
	next  clock.Instant // time of the next action
	tasks deadline.Heap[task]

	Packets, Posted, Completions uint64

	marks  []string // names of the situations that are counted
	counts []uint64
	byAddr map[netip.Addr]*Adapter
	lines  []string
}

// Programs are the programs and checks of a simulation, for Step.
type Programs interface {
	// Act is called for each action. If it is left out, only checks run.
	Act(i int, leftOut bool)
	// Receive passes a packet that has arrived to its adapter.
	Receive(*Packet)
	// Advance fires the timers of an adapter that are due.
	Advance(*Adapter)
}

// Init prepares a world for a run.
func (w *World) Init(c Config, faults Faults) {
	w.Config, w.dice = c, newDice(c.Seed)
	w.byAddr = make(map[netip.Addr]*Adapter)
	w.tasks = deadline.New(func(t *task) *deadline.Link { return &t.time })
	w.Net.init(c.Seed, faults)
}

func (w *World) world() *World { return w }

// Count makes the result count situations with names.
func (w *World) Count(names []string) { w.marks, w.counts = names, make([]uint64, len(names)) }

// Mark counts a situation. An empty name means that there is none.
func (w *World) Mark(name string) { w.MarkTimes(name, 1) }

// MarkTimes counts a situation n times.
func (w *World) MarkTimes(name string, n uint64) {
	if name == "" {
		return
	}
	i := slices.Index(w.marks, name)
	if i < 0 {
		panic("virtual: no mark " + name)
	}
	w.counts[i] += n
}

// Add adds an adapter with addresses. It is not open.
func (w *World) Add(addrs ...netip.Addr) *Adapter {
	a := &Adapter{Index: len(w.Adapters), Addrs: addrs, Deadline: clock.Never}
	w.Adapters = append(w.Adapters, a)
	for _, addr := range addrs {
		w.byAddr[addr] = a
	}
	return a
}

// At returns the adapter with an address; nil if there is none.
func (w *World) At(addr netip.Addr) *Adapter { return w.byAddr[addr] }

// Close ends an adapter whose other objects are destroyed: nothing may be left.
func (w *World) Close(a *Adapter) {
	if err := a.PD.Dealloc(); err != nil {
		w.Fail("leak", "adapter %d: %v", a.Index, err)
	}
	if at, pending := a.HCA.Shard().Deadline(), a.HCA.Single().Pending(); at != clock.Never || pending {
		w.Fail("leak", "adapter %d, which holds nothing, has a timer at %v, pending %v", a.Index, at, pending)
	}
}

// Step executes the next event: a program acts, a task is due, a packet
// arrives, or a timer fires. Events at the same time happen in this order. Step
// reports whether there was an event by the limit.
func (w *World) Step(p Programs, limit clock.Instant) bool {
	at := w.Net.flight.Next()
	var timer *Adapter
	for _, a := range w.Adapters {
		if a.Deadline < at {
			at, timer = a.Deadline, a
		}
	}
	tasks := w.tasks.Next() <= at
	if tasks {
		at = w.tasks.Next()
	}
	acting := w.Acted < w.Config.Ops && w.next <= at
	if acting {
		at = w.next
	}
	if at > limit || at == clock.Never {
		return false
	}
	w.Now = max(w.Now, at)
	switch {
	case acting:
		w.act(p)
	case tasks:
		w.tasks.Due(w.Now).do()
	case timer != nil:
		p.Advance(timer)
	default:
		w.Deliver(p.Receive)
	}
	return true
}

// Deliver passes the next packet that has arrived to receive, and reports
// whether there was one. The packet is valid during the call.
func (w *World) Deliver(receive func(*Packet)) bool {
	p := w.Net.flight.Due(w.Now)
	if p != nil {
		receive(p)
		w.Net.free = append(w.Net.free, p)
	}
	return p != nil
}

// act makes the programs act, and schedules their next action.
func (w *World) act(p Programs) {
	i := w.Acted
	w.Acted++
	gap := w.turn(i, w.Gap)
	p.Act(i, w.Config.Skip[i])
	w.next = w.Now.Add(gap)
}

// StepAll executes events until all actions are done, or a check fails.
func (w *World) StepAll(p Programs) {
	for w.Violation == nil && w.Acted < w.Config.Ops {
		w.Step(p, clock.Never)
	}
}

// task is a future action of a program.
type task struct {
	time deadline.Link
	do   func()
}

// After schedules a task. With a time of 0 it runs after the current event.
func (w *World) After(d time.Duration, do func()) { w.tasks.Set(&task{do: do}, w.Now.Add(d)) }

// Tasks is the number of scheduled tasks.
func (w *World) Tasks() int { return w.tasks.Len() }

// Fail records the first violation; the run ends with it.
func (w *World) Fail(check, format string, args ...any) {
	if w.Violation == nil {
		w.Violation = &Violation{Check: check, Detail: fmt.Sprintf(format, args...), Action: w.Acted - 1, At: time.Duration(w.Now)}
		w.Say(Nobody, "VIOLATION %s: %s", check, w.Violation.Detail)
	}
}

// Must fails the run if a call fails that must succeed.
func (w *World) Must(err error) {
	if err != nil {
		w.Fail("post", "a call that should work: %v", err)
	}
}

// Nobody is the adapter number of a line about the whole world, such as the network.
const Nobody = -1

// Telling reports whether lines are kept or written.
func (w *World) Telling() bool { return w.Config.Trace != nil || w.Config.record }

// Say records what happened at an adapter.
func (w *World) Say(adapter int, format string, args ...any) {
	if !w.Telling() {
		return
	}
	who := ""
	if adapter != Nobody {
		who = fmt.Sprint(adapter)
	}
	line := fmt.Sprintf("%14v %2s %s", time.Duration(w.Now), who, fmt.Sprintf(format, args...))
	if w.Config.Trace != nil {
		_, _ = fmt.Fprintln(w.Config.Trace, line) // a failure to write the trace does not stop the run
	}
	if w.lines = append(w.lines, line); len(w.lines) > 2*w.Config.Ladder {
		w.lines = append([]string(nil), w.lines[len(w.lines)-w.Config.Ladder:]...)
	}
}
