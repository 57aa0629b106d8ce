package sim

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// moves are the edges of the state machine that a program may take, apart from
// those to RESET and ERR, which it may always take (Q2, Q3).
var moves = map[[2]ib.QPState]bool{
	{ib.RESET, ib.INIT}: true, {ib.INIT, ib.RTR}: true, {ib.RTR, ib.RTS}: true,
	{ib.RTS, ib.SQD}: true, {ib.SQD, ib.RTS}: true, {ib.SQE, ib.RTS}: true,
}

// byModify is the cause of a move that the program asked for.
const byModify = "modify"

// moved checks a change of state (Q1–Q3, Q14, Q18).
func (e *end) moved(r *trace.Record) {
	w := e.w
	w.markMove(r)
	if r.From != e.state {
		w.fail("state", "adapter %d qp %v moves from %v, and was in %v", e.node.index, e.num, r.From, e.state)
	}
	e.state = r.To
	if e.pair != nil {
		e.pair.stirred()
	}
	if r.To == ib.ERR || r.To == ib.RESET {
		e.leaves()
	}
	legal := moves[[2]ib.QPState{r.From, r.To}] || r.To == ib.RESET || r.To == ib.ERR
	if r.Cause != byModify {
		switch r.To {
		case ib.ERR:
			legal = e.trouble && r.From != ib.RESET
			e.fatalDue = e.sendQ.failed || e.recvQ.failed // no completion can report that
		case ib.SQE:
			legal = e.typ() != ib.RC && e.failed && (r.From == ib.RTS || r.From == ib.SQD)
		default:
			legal = false
		}
	}
	if !legal {
		w.fail("state", "adapter %d qp %v moves from %v to %v by itself or against the rules (%s)", e.node.index, e.num, r.From, r.To, r.Cause)
	}
	switch r.To {
	case ib.ERR:
		e.lastWQE = e.srq != nil
		e.node.watch = append(e.node.watch, e)
	case ib.RTS:
		e.failed = false
	}
}

// event checks that an event had to come, and comes once.
func (e *end) event(t ib.EventType) {
	due := false
	switch t {
	case ib.EventQPFatal:
		due, e.fatalDue = e.fatalDue, false
	case ib.EventQPLastWQEReached:
		due, e.lastWQE = e.lastWQE, false
	case ib.EventSQDrained:
		due, e.drainAsk = e.drainAsk && e.state == ib.SQD, false
	case ib.EventCommEst:
		due, e.commEst = !e.commEst && e.state == ib.RTR, true
	case ib.EventPathMig:
		due = e.changePath()
	case ib.EventPathMigErr:
		due = e.paths.asked
	case ib.EventQPReqErr, ib.EventQPAccessErr:
		due, e.trouble, e.doomed = true, true, true
		e.node.watch = append(e.node.watch, e)
	}
	if !due {
		e.w.fail("event", "adapter %d qp %v: %v in state %v, and nothing calls for it", e.node.index, e.num, t, e.state)
	}
}

// checkSettled looks at an end after a step in which something went wrong
// there: its state has followed, everything is flushed, and the events are
// out.
func (e *end) checkSettled() {
	if e.qp == nil {
		return
	}
	w := e.w
	if e.state != e.qp.State() {
		w.fail("state", "adapter %d qp %v is in %v and nobody was told: last seen in %v", e.node.index, e.num, e.qp.State(), e.state)
	}
	switch {
	case e.state == ib.ERR:
		e.checkFlushed()
	case e.doomed && e.state != ib.RESET:
		w.fail("state", "adapter %d qp %v: a request of the peer or a receive failed and the state is %v, want ERR", e.node.index, e.num, e.state)
	case e.failed && e.typ() == ib.RC:
		w.fail("state", "adapter %d qp %v: a send failed and the state is %v", e.node.index, e.num, e.state)
	case e.failed && e.state != ib.SQE && e.state != ib.RESET:
		w.fail("state", "adapter %d qp %v: a send failed and the state is %v, want SQE", e.node.index, e.num, e.state)
	case e.state == ib.SQE:
		e.checkSendFlushed()
	}
}

// checkSendFlushed looks at the sends that a stopped queue leaves without a
// completion: they can only be unsignalled ones at its end that succeeded
// before it stopped.
func (e *end) checkSendFlushed() {
	for _, o := range e.sq {
		if o.signaled || e.failed {
			e.w.fail("flush", "adapter %d qp %v: %v leaves wr_id %d without completion", e.node.index, e.num, e.state, o.id)
			return
		}
		e.succeeded(o)
	}
	e.sq = nil
}

// checkFlushed: entering ERR completes everything (Q19).
func (e *end) checkFlushed() {
	w := e.w
	e.checkSendFlushed()
	if len(e.rq) > 0 {
		w.fail("flush", "adapter %d qp %v: ERR leaves %d receives without completion", e.node.index, e.num, len(e.rq))
	}
	if e.fatalDue {
		w.fail("event", "adapter %d qp %v went to ERR because its completion queue overflowed, without QP_FATAL", e.node.index, e.num)
	}
	if e.lastWQE {
		w.fail("event", "adapter %d qp %v: ERR with a shared receive queue and no LAST_WQE_REACHED", e.node.index, e.num)
	}
}

