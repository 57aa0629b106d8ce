package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// action is one action of a program, or a random fault.
type action uint8

const (
	actSend action = iota
	actRecv
	actPoll
	actMend // reconnect broken connections, resume stopped ones
	actBadSend
	actBadRecv
	actShortRecv
	actRefused
	actDeregRemote
	actDeregLocal
	actToERR
	actToRESET
	actReconnect
	actDestroy
	actSQD
	actResizeCQ
	actRestart
	actPartition
	actJump
	actForge
	actRearm
	actMigrate
	actCutPath
	actLoseAddress
	actDestroySRQ
	actArm
	actModerate
	actMeet
	actGarble
	actStall
	numActions
)

var actionNames = [numActions]string{
	"send", "receive", "poll", "mend", "bad send", "bad receive", "short receive", "refused call",
	"deregister remote region", "deregister local region", "to ERR", "to RESET", "reconnect", "destroy", "SQD",
	"resize CQ", "restart adapter", "cut off adapter", "clock jump", "forge",
	"load alternate path", "migrate", "cut path", "lose address",
	"destroy shared receive queue", "arm", "moderate", "meet again", "write garbage", "stop thread",
}

func (a action) String() string { return actionNames[a] }

// act does action number i. Its random choices depend only on i, so leaving out
// another action does not change them.
func (w *world) act(i int) {
	r := w.Rand
	a := action(virtual.Draw(r, w.plan.acts[:]))
	w.did[a]++
	w.Say(virtual.Nobody, "action %d: %v", i, a)
	p := w.pairs[r.IntN(len(w.pairs))]
	e := p.ends[r.IntN(2)]
	switch a {
	case actSend:
		w.actSend(e, r)
	case actRecv:
		e.actRecv(r)
	case actPoll:
		w.actPoll(r)
	case actMend:
		w.actMend(p, r)
	case actRestart:
		w.restart(w.nodes[r.IntN(len(w.nodes))], r)
	case actPartition:
		n := w.nodes[r.IntN(len(w.nodes))]
		w.cut[n] = w.Now.Add(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
	case actJump:
		w.jump(time.Duration(r.Int64N(int64(2 * time.Second))))
	case actResizeCQ:
		w.actResizeCQ(r)
	case actArm:
		w.actArm(r)
	case actModerate:
		w.actModerate(r)
	case actCutPath:
		w.cutPath(r)
	case actLoseAddress:
		w.loseAddress(r)
	case actMeet, actGarble, actStall:
		w.nodes[r.IntN(len(w.nodes))].carrier.perturb(a, e, r)
	default:
		if e.qp != nil {
			w.perturb(a, e, r)
		}
	}
}

// perturb performs the actions that need a queue pair.
func (w *world) perturb(a action, e *end, r *rand.Rand) {
	switch a {
	case actBadSend:
		e.sendSome(r, 1+r.IntN(3), true)
	case actBadRecv:
		if e.srq == nil && e.state >= ib.INIT && e.reliable && e.receives {
			e.postRecv(w.plan.slot, true)
			e.node.wake(e)
		}
	case actShortRecv:
		if e.srq == nil && e.state >= ib.INIT && e.reliable && e.receives {
			e.shortRecv = true
			e.postRecv(r.IntN(w.plan.slot), false)
			e.node.wake(e)
		}
		if e.domain != nil {
			e.domain.postShort(r)
		}
	case actRefused:
		e.actRefused(r)
	case actDeregRemote:
		e.remGone = true
		e.space.deregister(true)
	case actDeregLocal:
		e.localGone = true
		e.space.deregister(false)
	case actToERR:
		if e.state != ib.ERR {
			e.modify(&ib.QPAttr{State: ib.ERR}, ib.AttrState)
		}
	case actToRESET:
		e.reset()
	case actReconnect:
		w.connect(e.pair, r, r.IntN(2) == 0)
	case actDestroy:
		e.destroy()
	case actSQD:
		e.actSQD(r)
	case actForge:
		w.forge(e, r)
	case actDestroySRQ:
		e.domain.replace(r)
	case actRearm:
		e.paths.rearm()
		if e.peer.qp != nil && r.IntN(4) > 0 { // as connection managers do for both ends
			e.peer.paths.rearm()
		}
	case actMigrate:
		e.paths.migrate()
	}
}

// actSend posts some sends on a connection, or a datagram.
func (w *world) actSend(e *end, r *rand.Rand) {
	if r.IntN(6) == 0 {
		w.sendDatagram(r)
		return
	}
	if !e.posts {
		e = e.peer
	}
	if e.qp != nil && e.state >= ib.RTS {
		e.sendSome(r, 1+r.IntN(6), false)
	}
}

// sendSome posts n sends with one doorbell.
func (e *end) sendSome(r *rand.Rand, n int, bad bool) {
	if e.state < ib.RTS || e.peer.qp == nil || !e.posts {
		return
	}
	for range n {
		if len(e.sq) >= int(endCap.MaxSendWR) {
			break
		}
		o := e.draw(r, bad)
		if o == nil {
			break
		}
		o.signaled = o.signaled || e.unsignaled() >= 6
		if bad && o.bad == flawless {
			o.spoil(r)
		}
		e.post(o)
	}
	e.node.wake(e)
}

// draw draws a work request, perhaps one that changes a window.
func (e *end) draw(r *rand.Rand, bad bool) *op {
	if e.w.plan.on(windows) {
		if bad && r.IntN(4) == 0 {
			if o := e.space.remote.binding.bindAgain(r); o != nil {
				return o
			}
		}
		if o := e.manage(r); o != nil {
			return o
		}
	}
	return e.makeOp(r)
}

// unsignaled returns the number of unsignalled sends at the end of the queue.
func (e *end) unsignaled() int {
	n := 0
	for i := len(e.sq) - 1; i >= 0 && !e.sq[i].signaled; i-- {
		n++
	}
	return n
}

// actRecv posts receives, up to the number that the program keeps posted.
func (e *end) actRecv(r *rand.Rand) {
	if e.qp == nil || e.state == ib.RESET {
		return
	}
	if e.srq != nil {
		for range 1 + r.IntN(e.w.plan.recvs) {
			e.postRecv(e.w.plan.slot, false)
		}
		e.node.wake(e)
		return
	}
	e.fillRecvs(1 + r.IntN(e.w.plan.recvs))
}

// actPoll polls the queues of one adapter: all entries if no queue may
// overflow, otherwise some entries of one queue.
func (w *world) actPoll(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	if w.plan.on(smallCQs) {
		n.poll(n.cqs[r.IntN(len(n.cqs))], 1+r.IntN(len(w.wcs)))
		return
	}
	for _, c := range n.cqs {
		for len(c.want) > 0 && w.Violation == nil {
			if n.poll(c, len(w.wcs)) == 0 {
				break // the others are late
			}
		}
	}
}

// actMend repairs a connection.
func (w *world) actMend(p *pair, r *rand.Rand) {
	dead := p.broken
	for _, e := range p.ends {
		if e.qp == nil || e.state == ib.ERR || e.state == ib.RESET {
			dead = true
			continue
		}
		e.resume()
	}
	if dead {
		w.connect(p, r, r.IntN(4) == 0)
	}
	for _, n := range w.nodes {
		if n.ud == nil || n.ud.state != ib.RTS || n.ud.sendQ.failed || n.ud.recvQ.failed {
			w.connectUD(n, r)
		}
		n.ud.fillRecvs(w.plan.recvs)
	}
	w.mendDomains(r)
	w.addressesBack()
}

// resume moves an end from SQD, if it has drained, from SQE, or from RTR to
// RTS.
func (e *end) resume() {
	switch {
	case e.state == ib.RTR:
		a := e.attr()
		e.climb(&a, ib.RTS, ib.RTS)
	case e.state == ib.SQE:
		e.modify(&ib.QPAttr{State: ib.RTS, CurState: ib.SQE}, ib.AttrState|ib.AttrCurState)
	case e.drained():
		if e.drainAsk {
			e.w.Fail("event", "adapter %d qp %v: the send queue has drained without SQ_DRAINED", e.node.Index, e.num)
		}
		e.modify(&ib.QPAttr{State: ib.RTS, CurState: ib.SQD}, ib.AttrState|ib.AttrCurState)
	}
}

// actSQD drains, or resumes.
func (e *end) actSQD(r *rand.Rand) {
	if e.state != ib.RTS {
		e.resume()
		return
	}
	e.drainAsk = r.IntN(2) == 0
	e.modify(&ib.QPAttr{State: ib.SQD, EnSQDAsyncNotify: e.drainAsk}, ib.AttrState|ib.AttrEnSQDAsyncNotify)
}

// actRefused makes a call that must be refused and change nothing (V9, Q3, Q4,
// Q6).
func (e *end) actRefused(r *rand.Rand) {
	before := e.qp.Query()
	what := ""
	var err error
	switch r.IntN(3) {
	case 0:
		to := ib.QPState(r.IntN(ib.NumQPStates))
		if moves[[2]ib.QPState{e.state, to}] || to == ib.RESET || to == ib.ERR || to == e.state {
			return
		}
		what = "modify to " + to.String()
		a := e.attr()
		a.State = to
		err = e.qp.Modify(e.w.Now, &a, ib.AttrState)
	case 1:
		what = "modify without the attributes"
		if e.state != ib.RESET {
			return
		}
		err = e.qp.Modify(e.w.Now, &ib.QPAttr{State: ib.INIT}, ib.AttrState)
	default:
		if e.state >= ib.RTS {
			return
		}
		what = "post send in " + e.state.String()
		_, err = e.qp.PostSend(ib.SendWR{Opcode: ib.WRSend})
	}
	if err == nil || e.qp.Query() != before {
		e.w.Fail("post", "adapter %d qp %v: %s: error %v, and something changed or should have been refused", e.node.Index, e.num, what, err)
	}
}

// actResizeCQ changes the size of a queue, if the waiting entries fit.
func (w *world) actResizeCQ(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	c := n.cqs[r.IntN(len(n.cqs))]
	size := uint32(1 + r.IntN(64))
	err := n.HCA.CQs().Resize(c.cq, size)
	if fits := int(c.cq.Cap()) >= len(c.want); !fits || err != nil && len(c.want) <= int(size) {
		w.Fail("poll", "adapter %d: resize to %d with %d entries waiting: %v, now %d", n.Index, size, len(c.want), err, c.cq.Cap())
	}
	w.resizeSRQ(n, 2*size)
}

// resizeSRQ changes the size of an adapter's shared receive queue. It may refuse only if the posted
// receives, of which some may have left the queue, are more.
func (w *world) resizeSRQ(n *node, size uint32) {
	s := n.srq
	err := n.PD.ResizeSRQ(s.srq, size)
	if wr, _ := s.srq.Cap(); err == nil && wr < size || err != nil && len(s.posted) <= int(size) {
		w.Fail("message", "adapter %d: resize to %d with %d receives posted: %v, now %d", n.Index, size, len(s.posted), err, wr)
	}
}

// restart destroys an adapter with all its objects without notice, and opens it
// again.
func (w *world) restart(n *node, r *rand.Rand) {
	n.audit()
	if n.carrier != nil {
		n.carrier.close(r.IntN(2) == 0)
		n.strained()
	}
	for _, p := range w.pairs {
		for i, e := range p.ends {
			if p.at[i] == n && e.qp != nil {
				e.vanish()
			}
		}
	}
	n.open()
	w.connectUD(n, r)
}

// forge sends an adapter a packet that is valid except for its sender, its
// partition or its service, or that is a response to no request.
func (w *world) forge(e *end, r *rand.Rand) {
	if e.state < ib.RTR || !e.reliable || e.peer.qp == nil {
		w.forgeDatagram(e.node, r)
		return
	}
	if e.domain != nil && r.IntN(2) == 0 {
		w.forgeRequest(e, r)
		return
	}
	if r.IntN(3) == 0 {
		w.forgeClaim(e, r)
		return
	}
	a := e.qp.Query()
	p := roce.Packet{
		BTH:     roce.BTH{Opcode: inService(roce.RCRDMAWriteOnly, e.service), PKey: ib.PKeyDefault, DestQP: e.num, PSN: a.RQPSN, AckReq: true},
		RETH:    roce.RETH{VA: e.space.remote.base(), RKey: e.space.remote.rkey(), Length: 16},
		Payload: w.text.pattern(r.Uint64N(patternWords), 16),
	}
	if e.domain != nil {
		p.XRCETH.SRQN = uint32(e.domain.any(r).srq.Num())
	}
	rt := e.paths.route()
	src, dst := rt.to, e.node.Addrs[e.paths.gid()]
	ghost := false
	switch r.IntN(4) {
	case 0:
		src = src.Next().Next().Next().Next().Next().Next().Next()
	case 1:
		p.BTH.PKey = 0x1234
	case 2:
		p.BTH.Opcode = inService(roce.RCRDMAWriteOnly, roce.ServiceUC)
	case 3: // a response of the peer to a request that was never sent (E23), or a request to an end that takes none
		if ghost = true; e.service == roce.ServiceXRC && e.posts {
			break
		}
		p.BTH.Opcode, p.BTH.AckReq, p.Payload = inService(roce.RCAcknowledge, e.service), false, nil
		p.BTH.PSN, p.AETH.Syndrome = a.SQPSN.Add(1000), roce.ACKUnlimited
	}
	pkt := w.inject(&p, e.node, [2]netip.Addr{src, dst})
	if pkt.Forged = forged; ghost {
		pkt.Forged, pkt.Serial = "", 0 // the oldest possible: it must have no effect
	}
}

// forgeClaim sends an end, in its peer's name, a NAK that would end the connection, or an
// implausible answer. Its PSN may be in flight.
func (w *world) forgeClaim(e *end, r *rand.Rand) {
	p := roce.Packet{
		BTH:  roce.BTH{Opcode: inService(roce.RCAcknowledge, e.service), PKey: ib.PKeyDefault, DestQP: e.num, PSN: e.qp.Query().SQPSN.Add(1<<24 - 1 - r.Uint32N(8))},
		AETH: roce.AETH{MSN: ib.MSN(r.Uint32N(64))},
	}
	switch r.IntN(3) {
	case 0:
		p.AETH.Syndrome = roce.NAKRemoteAccess
	case 1:
		p.AETH.Syndrome = roce.NAKInvalidRequest
	default:
		p.BTH.Opcode, p.Payload = inService(roce.RCRDMAReadResponseMiddle, e.service), w.text.pattern(r.Uint64N(patternWords), 16)
	}
	pkt := w.inject(&p, e.node, [2]netip.Addr{e.paths.route().to, e.node.Addrs[e.paths.gid()]})
	if !e.posts { // a target takes no answers
		pkt.Serial = 0
		return
	}
	if p.BTH.Opcode == inService(roce.RCRDMAReadResponseMiddle, e.service) {
		e.wire.forgesAnswer(p.BTH.PSN)
	}
	e.wire.lied = true
	pkt.Claim = e.state < ib.RTS || e.qp.Query().SQPSN == e.terms.psn[e.own]
}

// forgeDatagram sends an adapter's UD queue pair a message with another Q_Key.
func (w *world) forgeDatagram(n *node, r *rand.Rand) {
	if n.ud == nil || n.ud.state < ib.RTR {
		return
	}
	p := roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: n.ud.num},
		DETH:    roce.DETH{QKey: simQKey + 1, SrcQP: n.ud.num},
		Payload: w.text.pattern(r.Uint64N(patternWords), 16),
	}
	w.inject(&p, n, [2]netip.Addr{n.Addrs[0].Next(), n.Addrs[0]}).Forged = forged
}

// inject sends a forged packet from the first address to the second.
func (w *world) inject(p *roce.Packet, to *node, way [2]netip.Addr) *virtual.Packet {
	return w.send(to, virtual.Forgery(p, way[0], way[1], 49152), 1, 0)
}

// forged is why a forged packet fails a run.
const forged = "a forged packet had an effect"
