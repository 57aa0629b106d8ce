package sim

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/internal/virtual"
)

// node is one adapter and the program that uses it.
type node struct {
	*virtual.Adapter // its addresses are IPv4 and IPv6 of the first path, then of the second

	w       *world
	lost    map[netip.Addr]bool // addresses that its port has lost
	starts  uint64              // how often the adapter was opened
	inOrder bool                // it is go-back-N: it has no reorder buffer
	cqs     []*queue
	srq     *sharedQueue
	domains []*domain // of XRC
	otherPD *hca.PD   // of some of their shared receive queues
	ends    map[ib.QPN]*end
	ud      *end // the node's UD queue pair
	binder  binder
	coming  int           // packets on the way to this node
	busy    clock.Instant // time until which its port is busy sending
	carrier *carrier      // nil: the network is its port

	tally tally
	taken bool   // a queue pair has taken the packet that arrived
	quiet string // reason why nothing may happen now; empty: it may
	watch []*end // ends to check after the step
}

// tally holds the oracle's counts for a node since its adapter was opened, to
// compare with the adapter's counters.
type tally struct {
	sent, in, damaged, delivered uint64
	flushed, reqErr, respErr     uint64
	lostCQE, moves               uint64
	turned                       uint64 // requests that initiators of XRC accepted and dropped, and answers that targets did
}

// queue is a completion queue and its expected contents.
type queue struct {
	cq      *qp.CQ
	want    []pushed // and not polled
	failed  bool
	evented bool // CQ_ERR was raised
	alarm   alarm
}

// down reports whether there is a queue and it has overflowed.
func (c *queue) down() bool { return c != nil && c.failed }

// pushed is a completion and the time at which it was made.
type pushed struct {
	ib.WC
	at clock.Instant
}

// behaviour returns the dice of an adapter that behaves as badly as permitted; nil without the
// feature. A fifth of the behaviours is left out, so that the others also show alone.
func (n *node) behaviour() *nasty.Dice {
	w := n.w
	if !w.plan.on(nastiness) {
		return nil
	}
	r := rand.New(rand.NewPCG(w.Config.Seed, streamNasty+uint64(n.Index)<<32+n.starts))
	c := nasty.Config{Seed: r.Uint64() | 1}
	for i := range c.Without {
		c.Without[i] = r.IntN(5) == 0
	}
	return c.New(n.Index)
}

// open starts the adapter, for the first time or again.
func (n *node) open() {
	w := n.w
	n.starts++
	caps := virtual.Caps(n.Addrs...)
	caps.GRO = true
	if b := w.plan.net.buffer; b != noLimit {
		caps.RecvBuffer = max(b*512, 32<<10)
	}
	if w.plan.on(sharedMemory) {
		caps.SrcPort, caps.MaxRunBytes = fabric.RoCEPort, min(caps.MaxRunBytes, w.plan.near.ring/4)
	}
	// Each time that it starts, an adapter may run other software.
	n.inOrder = rand.New(rand.NewPCG(w.Config.Seed, streamWays+uint64(n.Index)<<32+n.starts)).Float64() < w.plan.inOrder
	src := rand.New(rand.NewPCG(w.Config.Seed, streamKeys+uint64(n.Index)<<32+n.starts))
	w.Must(n.Open(hca.Config{
		Caps: caps, Rand: src.Uint32, NodeGUID: uint64(n.Index) + 1, Trace: n.trace, Raise: n.raise,
		Settings:  qp.Settings{MigReq: n.Index%2 == 0, Credits: n.Index%3 == 1, InOrderOnly: n.inOrder},
		WriteBack: n.writeBack, Nasty: n.behaviour(),
	}, w.plan.batch))
	n.tally = tally{}
	n.ends = make(map[ib.QPN]*end)
	n.cqs, n.srq, n.ud, n.watch, n.binder = nil, nil, nil, nil, binder{}
	n.lost = make(map[netip.Addr]bool)
	for range 3 {
		n.newCQ()
	}
	srq, err := n.PD.CreateSRQ(64, 2, 0)
	w.Must(err)
	n.srq = &sharedQueue{srq: srq, space: newSpace(w, n, spaceConfig{recv: 128}), posted: make(map[uint64]*receive)}
	n.openBinder()
	n.openDomains()
	n.Deadline = clock.Never
	if w.plan.on(sharedMemory) {
		n.carrier = newCarrier(n, caps)
	}
}