// watcher is what the oracle sees of an end on the wire.
type watcher struct {
	rounds      int    // times that sending went back since the last completion
	rnrs        int    // times that it waited for its peer to be ready since then
	disturbed   uint64 // of the pair, then
	naks        int    // sequence NAKs that arrived and led to no retry
	answers     int    // responses likewise
	last        ib.PSN // of the last request sent
	newest      ib.PSN // the most that a request has had
	answered    ib.PSN // the most that an answer has had
	astray      bool   // it drops the peer's packets because of the path over which they come
	sent        bool
	rnr         time.Duration // what the RNR NAK being processed asks for
	silent      clock.Instant // nothing is sent before: the peer was not ready
	lastTimeout clock.Instant
	began       clock.Instant // first request of the connection
	stuckAt     ib.PSN        // where sending last went back to
	retries     int           // that went back there, for want of an answer
	waits       int           // likewise, because the peer was not ready
	lied        bool          // a stranger has claimed that the peer refuses
	deceived    bool          // and was believed
	ended       bool          // because the program ended the connection
	claimed     uint64        // disturbed of the pair, when the last claim came
	examines    bool          // a claim
	probes      int           // that may be sent to examine what packets claimed
}

// Records of challenges begin with challenged and what is examined.
const (
	challenged    = "challenge: "
	peerAnswers   = challenged + "the peer answers"
	peerIsSilent  = challenged + "the peer is silent"
	programEnds   = challenged + "the connection ends"
	probesOfClaim = 3
)

// challenge is called when the adapter examines a claim about the end's peer, or has.
func (e *end) challenge(r *trace.Record) {
	switch r.Cause {
	case peerAnswers:
		e.w.mark("claim refuted")
		e.examined()
	case peerIsSilent:
		e.w.mark("claim believed")
		e.wire.deceived = e.wire.lied
		e.examined()
	case programEnds:
		e.wire.deceived, e.wire.ended = e.wire.lied, true
	default:
		e.wire.probes = probesOfClaim
		e.wire.claimed, e.wire.examines = e.pair.disturbed, true
		e.pair.examines()
	}
}

// silentPeer reports whether the peer cannot have answered, or all of its answers to a challenge
// can have been lost.
func (e *end) silentPeer() bool {
	p := e.peer
	return p.state < ib.RTR || p.state == ib.ERR || e.pair.broken || e.paths.at != p.paths.at ||
		e.pair.disturbed-e.wire.claimed >= probesOfClaim || len(e.w.net.cut) > 0
}

// isProbe reports whether a packet is a probe of a challenge, of which there are only so many.
func (e *end) isProbe(h header) bool {
	x := &e.wire
	if x.probes == 0 || x.sent && h.psn.Diff(x.newest) > 0 {
		return false // a WRITE of no bytes
	}
	x.probes--
	return true
}

// progress is called when a request of the end succeeds.
func (e *end) progress() {
	x := &e.wire
	x.rounds, x.rnrs = 0, 0
	if e.pair != nil {
		x.disturbed = e.pair.disturbed
	}
}

// drained reports whether the end is in SQD with nothing left to finish.
func (e *end) drained() bool { return e.state == ib.SQD && !e.qp.Query().SQDraining }

// sniff looks at a packet that an adapter sends.
func (w *world) sniff(n *node, run *fabric.Run, seg []byte) {
	n.tally.sent++
	if w.verbose() {
		w.note(n, "->", seg)
	}
	h := headerOf(seg)
	if h.op.Service() != roce.ServiceRC || h.op.Info().Flags&roce.FlagResponse != 0 {
		return
	}
	e := w.routes[route{n, run.Path.Dst, h.dest}]
	if e == nil {
		w.fail("wire", "adapter %d sends %v to queue pair %v at %v, which none of its own is connected to", n.index, h.op, h.dest, run.Path.Dst)
		return
	}
	x := &e.wire
	if run.Path.Dst != e.route().to {
		w.fail("wire", "adapter %d qp %v sends %v PSN %v over a path that it has left, or has not moved to", n.index, e.num, h.op, h.psn)
	}
	if h.empty && e.isProbe(h) {
		return
	}
	if e.drained() {
		w.fail("wire", "adapter %d qp %v sends %v PSN %v after its send queue has drained", n.index, e.num, h.op, h.psn)
	}
	if w.now < x.silent {
		w.fail("rnr", "adapter %d qp %v sends PSN %v %v before the RNR timer of its peer has run out", n.index, e.num, h.psn, x.silent.Sub(w.now))
	}
	if !x.sent {
		x.began = w.now
	} else if !n.inOrder && h.psn.Diff(x.last.Next()) > 0 {
		w.mark("L1 repaired")
	}
	first := !x.sent
	x.last, x.sent = h.psn, true
	if h.op == roce.RCRDMAReadRequest { // it takes the PSNs of its answers too
		packets := (int(h.length) + e.pair.mtu.Bytes() - 1) / e.pair.mtu.Bytes()
		x.last = h.psn.Add(uint32(max(packets, 1) - 1))
	}
	if first || x.last.Diff(x.newest) > 0 {
		if first || x.newest.Diff(x.answered) <= 0 { // nothing was in flight: from now on the end waits for its peer
			e.news("a request", w.now)
		}
		x.newest = x.last
	}
}

