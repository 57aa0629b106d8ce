package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// pair is a connection between two nodes, or within one: it outlives its queue
// pairs.
type pair struct {
	types     [2]ib.QPType // of the ends
	v6        bool
	mtu       ib.MTU
	at        [2]*node
	ends      [2]*end
	disturbed uint64 // number of harmed packets between its nodes
	broken    bool   // an end is not connected to the other
}

// terms are the attributes that both ends agree on.
type terms struct {
	timeout, retryCnt, rnrRetry, rnrTimer uint8
	depth                                 uint8 // READs and atomics
	psn                                   [2]ib.PSN
}

func (w *world) newPair(r *rand.Rand) *pair {
	p := &pair{types: [2]ib.QPType{ib.RC, ib.RC}, v6: r.IntN(2) == 0, mtu: ib.MTU256 + ib.MTU(r.IntN(5))}
	if r.IntN(5) == 0 {
		p.types = [2]ib.QPType{ib.UC, ib.UC}
	}
	if w.plan.on(xrc) && r.IntN(4) > 0 {
		p.types = [2]ib.QPType{ib.XRCIni, ib.XRCTgt}
	}
	a := r.IntN(len(w.nodes))
	b := (a + 1 + r.IntN(len(w.nodes)-1)) % len(w.nodes)
	if r.IntN(10) == 0 {
		b = a // through the network and back
	}
	p.at = [2]*node{w.nodes[a], w.nodes[b]}
	return p
}

// connect gives the pair a new connection. Queue pairs that exist are reset and
// used again, unless fresh is set. UC queue pairs are always new: a UC
// responder accepts any PSN, also of an earlier connection.
func (w *world) connect(p *pair, r *rand.Rand, fresh bool) {
	fresh = fresh || p.types[0] == ib.UC
	var old []route
	for i, e := range p.ends {
		if e != nil {
			old = append(old, e.paths.allRoutes()...)
		}
		switch {
		case e == nil || e.qp == nil:
			p.ends[i] = w.newEnd(p, i, r)
		case fresh || e.sendQ.down() || e.recvQ.down():
			e.destroy()
			p.ends[i] = w.newEnd(p, i, r)
		default:
			e.reset()
		}
	}
	for _, k := range old { // forget packets sent there
		if e := w.routes[k]; e != nil && e.pair == p { // not if another queue pair has the number now
			delete(w.routes, k)
		}
	}
	a, b := p.ends[0], p.ends[1]
	a.peer, b.peer = b, a
	t := w.newTerms(p, r)
	for i, e := range p.ends {
		e.start(t, i)
		for _, k := range e.paths.allRoutes() {
			w.routes[k] = e
		}
	}
	p.broken, p.disturbed = false, 0
	for i, e := range p.ends {
		to := ib.RTS
		if i == 1 && r.IntN(4) == 0 {
			to = ib.RTR // the passive side, which the first request establishes (Q9)
		}
		a := e.attr()
		e.climb(&a, ib.INIT, to)
		e.fillRecvs(w.plan.recvs)
	}
}

// newTerms draws the attributes of a connection. Its PSNs are far from those of
// the previous connection.
func (w *world) newTerms(p *pair, r *rand.Rand) terms {
	t := terms{
		timeout: uint8(8 + r.IntN(5)), retryCnt: uint8(1 + r.IntN(7)), rnrRetry: w.plan.rnrRetry,
		rnrTimer: uint8(1 + r.IntN(12)), depth: uint8(1 + r.IntN(8)),
	}
	if w.plan.on(loss|partitions|tightBuffers|corruption|reordering) && r.IntN(3) > 0 {
		t.retryCnt = 7
	}
	for i, e := range p.ends {
		t.psn[i] = ib.NewPSN(e.lastPSN.Value() + 1<<21 + uint32(r.IntN(1<<21)))
		if r.IntN(8) == 0 && e.gen == 0 {
			t.psn[i] = ib.NewPSN(uint32(0xffffff - r.IntN(64))) // it wraps soon
		}
		e.lastPSN = t.psn[i]
	}
	return t
}

