package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/sim/channels"
	"github.com/softhca/softhca/internal/sim/storm"
	"github.com/softhca/softhca/internal/virtual"
)

// The streams of random numbers of a run. Each is independent of the others,
// so that leaving out an action changes as little as possible.
const (
	streamPlan  = 1
	streamSetup = 3
	streamKeys  = 1 << 40
	streamWays  = 1 << 41
	streamNear  = 4 // how processes share memory
	streamNasty = 6 // how adapters behave; the upper half is the adapter and its start
	streamHost  = 5 // what their hosts do
)

// world is one run.
type world struct {
	virtual.World
	plan  plan
	watch *Watch

	ports ports
	cut   virtual.Cuts[*node]
	down  virtual.Cuts[netip.Addr] // addresses, of paths

	nodes  []*node
	pairs  []*pair
	routes map[route]*end
	host   *rand.Rand // draws what the hosts do, in runs with shared memory

	text text
	wcs  []ib.WC
	ids  uint64

	spaces int // created so far

	shaken bool // something may have been lost although no feature harms packets
	over   bool // everything has settled
	did    [numActions]uint64
}

// Result is the result of a run.
type Result struct {
	virtual.Result
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
	open := func(k virtual.Config) virtual.Simulation {
		w := newWorld(c, k)
		c.Watch = nil // of the first run only
		return w
	}
	switch c.Profile {
	case storms:
		open = storm.Open
	case datagrams:
		open = channels.Open
	}
	r.Result = *virtual.Run(virtual.Config{Seed: c.Seed, Ops: c.Ops, Skip: c.Skip, Trace: c.Trace, Ladder: c.Ladder}, open)
	return r, nil
}

func newWorld(c Config, k virtual.Config) *world {
	w := &world{
		plan: newPlan(&c), watch: c.Watch, routes: make(map[route]*end), wcs: make([]ib.WC, 16),
		cut: make(virtual.Cuts[*node]), down: make(virtual.Cuts[netip.Addr]),
	}
	w.Init(k, w.plan.net.Faults)
	w.Count(MarkNames(c.Profile))
	w.Gap, w.ports = w.plan.gap, w.plan.net.ports
	w.host = rand.New(rand.NewPCG(c.Seed, streamHost))
	w.text = newText(w.plan.slot)
	return w
}

// Simulate makes the run.
func (w *world) Simulate() {
	defer func() {
		for _, n := range w.nodes {
			if n.carrier != nil {
				n.carrier.thread.stop()
			}
		}
	}()
	w.setUp()
	w.StepAll(w)
	w.settle()
	w.over = true
	w.tearDown()
}

// Report adds the features to the result.
func (w *world) Report(r *virtual.Result) { r.Faults = w.plan.has.String() }

func (w *world) setUp() {
	r := rand.New(rand.NewPCG(w.Config.Seed, streamSetup))
	for i := range w.plan.nodes {
		n := &node{w: w, Adapter: w.Add(
			netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}),
			// Those of the other path.
			netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 14: 1, 15: byte(i + 1)}),
		)}
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

// Receive passes an arrived packet to its adapter.
func (w *world) Receive(p *virtual.Packet) { w.nodes[p.To.Index].receive(p) }

// Advance fires the timers of an adapter.
func (w *world) Advance(a *virtual.Adapter) {
	a.HCA.Single().Advance(w.Now)
	w.nodes[a.Index].pump()
}

// Act does an action, and checks delays and now and then memory.
func (w *world) Act(i int, leftOut bool) {
	w.allOnTime()
	if !leftOut {
		w.act(i)
	}
	if i%16 == 15 {
		w.sweepSome(i / 16)
	}
}

// jump advances the clock: all timers and packets in between are due at once.
func (w *world) jump(d time.Duration) {
	w.Now = w.Now.Add(d)
	w.harmed()
	for _, p := range w.pairs {
		p.disturbed++
		p.harmed()
	}
	for _, n := range w.nodes {
		n.HCA.Single().Advance(w.Now)
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
		n.sweepDomains()
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
	if w.Violation != nil {
		return
	}
	w.heal()
	w.addressesBack()
	w.Say(virtual.Nobody, "the network is whole again")
	end := w.Now.Add(settleTime)
	for w.Violation == nil {
		w.care()
		next := w.Now.Add(time.Millisecond)
		for w.Violation == nil && w.Step(w, next) {
		}
		w.Now = max(w.Now, next)
		w.allOnTime()
		if w.idle() {
			return
		}
		if w.Now > end {
			w.complain()
			return
		}
	}
}

// care does what a well-behaved program does: it polls, posts receives and
// resumes.
func (w *world) care() {
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
			switch {
			case e.domain != nil:
				e.fillRecvs(w.plan.recvs)
			case e.srq != nil:
				for e.postRecv(w.plan.slot, false) {
				}
			case e.receives && e.pair != nil && e.state != ib.ERR:
				e.fillRecvs(w.plan.recvs)
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
	o.queue = e.peer.domain.first()
	e.post(o)
	e.node.wake(e)
}

// idle reports whether every send is complete and no packet is in the network.
func (w *world) idle() bool {
	if w.Net.Len() > 0 {
		return false
	}
	for _, n := range w.nodes {
		if n.carrier != nil && !n.carrier.idle() {
			return false
		}
		for _, c := range n.cqs {
			if len(c.want) > 0 && w.plan.on(nastiness) { // they are late
				return false
			}
		}
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
			w.Fail("liveness", "adapter %d qp %v is in %v with %d sends pending%s %v after the network was healed",
				n.Index, e.num, e.state, len(e.sq), first, settleTime)
			return
		}
	}
	w.Fail("liveness", "packets are still on their way %v after the network was healed", settleTime)
}

// tearDown destroys everything and checks for leftovers.
func (w *world) tearDown() {
	if w.Violation != nil {
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
	n.closeBinder()
	n.closeDomains()
	w.Must(n.PD.DeregMR(n.srq.space.local.mr))
	w.Must(n.PD.DeregMR(n.srq.space.remote.mr))
	if err := n.PD.DestroySRQ(n.srq.srq); err != nil {
		w.Fail("leak", "adapter %d: %v", n.Index, err)
	}
	for _, c := range n.cqs {
		n.poll(c, len(w.wcs))
		if err := n.HCA.CQs().Destroy(c.cq); err != nil {
			w.Fail("leak", "adapter %d: %v", n.Index, err)
		}
	}
	w.Close(n.Adapter)
}