// storageTime is the longest that memory takes to be written back.
const storageTime = 10 * time.Microsecond

// writeBack has the memory of a FLUSH written back a little later, unless the adapter starts
// again before.
func (n *node) writeBack(job qp.WriteBack) {
	h, w := n.HCA, n.w
	w.After(time.Duration(w.Net.Rand.Int64N(int64(storageTime))), func() {
		if n.HCA != h {
			return
		}
		for _, e := range n.ends {
			if e.space != nil {
				e.space.writtenBack(job.Mem)
			}
		}
		h.WrittenBack(w.Now, job, true)
		n.pump()
	})
}

func (n *node) newCQ() *queue {
	cfg := qp.CQConfig{Entries: n.w.plan.cqe}
	if len(n.cqs)%2 == 1 {
		cfg.Time = func() clock.Instant { return n.w.Now }
	}
	c := &queue{alarm: newAlarm(n)}
	cfg.OnEvent = c.alarm.rings
	cq, err := n.HCA.CQs().Create(cfg)
	n.w.Must(err)
	c.cq = cq
	n.cqs = append(n.cqs, c)
	return c
}

// healthyCQ returns a completion queue that has not overflowed.
func (n *node) healthyCQ(r *rand.Rand) *queue {
	c := n.cqs[r.IntN(len(n.cqs))]
	if !c.failed {
		return c
	}
	if c.cq.Users() == 0 { // no queue pair uses it
		n.w.Must(n.HCA.CQs().Destroy(c.cq))
		n.cqs = slices.DeleteFunc(n.cqs, func(o *queue) bool { return o == c })
	}
	return n.newCQ()
}

// queueOf returns the model of a CQ.
func (n *node) queueOf(cq *qp.CQ) *queue {
	i := slices.IndexFunc(n.cqs, func(c *queue) bool { return c.cq == cq })
	if i < 0 {
		return nil
	}
	return n.cqs[i]
}

// pump lets the adapter transmit, and checks its deadlines.
func (n *node) pump() {
	w := n.w
	for range pumpBound {
		more := n.transmit()
		if !more && (!n.HCA.Single().Pending() || n.carrier != nil && n.carrier.blocked) {
			n.settled()
			return
		}
	}
	w.Fail("liveness", "adapter %d still sends after %d batches at one instant", n.Index, pumpBound)
}

// transmit lets the adapter send a batch, and reports whether there is more.
func (n *node) transmit() (more bool) {
	if n.carrier != nil {
		return n.carrier.transmit()
	}
	return n.Transmit(n.w.Now, func(run *fabric.Run) { n.w.carry(n, run) })
}

// pumpBound is more batches than any adapter can fill at one instant.
const pumpBound = 10000

// settled checks the invariants between steps.
func (n *node) settled() {
	n.Deadline = n.HCA.Single().Deadline()
	for _, e := range n.ends {
		if e.qp != nil && e.qp.Deadline() < n.Deadline {
			n.w.Fail("timer", "adapter %d: a queue pair's timer is due before the adapter's deadline %d", n.Index, n.Deadline)
		}
	}
	if n.Deadline <= n.w.Now {
		n.HCA.Single().Advance(n.w.Now)
		if d := n.HCA.Single().Deadline(); d <= n.w.Now {
			n.w.Fail("liveness", "adapter %d: the deadline %d is due after Advance at %d", n.Index, d, n.w.Now)
			return
		}
		n.pump()
		return
	}
	for _, e := range n.watch {
		e.checkSettled()
	}
	n.watch = n.watch[:0]
	for _, c := range n.cqs {
		c.alarm.settled()
		if c.failed && !c.evented {
			n.w.Fail("event", "adapter %d: a completion queue overflowed without CQ_ERR", n.Index)
		}
	}
}

// wake is called after every event that may give the adapter work.
func (n *node) wake(e *end) {
	if e != nil && e.qp != nil {
		n.HCA.Single().RingDoorbell(e.qp)
	}
	n.pump()
}

