package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/sim/channels"
	"github.com/softhca/softhca/internal/sim/run"
	"github.com/softhca/softhca/internal/sim/storm"
)

// The streams of random numbers of a run. Each is independent of the others,
// so that leaving out an action changes as little as possible.
const (
	streamPlan  = 1
	streamNet   = 2
	streamSetup = 3
	streamMend  = 4
	streamKeys  = 1 << 40
	streamWays  = 1 << 41
)

// world is one run.
type world struct {
	cfg  Config
	plan plan
	now  clock.Instant
	net  network

	nodes  []*node
	byAddr map[netip.Addr]*node
	pairs  []*pair
	routes map[route]*end

	dice    run.Dice
	acted   int // actions done or left out
	nextAct clock.Instant

	text  []byte
	loose map[uint32]message // messages of UC and UD, by their position in the text
	wcs   []ib.WC
	ids   uint64

	over        bool // everything has settled
	violation   *run.Violation
	ladder      ladder
	marks       [numMarks]uint64
	did         [numActions]uint64
	packets     uint64
	posted      uint64
	completions uint64
}

// Result is the result of a run.
type Result struct {
	run.Result
	Seed    uint64
	Profile string
	Ops     int
}

// Run makes one run. The error is about the configuration; errors of the
// adapters are in the result.
func Run(c Config) (*Result, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	r := &Result{Seed: c.Seed, Profile: c.Profile, Ops: c.Ops}
	other := run.Config{Seed: c.Seed, Ops: c.Ops, Skip: c.Skip, Trace: c.Trace, Ladder: c.Ladder}
	switch c.Profile {
	case storms:
		r.Result = *storm.Run(other)
	case datagrams:
		r.Result = *channels.Run(other)
	default:
		r.Result = runPairs(c)
	}
	return r, nil
}

// runPairs executes a run of a profile that this package implements.
func runPairs(c Config) run.Result {
	w := newWorld(c)
	w.run()
	r := run.Result{
		Troubles: w.plan.has.String(), Packets: w.packets, Posted: w.posted, Completions: w.completions,
		Virtual: time.Duration(w.now), Marks: w.marks[:], Violation: w.violation,
	}
	if w.violation != nil {
		r.Ladder = w.ladder.lines()
	}
	return r
}

func newWorld(c Config) *world {
	w := &world{
		cfg: c, plan: newPlan(&c), byAddr: make(map[netip.Addr]*node), routes: make(map[route]*end),
		dice: run.NewDice(c.Seed), loose: make(map[uint32]message), wcs: make([]ib.WC, 16),
	}
	w.text = newText(w.plan.slot)
	w.net.init(w.plan.net, c.Seed)
	w.ladder.init(c.Ladder)
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
	w.over = true
	w.tearDown()
}

func (w *world) setUp() {
	r := rand.New(rand.NewPCG(w.cfg.Seed, streamSetup))
	for i := range w.plan.nodes {
		n := &node{w: w, index: i, addrs: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}),
			// Those of the other path.
			netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 14: 1, 15: byte(i + 1)}),
		}}
		for _, a := range n.addrs {
			w.byAddr[a] = n
		}
		w.nodes = append(w.nodes, n)
		n.open()
	}
	for _, n := range w.nodes {
		w.connectUD(n, r)
	}
	for range w.plan.pairs {
		p := w.newPair(r)
		w.pairs = append(w.pairs, p)
		w.connect(p, r, false)
	}
}

// step executes the next event: a packet arrives, a timer fires, or a program
// acts. It reports whether there was one by the limit.
func (w *world) step(limit clock.Instant) bool {
	at := w.net.flight.Next()
	var timer *node
	for _, n := range w.nodes {
		if n.deadline < at {
			at, timer = n.deadline, n
		}
	}
	acting := w.acted < w.cfg.Ops && w.nextAct <= at
	if acting {
		at = w.nextAct
	}
	if at > limit || at == clock.Never {
		return false
	}
	w.now = max(w.now, at)
	switch {
	case acting:
		w.takeTurn()
	case timer != nil:
		timer.hca.Shard().Advance(w.now)
		timer.pump()
	default:
		p := w.net.flight.Due(w.now)
		p.to.receive(p)
		w.net.release(p)
	}
	return true
}

// takeTurn executes the next action and schedules the one after it.
func (w *world) takeTurn() {
	i := w.acted
	w.acted++
	gap := w.dice.Turn(i, w.plan.gap)
	w.allOnTime()
	if !w.cfg.Skip[i] {
		w.act(i)
	}
	w.nextAct = w.now.Add(gap)
	if i%16 == 15 {
		w.sweepSome(i / 16)
	}
}

// jump advances the clock: all timers and packets in between are due at once.
func (w *world) jump(d time.Duration) {
	w.now = w.now.Add(d)
	w.harmed()
	for _, p := range w.pairs {
		p.disturbed++
		p.harmed()
	}
	for _, n := range w.nodes {
		n.hca.Shard().Advance(w.now)
		n.pump()
	}
}

// sweepSome compares the memory of one end with the model: the ends take turns.
func (w *world) sweepSome(turn int) {
	p := w.pairs[turn/2%len(w.pairs)]
	if e := p.ends[turn%2]; e.qp != nil {
		e.space.sweep()
	}
}

