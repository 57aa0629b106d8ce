package sim

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// An extended reliable connection (XRC) has an initiator, which only sends, and a target, which
// has no queues: each request names a shared receive queue of the target's domain. The shared queue
// provides the receive, the completion queue and the protection domain of the keys.

// domain is an XRC domain of a node.
type domain struct {
	node   *node
	xrcd   *qp.XRCD
	queues []*sharedQueue
	dead   []remains
	doomed bool // the program destroys a queue in the middle of its next message
}

// remains is the memory of a destroyed shared receive queue, and what it contained then.
type remains struct{ buf, want []byte }

const (
	numDomains      = 2  // of a node
	domainQueues    = 3  // of a domain; the last one is in another protection domain
	domainReceives  = 16 // of a queue
	domainSlots     = 2 * domainReceives
	lastInOwnDomain = domainQueues - 2
	mostRemains     = 8 // of a domain
)

// openDomains creates the node's domains, with their queues.
func (n *node) openDomains() {
	w := n.w
	for _, d := range n.domains { // of the adapter before a restart
		for _, q := range d.queues {
			q.gone = true
		}
	}
	if n.domains = nil; !w.plan.on(xrc) {
		return
	}
	var err error
	n.otherPD, err = n.HCA.AllocPD()
	w.Must(err)
	for range numDomains {
		d := &domain{node: n, queues: make([]*sharedQueue, domainQueues)}
		d.xrcd, err = n.HCA.OpenXRCD()
		w.Must(err)
		for i := range d.queues {
			d.open(i, n.cqs[i%len(n.cqs)])
		}
		n.domains = append(n.domains, d)
	}
}

// open creates queue i, whose receives complete to c.
func (d *domain) open(i int, c *queue) {
	n := d.node
	pd := n.PD
	if i > lastInOwnDomain {
		pd = n.otherPD
	}
	s, err := pd.CreateXRCSRQ(d.xrcd, c.cq, domainReceives, 2, 0)
	n.w.Must(err)
	d.queues[i] = &sharedQueue{
		srq: s, space: newSpace(n.w, n, spaceConfig{recv: domainSlots, pd: pd}), posted: make(map[uint64]*receive), pd: pd, cq: c,
	}
}

// destroy destroys queue i. Targets may be in the middle of messages to this queue: from now on, they
// must not write to its memory.
func (d *domain) destroy(i int) {
	q := d.queues[i]
	d.node.w.Must(q.pd.DestroySRQ(q.srq))
	q.gone = true
	q.space.close()
	buf := q.space.local.buf
	d.dead = append(d.dead, remains{buf, slices.Clone(buf)})
	d.dead = d.dead[max(0, len(d.dead)-mostRemains):]
}

// replace replaces one of the queues by a new one, now or in the middle of the next message. If d is
// nil, it does nothing.
func (d *domain) replace(r *rand.Rand) {
	if d == nil {
		return
	}
	if d.doomed = r.IntN(4) > 0; d.doomed {
		return
	}
	d.node.w.Mark("M4 SRQ destroyed")
	i := r.IntN(len(d.queues))
	d.destroy(i)
	d.open(i, d.node.healthyCQ(r))
	d.node.wake(nil)
}

// interrupt replaces the queue that a packet names, if its domain is doomed and the packet ends
// in the middle of a SEND.
func (n *node) interrupt(d *fabric.Datagram) {
	for off := 0; off < len(d.Bytes) && len(n.domains) > 0; {
		var seg []byte
		seg, off = d.Segment(off)
		h := headerOf(seg)
		e := n.ends[h.dest]
		if off < len(d.Bytes) || e == nil || e.domain == nil || !e.domain.doomed || h.rc != roce.RCSendFirst && h.rc != roce.RCSendMiddle {
			continue
		}
		e.domain.doomed = false
		i := slices.IndexFunc(e.domain.queues, func(q *sharedQueue) bool { return q.srq.Num() == h.srqn })
		if i < 0 {
			continue
		}
		n.w.Mark("M4 SRQ destroyed in a message")
		e.domain.destroy(i)
		e.domain.open(i, n.cqs[len(n.cqs)-1])
	}
}

// mendDomains replaces the queues whose completion queue has overflowed.
func (w *world) mendDomains(r *rand.Rand) {
	for _, n := range w.nodes {
		for _, d := range n.domains {
			for i, q := range d.queues {
				if q.cq.failed {
					w.Mark("M4 SRQ destroyed under its CQ")
					d.destroy(i)
					d.open(i, n.healthyCQ(r))
				}
			}
		}
	}
}