// end is one queue pair with the state of its program and of the oracle.
type end struct {
	w    *world
	node *node
	traits
	pair   *pair // nil for UD
	peer   *end
	qp     *qp.QP // nil after destruction
	num    ib.QPN
	sendQ  *queue
	recvQ  *queue
	srq    *sharedQueue
	domain *domain      // of an XRC target
	latest *sharedQueue // of its last message
	pd     *hca.PD
	space  *space
	terms  terms
	own    int // its index in the pair
	paths  paths

	gen     int    // connections so far
	since   uint64 // serial of the last packet sent before this connection
	lastPSN ib.PSN
	state   ib.QPState

	sq        []*op      // posted, not complete
	rq        []*receive // likewise
	inbox     []*op      // RC: messages that the peer has posted and that have not arrived
	failed    bool       // a send completed in error since the last connection or resumption
	mayFail   bool       // an event may move the queue pair to ERR
	failing   bool       // a receive or a request of the peer failed here
	fatalDue  bool       // QP_FATAL has to be raised
	lastWQE   bool       // LAST_WQE_REACHED has to be raised
	fullCQ    bool       // a completion found its queue full
	drainAsk  bool       // SQ_DRAINED was asked for
	commEst   bool
	localGone bool // the local region was deregistered during the connection
	remGone   bool // the remote region was deregistered
	solicited bool // the last completion is that of a solicited message's receive
	shortRecv bool // a receive was posted that is shorter than a message
	badRecv   bool // a receive with a bad lkey was posted

	wire   watcher
	delays delays
}

// newEnd creates the queue pair of end i in RESET.
func (w *world) newEnd(p *pair, i int, r *rand.Rand) *end {
	n, typ := p.at[i], p.types[i]
	e := &end{w: w, node: n, pair: p, traits: traitsOf(typ)}
	if old := p.ends[i]; old != nil {
		e.lastPSN, e.gen = old.lastPSN, old.gen
	}
	if e.posts {
		e.sendQ = n.healthyCQ(r)
	}
	if e.receives {
		e.recvQ = n.healthyCQ(r)
	}
	if typ == ib.RC && r.IntN(4) == 0 {
		e.srq = n.srq
	}
	if typ == ib.XRCTgt {
		e.domain = n.domains[r.IntN(len(n.domains))]
	}
	e.create(typ)
	c := spaceConfig{target: 6, words: 4, local: localSlots, recv: 40, fixed: !e.reliable}
	if typ == ib.RC && w.plan.on(windows) {
		c.binds = e
	}
	e.space = newSpace(w, n, c)
	return e
}

// endCap are the queue sizes of every end.
var endCap = ib.QPCap{MaxSendWR: 32, MaxRecvWR: 32, MaxSendSGE: 3, MaxRecvSGE: 2, MaxInlineData: 64}

func (e *end) create(typ ib.QPType) {
	n := e.node
	c := hca.QPConfig{Type: typ, Cap: endCap}
	if e.posts {
		c.SendCQ, e.pd = e.sendQ.cq, n.PD
	}
	if e.receives {
		c.RecvCQ = e.recvQ.cq
	}
	if e.srq != nil {
		c.SRQ = e.srq.srq
	}
	if e.domain != nil {
		c.XRCD = e.domain.xrcd
	}
	q, err := n.HCA.CreateQP(e.pd, c)
	e.w.Must(err)
	e.qp, e.num = q, q.Num()
	e.wire.e, e.paths.e, e.delays.e = e, e, e
	if n.ends[e.num] != nil {
		e.w.Fail("leak", "adapter %d gives away QPN %v, which is in use", n.Index, e.num)
	}
	n.ends[e.num] = e
}

func (e *end) typ() ib.QPType { return e.qp.Type() }

// start starts a new connection in the model.
func (e *end) start(t terms, own int) {
	e.terms, e.own = t, own
	e.gen++
	e.since = e.w.Net.Serial
	e.forget()
	e.space.restart(e.gen)
	// The causes of the peer's errors are kept until now, because its last
	// packets may have been in the network when this end was reset.
	e.commEst, e.localGone, e.remGone, e.latest = false, false, false, nil
	shared := e.srq != nil // other queue pairs post there too
	e.shortRecv, e.badRecv = shared, shared
	e.wire, e.paths = watcher{e: e}, paths{e: e}
	e.delays = delays{e: e, since: e.w.Now, heard: e.w.Now}
}

// forget empties the model of the queues, as RESET does with the queues.
func (e *end) forget() {
	for _, o := range e.sq {
		o.drop()
	}
	e.sq, e.inbox = nil, nil
	for _, v := range e.rq {
		v.drop()
	}
	e.rq = nil
	e.failed, e.mayFail, e.fatalDue, e.lastWQE = false, false, false, false
	e.drainAsk, e.failing, e.fullCQ = false, false, false
}

// attr returns the attributes of the present connection.
func (e *end) attr() ib.QPAttr {
	t, gid := &e.terms, e.paths.gid()
	return ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush, PathMTU: e.pair.mtu, DestQPN: e.peer.num,
		RQPSN: t.psn[1-e.own], SQPSN: t.psn[e.own], MaxDestRDAtomic: t.depth, MaxRDAtomic: t.depth,
		MinRNRTimer: t.rnrTimer, Timeout: t.timeout, RetryCnt: t.retryCnt, RNRRetry: t.rnrRetry,
		AV: e.peer.node.destination(gid),
	}
}