// sweep compares all memory with the model.
func (w *world) sweep() {
	for _, n := range w.nodes {
		n.srq.space.sweep()
		for _, e := range sorted(n.ends) {
			e.space.sweep()
		}
	}
}

// settleTime is how long pending work may take once the network has healed and
// programs behave: more than the longest series of retries.
const settleTime = 30 * time.Second

// settle heals the network and waits until nothing is pending (liveness).
func (w *world) settle() {
	if w.violation != nil {
		return
	}
	w.net.heal()
	w.addressesBack()
	if w.verbose() {
		w.sayf("the network is whole again")
	}
	r := rand.New(rand.NewPCG(w.cfg.Seed, streamMend))
	end := w.now.Add(settleTime)
	for w.violation == nil {
		w.care(r)
		next := w.now.Add(time.Millisecond)
		for w.violation == nil && w.step(next) {
		}
		w.now = max(w.now, next)
		w.allOnTime()
		if w.idle() {
			return
		}
		if w.now > end {
			w.complain()
			return
		}
	}
}

// care does what a well-behaved program does: it polls, posts receives and
// resumes.
func (w *world) care(r *rand.Rand) {
	for _, n := range w.nodes {
		for _, c := range n.cqs {
			for range 4 + len(c.want)/len(w.wcs) {
				n.poll(c, len(w.wcs))
			}
		}
		for _, e := range sorted(n.ends) {
			if e.state == ib.RESET {
				continue
			}
			e.resume()
			if e.srq != nil {
				for e.postRecv(w.plan.slot, false) {
				}
			} else if e.pair != nil && e.state != ib.ERR {
				e.fillRecvs(r, w.plan.recvs)
			}
			e.reveal()
		}
	}
}

// reveal posts a signalled WRITE of nothing, if otherwise no completion would
// show that the pending requests are complete.
func (e *end) reveal() {
	if e.pair == nil || e.state != ib.RTS || len(e.sq) == 0 || e.unsignaled() < len(e.sq) {
		return
	}
	o := &op{end: e, id: e.w.nextID(false), code: ib.WRRDMAWrite, signaled: true, target: &e.peer.space.remote.slots[0]}
	e.post(o, &ib.SendWR{WRID: o.id, Opcode: o.code, Flags: ib.SendSignaled})
	e.node.wake(e)
}

// idle reports whether every send is complete and no packet is in the network.
func (w *world) idle() bool {
	if w.net.flight.Len() > 0 {
		return false
	}
	for _, n := range w.nodes {
		for _, e := range n.ends {
			if !e.idle() {
				return false
			}
		}
	}
	return true
}

// idle reports whether nothing is pending at the end: no send, and no draining
// send queue.
func (e *end) idle() bool {
	return e.state < ib.RTS || len(e.sq) == 0 && e.state != ib.SQD
}

// complain reports the work that is still pending.
func (w *world) complain() {
	for _, n := range w.nodes {
		for _, e := range sorted(n.ends) {
			if e.idle() {
				continue
			}
			first := ""
			if len(e.sq) > 0 {
				first = fmt.Sprintf(", the first wr_id %d (%v)", e.sq[0].id, e.sq[0].code)
			}
			w.fail("liveness", "adapter %d qp %v is in %v with %d sends pending%s %v after the network was healed",
				n.index, e.num, e.state, len(e.sq), first, settleTime)
			return
		}
	}
	w.fail("liveness", "packets are still on their way %v after the network was healed", settleTime)
}

// tearDown destroys everything and checks for leftovers.
func (w *world) tearDown() {
	if w.violation != nil {
		return
	}
	w.sweep()
	for _, n := range w.nodes {
		n.audit()
	}
	for _, n := range w.nodes {
		for _, e := range sorted(n.ends) {
			e.destroy()
		}
		n.close()
	}
}

// close destroys the adapter's objects: none may be left.
func (n *node) close() {
	w := n.w
	w.must(n.pd.DeregMR(n.srq.space.local.mr))
	w.must(n.pd.DeregMR(n.srq.space.remote.mr))
	if err := n.pd.DestroySRQ(n.srq.srq); err != nil {
		w.fail("leak", "adapter %d: %v", n.index, err)
	}
	for _, c := range n.cqs {
		n.poll(c, len(w.wcs))
		if err := n.hca.DestroyCQ(c.cq); err != nil {
			w.fail("leak", "adapter %d: %v", n.index, err)
		}
	}
	if err := n.pd.Dealloc(); err != nil {
		w.fail("leak", "adapter %d: %v", n.index, err)
	}
	if d := n.hca.Shard().Deadline(); d != clock.Never || n.hca.Shard().Pending() {
		w.fail("leak", "adapter %d without a queue pair has a timer at %v, pending %v", n.index, d, n.hca.Shard().Pending())
	}
}

// must fails the run if a call fails that must succeed.
func (w *world) must(err error) {
	if err != nil {
		w.fail("post", "a call that should work: %v", err)
	}
}

// fail records the first violation; the run ends with it.
func (w *world) fail(check, format string, args ...any) {
	if w.violation != nil {
		return
	}
	w.violation = &run.Violation{
		Check: check, Detail: fmt.Sprintf(format, args...), Action: w.acted - 1, At: time.Duration(w.now),
	}
	w.sayf("VIOLATION %v", w.violation)
}