// route is what tells an end from a packet that it sent.
type route struct {
	from *node
	to   netip.Addr
	dest ib.QPN
}

// route returns the end's own.
func (e *end) route() route {
	return route{e.node, e.peer.node.addrs[e.gid()], e.peer.num}
}

// arrives looks at a packet for an end before its adapter does.
func (e *end) arrives(h header) {
	x := &e.wire
	switch {
	case h.op == roce.RCAcknowledge && h.aeth.IsRNR():
		x.rnr = ib.RNRTimer(h.aeth.Value())
	case h.op == roce.RCAcknowledge && h.aeth == roce.NAKSequence:
		x.naks++
	}
	if h.op.Info().Flags&roce.FlagResponse != 0 {
		x.answers++
		if x.sent && h.psn.Diff(x.newest) <= 0 && (x.answers == 1 || h.psn.Diff(x.answered) > 0) {
			x.answered = h.psn
		}
		e.hears(h)
	}
}

// repaired is called when the adapter sends something again without being told
// that it is lost, nor counting it (L1).
func (e *end) repaired(r *trace.Record) {
	w := e.w
	e.goesBack()
	if e.node.inOrder && r.Cause != "answer in doubt" {
		w.fail("repair", "adapter %d qp %v sends psn %v again (%s), and takes packets in order only", e.node.index, e.num, r.PSN, r.Cause)
	}
	switch r.Cause {
	case "probe":
		w.mark("L1 probe")
	case "answer in doubt":
		w.mark("answer in doubt")
	default:
		w.mark("L1 repair went no further")
	}
}

// fromNews wants no more retries than there was news to begin them (L1).
func (e *end) fromNews(news *int, r *trace.Record) {
	if *news--; *news < 0 {
		e.w.fail("retry", "adapter %d qp %v goes back to psn %v (%s), and nothing that arrived says so", e.node.index, e.num, r.PSN, r.Cause)
	}
}

// notReady is the cause of going back that an RNR NAK is.
const notReady = "receiver not ready"

// countRetry wants no more retries without progress than the connection has
// (E8, E12): progress moves the place that sending goes back to.
func (e *end) countRetry(r *trace.Record) {
	x := &e.wire
	x.rounds++
	if r.PSN != x.stuckAt {
		x.stuckAt, x.retries, x.waits = r.PSN, 0, 0
	}
	switch r.Cause {
	case notReady:
		x.waits++
	case newPath:
		x.retries = 0
	default:
		x.retries++
	}
	if x.retries > int(e.terms.retryCnt) || e.terms.rnrRetry != ib.RNRInfiniteRetry && x.waits > int(e.terms.rnrRetry) {
		e.w.fail("retry", "adapter %d qp %v goes back to psn %v (%s) for time %d and, because its peer is not ready, %d: it has %d and %d retries",
			e.node.index, e.num, r.PSN, r.Cause, x.retries, x.waits, e.terms.retryCnt, e.terms.rnrRetry)
	}
}

// retried is called when the adapter goes back to send again.
func (e *end) retried(r *trace.Record) {
	w, x := e.w, &e.wire
	// A program that polls too little may lose its peer to a full CQ even so.
	if w.plan.has == 0 && r.Cause != notReady && e.peer.state != ib.ERR && !e.pair.broken {
		w.fail("timer", "adapter %d qp %v: sending goes back (%s), and nothing was lost", e.node.index, e.num, r.Cause)
	}
	e.countRetry(r)
	e.goesBack()
	switch r.Cause {
	case notReady:
		w.mark("E12 requester waits")
		x.rnrs++
		x.silent = w.now.Add(x.rnr)
	case "timeout":
		w.mark("E5 timeout")
		wait := ib.AckTimeout(e.terms.timeout)
		if since := max(x.lastTimeout, x.began); x.sent && w.now.Sub(since) < wait {
			w.fail("timer", "adapter %d qp %v: the retry timer of %v fires %v after it was started", e.node.index, e.num, wait, w.now.Sub(since))
		}
		x.lastTimeout = w.now
	case newPath:
	case "implied NAK":
		w.mark("E22 implied NAK")
		e.fromNews(&x.answers, r)
	default:
		w.mark("E8 sequence NAK")
		e.fromNews(&x.naks, r)
	}
}