// dropped reports whether the adapter dropped a packet before it reached a queue pair: because
// there is no such queue pair or EE context, or because the packet is damaged.
func dropped(r *trace.Record) bool {
	return r.Kind == trace.Drop && slices.ContainsFunc(adapterDrops[:], func(why counters.Drop) bool { return r.Cause == why.String() })
}

// adapterDrops are the reasons to drop a packet that reaches no queue pair and no EE context.
var adapterDrops = [...]counters.Drop{counters.DropNoQP, counters.DropNoEEC, counters.DropICRC}

// trace receives the adapter's records.
func (n *node) trace(r *trace.Record) {
	w := n.w
	if w.Telling() {
		w.Say(n.Index, "%v", r)
	}
	switch r.Kind {
	case trace.PacketIn:
		n.tally.in++
		n.taken = true
		return
	case trace.PacketOut:
		return
	}
	e := n.ends[r.QPN]
	if e == nil {
		if n.binds(r) || dropped(r) {
			return
		}
		w.Fail("state", "adapter %d: a record of queue pair %v, which does not exist: %v", n.Index, r.QPN, r)
		return
	}
	if n.quiet != "" && (r.Kind == trace.State || r.Kind == trace.Completion) {
		w.Fail("stale", "%s: %v", n.quiet, r)
		return
	}
	switch r.Kind {
	case trace.State:
		n.tally.moves++
		e.moved(r)
	case trace.Completion:
		e.completed(r)
	case trace.Retry:
		e.wire.retried(r)
	case trace.Repair:
		e.wire.repaired(r)
	case trace.Challenge:
		e.wire.challenge(r)
	case trace.Fault: // a nasty adapter has lost a response
		w.Mark("K2 lost response")
		if e.pair != nil {
			e.pair.harmed()
		}
	case trace.Drop:
		if n.taken && r.Cause == counters.DropService.String() {
			n.tally.turned++
		}
		w.Mark(cmp.Or(dropMarks[r.Cause], "other drop"))
		if e.pair != nil && (r.Cause == counters.DropMigration.String() || r.Cause == counters.DropAddress.String()) {
			e.pair.disturbed++ // it came over a path from which the end does not take it
			e.pair.harmed()
			e.wire.astray = r.Cause == counters.DropMigration.String() && !e.wire.examines
		}
	}
}

// raise receives the adapter's events.
func (n *node) raise(ev qp.Event) {
	w := n.w
	w.Mark(eventMarks[ev.Type])
	if about := (qp.Event{Type: ev.Type, QPN: ev.QPN, CQ: ev.CQ}); ev != about || (ev.QPN != 0) == (ev.CQ != nil) {
		w.Fail("event", "adapter %d: %v is about more than one thing, or about none: %+v", n.Index, ev.Type, ev)
	}
	switch {
	case ev.Type == ib.EventCQErr:
		c := n.queueOf(ev.CQ)
		if c == nil || c.evented || !c.failed {
			w.Fail("event", "adapter %d: CQ_ERR for a completion queue that has not just overflowed", n.Index)
			return
		}
		c.evented = true
	case ev.QPN != 0:
		e := n.ends[ev.QPN]
		if e == nil {
			w.Fail("event", "adapter %d: %v names queue pair %v, which does not exist", n.Index, ev.Type, ev.QPN)
			return
		}
		if n.quiet != "" && ev.Type != ib.EventCommEst {
			w.Fail("stale", "%s: event %v", n.quiet, ev.Type)
		}
		if w.plan.on(nastiness) {
			n.checkEntered()
		}
		e.event(ev.Type)
	}
}

// checkEntered checks that no completion is late when the adapter raises an event of a queue pair.
func (n *node) checkEntered() {
	for _, c := range n.cqs {
		if c.cq.Pending() < len(c.want) {
			n.w.Fail("event", "adapter %d: a queue has %d completions, of %d, before an event of a queue pair", n.Index, c.cq.Pending(), len(c.want))
		}
		if len(c.want) > 0 {
			n.w.Mark("K2 entered before an event")
		}
	}
}

