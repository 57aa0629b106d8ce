package channels

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Config says what to run.
type Config struct {
	Seed uint64
	Ops  int // actions of the programs
	// Skip names actions, by their number from 0, that are left out.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace  io.Writer
	Ladder int // how many of the last lines a failed run keeps
}

// Result is what a run came to.
type Result struct {
	Troubles    string
	Packets     uint64
	Posted      uint64
	Completions uint64
	Virtual     time.Duration
	Marks       []uint64 // in the order of MarkNames
	Violation   *Violation
	Ladder      []string
}

// Violation is a promise that was not kept.
type Violation struct {
	Check  string
	Detail string
	Action int
	At     time.Duration
}

// Streams of random numbers of a seed.
const (
	streamSetup = iota + 1
	streamNet
	streamAction
)

// world is one run.
type world struct {
	cfg      Config
	now      clock.Instant
	plan     plan
	net      *rand.Rand
	healed   bool
	flight   deadline.Heap[packet]
	nodes    []*node
	byAddr   map[netip.Addr]*node
	channels []*channel
	programs []*program
	works    map[uint64]*work
	nextID   uint64
	acted    int
	nextAct  clock.Instant

	packets, posted, completions uint64

	marks     [numMarks]uint64
	violation *Violation
	ladder    []string
}

// plan is what a seed makes of a run.
type plan struct {
	nodes, programs, channels int
	mtu                       int
	loss, dup, late, damage   float64
	rnrRetry                  uint8 // 7 is for ever
	pace                      time.Duration
	hold                      float64 // how often receives come late
	wild                      float64 // how often requests are bad
	unrest                    float64 // how often objects are moved, reset or destroyed
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
		hold: some(.6, .6), wild: some(.6, .25), unrest: some(.6, .12), inOrderOnly: r.IntN(4) == 0,
	}
	if r.IntN(4) == 0 {
		p.rnrRetry = uint8(r.IntN(3))
	}
	return p
}

func (p *plan) String() string {
	return fmt.Sprintf("%d adapters, %d programs on each, %d channels between two, loss %.1f%%, repeated %.1f%%, late %.1f%%, damaged %.1f%%, "+
		"receives held %.0f%%, bad requests %.0f%%, unrest %.0f%%", p.nodes, p.programs, p.channels, 100*p.loss, 100*p.dup, 100*p.late, 100*p.damage,
		100*p.hold, 100*p.wild, 100*p.unrest)
}

// packet is a segment on its way.
type packet struct {
	arrival deadline.Link
	to      *node
	damaged bool
	d       fabric.Datagram
}

// Run makes one run. A panic of the engine is a violation like any other.
func Run(c Config) *Result {
	w := &world{
		cfg: c, plan: newPlan(c.Seed), net: rand.New(rand.NewPCG(c.Seed, streamNet)), byAddr: make(map[netip.Addr]*node),
		works: make(map[uint64]*work), flight: deadline.New(func(p *packet) *deadline.Link { return &p.arrival }),
	}
	w.run()
	r := &Result{
		Troubles: w.plan.String(), Packets: w.packets, Posted: w.posted, Completions: w.completions, Virtual: time.Duration(w.now),
		Marks: w.marks[:], Violation: w.violation,
	}
	if w.violation != nil {
		r.Ladder = w.ladder
	}
	return r
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
		w.nextAct = w.now.Add(w.plan.pace)
		w.turn()
	}
	w.settle()
}

// fail notes the first violation.
func (w *world) fail(check, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{check, fmt.Sprintf(format, args...), w.acted, time.Duration(w.now)}
		w.say("VIOLATION %s: %s", check, w.violation.Detail)
	}
}

// say adds a line to the ladder.
func (w *world) say(format string, args ...any) {
	if w.cfg.Ladder == 0 && w.cfg.Trace == nil {
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

// step goes on to the next thing that happens by itself, no later than an
// instant.
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

// turn lets every adapter send all that it may.
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

// carry takes a run that an adapter has sent.
func (w *world) carry(from *node, run *fabric.Run) {
	to := w.byAddr[run.Path.Dst]
	for i := range run.Count {
		seg := run.Segment(i)
		w.packets++
		w.sniff(from, seg)
		if to == nil {
			continue
		}
		v := w.net.Float64()
		if w.healed {
			v = 1
		}
		p := &w.plan
		switch {
		case v < p.loss:
			w.tell(from, "lost", seg)
		case v < p.loss+p.dup:
			w.ship(to, run, i, 0)
			w.ship(to, run, i, w.delay())
		case v < p.loss+p.dup+p.late:
			w.ship(to, run, i, w.delay())
		case v < p.loss+p.dup+p.late+p.damage:
			k := w.ship(to, run, i, 0)
			bit := w.net.IntN(8 * len(k.d.Bytes))
			if k.damaged = bit/8 != 4; k.damaged { // the ICRC does not cover byte 4
				k.d.Bytes[bit/8] ^= 1 << (bit % 8)
			}
		default:
			w.ship(to, run, i, 0)
		}
	}
}

// delay draws how much longer than others a packet takes.
func (w *world) delay() time.Duration {
	most := int64(300 * time.Microsecond)
	if w.net.IntN(20) == 0 {
		most = int64(10 * time.Millisecond)
	}
	return time.Duration(w.net.Int64N(most))
}

// latency is what every packet takes.
const latency = 5 * time.Microsecond

func (w *world) ship(to *node, run *fabric.Run, i int, delay time.Duration) *packet {
	p := &packet{to: to, d: fabric.Datagram{
		Bytes: append([]byte(nil), run.Segment(i)...), Src: run.Path.Src, Dst: run.Path.Dst, SrcPort: run.Path.SrcPort, DstPort: fabric.RoCEPort,
		ID: uint16(i), IDKnown: true, TClass: run.Path.TClass, HopLimit: run.Path.HopLimit,
	}}
	w.flight.Set(p, w.now.Add(latency+delay))
	return p
}

// arrive hands a packet to an adapter.
func (w *world) arrive(p *packet) {
	if p.damaged {
		w.tell(p.to, "gets damaged", p.d.Bytes)
	} else {
		w.tell(p.to, "gets", p.d.Bytes)
		w.heed(p.to, p.d.Bytes)
	}
	p.to.hca.Shard().Receive(w.now, &p.d)
	p.to.poll()
}

// tell notes what happens to a packet.
func (w *world) tell(n *node, what string, seg []byte) {
	if w.cfg.Ladder == 0 && w.cfg.Trace == nil {
		return
	}
	var p roce.Packet
	if p.Parse(seg) != roce.FaultNone {
		w.say("%d %s what is no packet", n.index, what)
		return
	}
	more := ""
	if p.Info.Headers&roce.HasAETH != 0 {
		more = " " + p.AETH.Syndrome.String()
	}
	w.say("%d %s %v psn %d eec %#x qp %v from %v%s len %d", n.index, what, p.BTH.Opcode, p.BTH.PSN.Value(), p.RDETH.EEC, p.BTH.DestQP, p.DETH.SrcQP, more, len(p.Payload))
}