// climb moves the queue pair from one state to the next.
func (e *end) climb(a *ib.QPAttr, from, to ib.QPState) {
	for st := from; st <= to; st++ {
		if e.state != st-1 {
			return // its CQ overflowed on the way
		}
		a.State = st
		need, _, _ := qp.Transition(e.typ(), st-1, st)
		e.modify(a, need|ib.AttrState)
	}
}

// modify modifies the queue pair, which must succeed.
func (e *end) modify(a *ib.QPAttr, mask ib.AttrMask) {
	if err := e.qp.Modify(e.w.Now, a, mask); err != nil {
		e.w.Fail("state", "adapter %d qp %v: %v", e.node.Index, e.num, err)
		return
	}
	e.node.wake(nil)
}

// reset moves the queue pair to RESET: its work requests and unpolled
// completions vanish (Q5).
func (e *end) reset() {
	e.settle()
	e.dropCompletions()
	e.forget()
	e.modify(&ib.QPAttr{State: ib.RESET}, ib.AttrState)
}

// destroy destroys the queue pair in any state (V13).
func (e *end) destroy() {
	e.delays.leaves()
	e.settle()
	e.dropCompletions()
	e.forget()
	e.node.HCA.DestroyQP(e.pd, e.qp)
	delete(e.node.ends, e.num)
	e.qp, e.state = nil, ib.RESET
	e.space.close()
	e.node.wake(nil)
}

// settle ends the predictions about memory that the peer's requests write.
func (e *end) settle() {
	e.space.resolve("the connection ended")
	e.leavesReceives()
	e.gone()
	if e.pair != nil {
		e.pair.broken = true
		e.pair.stirred()
	}
}

// queues returns the completion queues of the queue pair.
func (e *end) queues() (all []*queue) {
	for _, c := range []*queue{e.sendQ, e.recvQ} {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// dropCompletions removes the end's completions from the model of its CQs.
func (e *end) dropCompletions() {
	for _, c := range e.queues() {
		c.want = slices.DeleteFunc(c.want, func(p pushed) bool { return p.QPN == e.num })
	}
}

// vanish removes an end whose adapter restarts.
func (e *end) vanish() {
	e.settle()
	e.forget()
	e.qp, e.state = nil, ib.RESET
}

// disturb records that a packet between two nodes was harmed.
func (w *world) disturb(a, b *node) {
	w.harmed()
	w.shaken = true
	for _, p := range w.pairs {
		if p.at[0] == a && p.at[1] == b || p.at[0] == b && p.at[1] == a {
			p.disturbed++
			p.harmed()
		}
	}
}

// destination returns the address vector of the path to one of the node's addresses.
func (n *node) destination(gid int) ib.AHAttr {
	return ib.AHAttr{DGID: ib.GIDFromAddr(n.Addrs[gid]), SGIDIndex: uint8(gid), HopLimit: 64, Port: 1}
}

// header holds the fields of a packet that the oracle reads.
type header struct {
	op     roce.Opcode
	rc     roce.Opcode // the opcode of RC for the same packet
	dest   ib.QPN
	psn    ib.PSN
	aeth   roce.Syndrome
	srqn   ib.SRQN
	length uint32 // of the RETH of a READ
	empty  bool   // an RETH of zeros
}

// headerOf reads a packet that has at least a BTH; damaged packets are not
// read.
func headerOf(b []byte) header {
	if len(b) < 12 {
		return header{}
	}
	h := header{
		op:   roce.Opcode(b[0]),
		rc:   inRC(roce.Opcode(b[0])),
		dest: ib.QPN(uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7])),
		psn:  ib.NewPSN(uint32(b[9])<<16 | uint32(b[10])<<8 | uint32(b[11])),
	}
	if h.op.Info().Headers&roce.HasAETH != 0 && len(b) > 12 {
		h.aeth = roce.Syndrome(b[12])
	}
	reth := b[12:]
	if h.op.Info().Headers&roce.HasXRCETH != 0 && len(reth) >= 4 {
		h.srqn = ib.SRQN(binary.BigEndian.Uint32(reth) & 0xffffff)
		reth = reth[4:]
	}
	if len(reth) < 16 {
		return h
	}
	if h.rc == roce.RCRDMAReadRequest {
		h.length = binary.BigEndian.Uint32(reth[12:])
	}
	h.empty = h.rc == roce.RCRDMAWriteOnly && [16]byte(reth) == [16]byte{}
	return h
}