// foreign are the reasons to drop a packet that belongs to no queue pair.
var foreign = []counters.Drop{counters.DropMalformed, counters.DropICRC, counters.DropNoQP, counters.DropNoEEC}

// receive takes a packet that the network delivers.
func (n *node) receive(p *virtual.Packet) {
	if n.carrier != nil {
		n.carrier.socket.arrives(p)
		return
	}
	n.coming -= p.Segments
	n.pass(p)
	n.answer()
}

// pass passes an arrived packet to the adapter.
func (n *node) pass(p *virtual.Packet) {
	w := n.w
	n.tally.delivered += uint64(p.Segments)
	w.arrived(p)
	c := n.HCA.Count()
	bad := c.Dropped(foreign...)
	switch {
	case p.Damaged:
		n.tally.damaged++
		n.quiet = "a damaged packet had an effect"
	case p.Forged != "":
		n.quiet = p.Forged
	default:
		n.expect(p)
	}
	in, kept := n.tally.in, c.EarlyKept
	n.taken = false
	n.HCA.Single().Receive(w.Now, &p.Datagram)
	n.quiet = ""
	if p.Damaged && c.Dropped(foreign...) != bad+1 {
		w.Fail("corrupt", "adapter %d took a damaged packet, or did not count it", n.Index)
	}
	if p.Forged != "" && n.tally.in != in {
		w.Fail("corrupt", "adapter %d took a packet that does not come from the queue pair's peer", n.Index)
	}
	if c.EarlyKept != kept {
		w.Mark("L2 kept")
		if p.Damaged || p.Forged != "" || n.inOrder {
			w.Fail("keep", "adapter %d keeps a packet that it must not", n.Index)
		}
	}
	n.interrupt(&p.Datagram)
}

// answer lets the adapter transmit after an arrival: at once or, if its thread
// first receives other packets, a little later.
func (n *node) answer() {
	w := n.w
	if w.Net.IsHealed() || !w.plan.on(lateAnswers) || w.Net.Rand.IntN(4) > 0 {
		n.pump()
		return
	}
	n.Deadline = min(n.Deadline, w.Now.Add(time.Duration(w.Net.Rand.Int64N(int64(lateAnswer)))))
}

// lateAnswer is the longest that an adapter takes to send after an arrival.
const lateAnswer = 20 * time.Microsecond

// expect checks the packets of a datagram before the adapter gets it: one that
// was sent to an earlier connection of its queue pair must have no effect.
func (n *node) expect(p *virtual.Packet) {
	for off := 0; off < len(p.Datagram.Bytes); {
		var seg []byte
		seg, off = p.Datagram.Segment(off)
		h := headerOf(seg)
		e := n.ends[h.dest]
		if e == nil || e.pair == nil {
			continue
		}
		if p.Serial < e.since {
			if p.Segments == 1 {
				n.quiet = "a packet of an earlier connection had an effect"
			}
			n.w.disturb(e.node, e.peer.node)
			continue
		}
		if e.paths.left(p.Datagram.Dst) {
			if p.Segments == 1 {
				n.quiet = "a packet over a path that is not the queue pair's had an effect"
			}
			continue
		}
		e.wire.arrives(h)
	}
}

// poll polls up to k completions of a queue, compares them with the model, and returns how many
// there were.
func (n *node) poll(c *queue, k int) (got int) {
	wcs := n.w.wcs[:k]
	for i := range wcs {
		wcs[i] = poison
	}
	var times []clock.Instant
	if c.cq.Timed() {
		times = make([]clock.Instant, k)
	}
	got = c.cq.PollTimes(wcs, times)
	late := n.w.plan.on(nastiness)
	for i := range wcs[:got] {
		k := c.expected(&wcs[i], late)
		if k == len(c.want) {
			n.w.Fail("poll", "adapter %d: a completion that was never pushed, or was polled before: wr_id %d %v qp %v", n.Index, wcs[i].WRID, wcs[i].Status, wcs[i].QPN)
			return got
		}
		if k > 0 {
			n.w.Mark("K2 other order")
		}
		want := c.want[k]
		c.want = slices.Delete(c.want, k, k+1)
		if !sameWC(&wcs[i], &want.WC) {
			n.w.Fail("poll", "adapter %d: polled %+v, want %+v", n.Index, wcs[i], want.WC)
			return got
		}
		if times != nil && times[i] != want.at {
			n.w.Fail("poll", "adapter %d: the completion of wr_id %d has the time %d, want %d", n.Index, want.WRID, times[i], want.at)
			return got
		}
	}
	switch {
	case got == k || len(c.want) == 0:
	case !late || n.w.Now.Sub(c.want[0].at) > mostLate:
		n.w.Fail("poll", "adapter %d: the completion of wr_id %d is missing from its queue", n.Index, c.want[0].WRID)
	default:
		n.w.Mark("K2 late")
	}
	return got
}