// closeDomains destroys the node's domains.
func (n *node) closeDomains() {
	for _, d := range n.domains {
		for i := range d.queues {
			d.destroy(i)
		}
		if err := n.HCA.CloseXRCD(d.xrcd); err != nil {
			n.w.Fail("leak", "adapter %d: %v", n.Index, err)
		}
	}
	if n.otherPD == nil {
		return
	}
	if err := n.otherPD.Dealloc(); err != nil {
		n.w.Fail("leak", "adapter %d: %v", n.Index, err)
	}
}

// sweepDomains compares the memory of the receives with the model.
func (n *node) sweepDomains() {
	for _, d := range n.domains {
		for _, q := range d.queues {
			q.space.sweep()
		}
		for _, m := range d.dead {
			if !bytes.Equal(m.buf, m.want) {
				n.w.Fail("memory", "adapter %d: the memory of a shared receive queue changed after it was destroyed", n.Index)
			}
		}
	}
}

// uses reports whether a queue of the domain completes to c.
func (d *domain) uses(c *queue) bool {
	return slices.ContainsFunc(d.queues, func(q *sharedQueue) bool { return q.cq == c })
}

// fill posts receives until each queue has n.
func (d *domain) fill(n int) {
	for _, q := range d.queues {
		for len(q.posted)-q.lost < n && q.post(d.node.w, d.node.w.plan.slot) {
		}
	}
}

// postShort posts a receive that is shorter than a message may be.
func (d *domain) postShort(r *rand.Rand) {
	q := d.any(r)
	q.short = true
	q.post(d.node.w, r.IntN(d.node.w.plan.slot))
	d.node.wake(nil)
}

func (d *domain) any(r *rand.Rand) *sharedQueue { return d.queues[r.IntN(len(d.queues))] }

// first returns a queue that is right for every request; nil if d is nil.
func (d *domain) first() *sharedQueue {
	if d == nil {
		return nil
	}
	return d.queues[0]
}

// draw draws the queue that a request names; nil if d is nil. Only SENDs name the last queue: no key
// is valid in its protection domain.
func (d *domain) draw(r *rand.Rand, c ib.WROpcode) *sharedQueue {
	switch {
	case d == nil:
		return nil
	case c == ib.WRSend || c == ib.WRSendWithImm:
		return d.any(r)
	}
	return d.queues[r.IntN(lastInOwnDomain+1)]
}

// misdirect makes a request name a wrong queue: a queue of another domain, an unknown one, or one in
// whose protection domain the key is not valid.
func (o *op) misdirect(r *rand.Rand) {
	d := o.end.peer.domain
	if needsKey := o.target != nil && o.length > 0 || o.word != nil; needsKey && r.IntN(2) == 0 {
		o.end.w.Mark("M4 SRQ of another PD")
		o.bad, o.queue = foreignQueue, d.queues[domainQueues-1]
		return
	}
	o.end.w.Mark("M4 wrong SRQ")
	o.bad, o.wr.RemoteSRQN = noQueue, ib.SRQN(r.Uint32N(1<<24))
	for _, other := range d.node.domains {
		if other != d && r.IntN(3) > 0 {
			o.wr.RemoteSRQN = other.any(r).srq.Num()
		}
	}
}

// forgeRequest sends a target the next request in its peer's name, from another port, for any of the
// queues and with an invalid key. The target has to ask its peer for the request, and to put the
// receive that it took back into its queue.
func (w *world) forgeRequest(e *end, r *rand.Rand) {
	psn := e.qp.Query().RQPSN
	if e.latest == nil || psn == e.wire.forgedAt || w.plan.on(migration) { // the end knows no port yet, or would believe a second one
		return
	}
	w.Mark("M4 forged request")
	e.wire.forgedAt = psn
	p := roce.Packet{
		BTH:     roce.BTH{Opcode: roce.XRCRDMAWriteOnlyWithImm, PKey: ib.PKeyDefault, DestQP: e.num, PSN: psn, AckReq: true},
		RETH:    roce.RETH{VA: 1, RKey: 1, Length: 16},
		XRCETH:  roce.XRCETH{SRQN: uint32(e.domain.any(r).srq.Num())},
		Payload: w.text.pattern(r.Uint64N(patternWords), 16),
	}
	w.disturb(e.node, e.peer.node)
	w.inject(&p, e.node, [2]netip.Addr{e.paths.route().to, e.node.Addrs[e.paths.gid()]}).Claim = true
}

// checkQueue checks that a message takes a receive of the queue that it names.
func (e *end) checkQueue(o *op, v *receive) {
	if o.queue != v.queue {
		e.w.Fail("message", "adapter %d qp %v: receive %d is of another shared receive queue than wr_id %d names", e.node.Index, e.num, v.id, o.id)
	}
	if e.latest != v.queue {
		e.w.Mark("M4 other SRQ than before")
	}
	e.latest = v.queue
}