// mostLate is the longest time from an operation to its completion in the queue of a nasty adapter,
// and until its thread and the program have run.
const mostLate = 2 * time.Millisecond

// expected returns the index of the completion that the program may poll now: the oldest, or with
// late completions the oldest of the work queue that it names. It returns the number of
// completions if there is none.
func (c *queue) expected(wc *ib.WC, late bool) int {
	if !late {
		return 0
	}
	k := slices.IndexFunc(c.want, func(p pushed) bool { return p.QPN == wc.QPN && isRecv(p.WRID) == isRecv(wc.WRID) })
	if k < 0 {
		return len(c.want)
	}
	return k
}

// sameWC compares a completion with what was expected: all its fields on
// success, and those that are promised otherwise (Q23).
func sameWC(got, want *ib.WC) bool {
	if want.Status != ib.WCSuccess {
		return got.WRID == want.WRID && got.Status == want.Status && got.QPN == want.QPN
	}
	all := *want
	if all.VendorErr == anyImm {
		all.VendorErr, all.ImmData = 0, got.ImmData
	}
	return *got == all
}

// poison is the content of an output before the adapter writes it: no field has
// an expected value.
var poison = ib.WC{
	WRID: 1<<64 - 1, ByteLen: 1<<32 - 1, QPN: 1<<32 - 1, SrcQP: 1<<32 - 1, ImmData: 1<<32 - 1, InvRKey: 1<<32 - 1, VendorErr: 1<<32 - 1,
	EEC: 1<<32 - 1, PKeyIndex: 1<<16 - 1, SLID: 1<<16 - 1, Status: 1<<8 - 1, Opcode: 1<<8 - 1, Flags: 1<<8 - 1, SL: 1<<8 - 1, DLIDPathBits: 1<<8 - 1,
}

// audit compares the adapter's counters with the tally.
func (n *node) audit() {
	c, t := n.HCA.Count(), &n.tally
	early := c.Dropped(foreign...) + c.Dropped(counters.DropService, counters.DropPKey, counters.DropQKey, counters.DropAddress)
	for _, x := range []struct {
		name        string
		have, least uint64
		most        uint64
	}{
		{"sent_pkts", c.SentPkts, t.sent, t.sent},
		{"rcvd_pkts", c.RcvdPkts, t.in, t.in},
		{"packets that arrived", c.RcvdPkts + early, t.delivered - min(t.delivered, c.Drops[counters.DropState]), t.delivered + t.turned},
		{"damaged packets", c.Dropped(counters.DropMalformed, counters.DropICRC), 0, t.damaged},
		{"cqe_flush", c.CQEFlush, t.flushed, t.flushed},
		{"req_cqe_error", c.ReqCQEError, t.reqErr, t.reqErr},
		{"resp_cqe_error", c.RespCQEError, t.respErr, t.respErr},
		{"cqe_overflow", c.CQEOverflow, t.lostCQE, t.lostCQE},
		{"state_changes", c.StateChanges, t.moves, t.moves},
	} {
		if x.have < x.least || x.have > x.most {
			n.w.Fail("counters", "adapter %d: %s is %d, want %d to %d", n.Index, x.name, x.have, x.least, x.most)
		}
	}
}

// sorted returns ends in the order of their numbers.
func sorted(m map[ib.QPN]*end) []*end {
	return slices.SortedFunc(maps.Values(m), func(a, b *end) int { return cmp.Compare(a.num, b.num) })
}
