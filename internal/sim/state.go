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

// moves are the state transitions that a program may request, in addition to
// those to RESET and ERR, which are always legal (Q2, Q3).
var moves = map[[2]ib.QPState]bool{
	{ib.RESET, ib.INIT}: true, {ib.INIT, ib.RTR}: true, {ib.RTR, ib.RTS}: true,
	{ib.RTS, ib.SQD}: true, {ib.SQD, ib.RTS}: true, {ib.SQE, ib.RTS}: true,
}

// byModify is the cause of a move that the program requested.
const byModify = "modify"

// moved checks a change of state (Q1–Q3, Q14, Q18).
func (e *end) moved(r *trace.Record) {
	w := e.w
	w.Mark(moveMark(r))
	if r.From != e.state {
		w.Fail("state", "adapter %d qp %v moves from %v, and was in %v", e.node.Index, e.num, r.From, e.state)
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
			e.fatalDue = e.sendQ.failed || e.recvQ.failed // no completion can report it
		case ib.SQE:
			legal = e.typ() != ib.RC && e.failed && (r.From == ib.RTS || r.From == ib.SQD)
		default:
			legal = false
		}
	}
	if !legal {
		w.Fail("state", "adapter %d qp %v moves from %v to %v by itself or against the rules (%s)", e.node.Index, e.num, r.From, r.To, r.Cause)
	}
	switch r.To {
	case ib.ERR:
		e.lastWQE = e.srq != nil
		e.node.watch = append(e.node.watch, e)
	case ib.RTS:
		e.failed = false
	}
}

// event checks that an event is due, and occurs once.
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
		e.w.Fail("event", "adapter %d qp %v: %v in state %v, and nothing calls for it", e.node.Index, e.num, t, e.state)
	}
}

// checkSettled checks an end after a step with an error: its state has changed,
// everything is flushed, and the events are raised.
func (e *end) checkSettled() {
	if e.qp == nil {
		return
	}
	w := e.w
	if e.state != e.qp.State() {
		w.Fail("state", "adapter %d qp %v is in %v and nobody was told: last seen in %v", e.node.Index, e.num, e.qp.State(), e.state)
	}
	switch {
	case e.state == ib.ERR:
		e.checkFlushed()
	case e.doomed && e.state != ib.RESET:
		w.Fail("state", "adapter %d qp %v: a request of the peer or a receive failed and the state is %v, want ERR", e.node.Index, e.num, e.state)
	case e.failed && e.typ() == ib.RC:
		w.Fail("state", "adapter %d qp %v: a send failed and the state is %v", e.node.Index, e.num, e.state)
	case e.failed && e.state != ib.SQE && e.state != ib.RESET:
		w.Fail("state", "adapter %d qp %v: a send failed and the state is %v, want SQE", e.node.Index, e.num, e.state)
	case e.state == ib.SQE:
		e.checkSendFlushed()
	}
}

// checkSendFlushed checks the sends that a stopped queue leaves without a
// completion: they can only be unsignalled ones at the end of the queue that
// succeeded before it stopped.
func (e *end) checkSendFlushed() {
	for _, o := range e.sq {
		if o.signaled || e.failed {
			e.w.Fail("flush", "adapter %d qp %v: %v leaves wr_id %d without completion", e.node.Index, e.num, e.state, o.id)
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
		w.Fail("flush", "adapter %d qp %v: ERR leaves %d receives without completion", e.node.Index, e.num, len(e.rq))
	}
	if e.fatalDue {
		w.Fail("event", "adapter %d qp %v went to ERR because its completion queue overflowed, without QP_FATAL", e.node.Index, e.num)
	}
	if e.lastWQE {
		w.Fail("event", "adapter %d qp %v: ERR with a shared receive queue and no LAST_WQE_REACHED", e.node.Index, e.num)
	}
}

// watcher is the oracle's view of an end on the wire.
type watcher struct {
	rounds      int    // retransmissions since the last completion
	rnrs        int    // RNR waits since then
	disturbed   uint64 // of the pair, then
	naks        int    // received sequence NAKs that caused no retry
	answers     int    // responses that caused no retry
	last        ib.PSN // of the last request sent
	newest      ib.PSN // the most that a request has had
	answered    ib.PSN // the most that an answer has had
	astray      bool   // it drops the peer's packets because of the path over which they come
	sent        bool
	rnr         time.Duration // wait requested by the RNR NAK being processed
	silent      clock.Instant // end of an RNR wait
	lastTimeout clock.Instant
	began       clock.Instant // first request of the connection
	stuckAt     ib.PSN        // PSN of the last retransmission
	retries     int           // retransmissions from there after a timeout
	waits       int           // retransmissions from there after an RNR NAK
	lied        bool          // a forged NAK was sent
	deceived    bool          // the forged NAK was believed
	ended       bool          // because the program ended the connection
	claimed     uint64        // disturbed of the pair, when the last claim came
	examines    bool          // a claim
	probes      int           // probes that challenges may still send
}

// Records of challenges begin with challenged, followed by the kind of claim.
const (
	challenged    = "challenge: "
	peerAnswers   = challenged + "the peer answers"
	peerIsSilent  = challenged + "the peer is silent"
	programEnds   = challenged + "the connection ends"
	probesOfClaim = 3
)

// challenge is called when a challenge of the end's peer starts or ends.
func (e *end) challenge(r *trace.Record) {
	switch r.Cause {
	case peerAnswers:
		e.w.Mark("claim refuted")
		e.examined()
	case peerIsSilent:
		e.w.Mark("claim believed")
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

// silentPeer reports whether the peer could not answer, or all its answers to a challenge may
// have been lost.
func (e *end) silentPeer() bool {
	p := e.peer
	return p.state < ib.RTR || p.state == ib.ERR || e.pair.broken || e.paths.at != p.paths.at ||
		e.pair.disturbed-e.wire.claimed >= probesOfClaim || len(e.w.cut) > 0
}

// isProbe reports whether a packet is a probe of a challenge, whose number is limited.
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

// sniff checks a packet that an adapter sends.
func (w *world) sniff(n *node, run *fabric.Run, seg []byte) {
	n.tally.sent++
	if w.Telling() {
		w.note(n, "->", seg)
	}
	h := headerOf(seg)
	if h.op.Service() != roce.ServiceRC || h.op.Info().Flags&roce.FlagResponse != 0 {
		return
	}
	e := w.routes[route{n, run.Path.Dst, h.dest}]
	if e == nil {
		w.Fail("wire", "adapter %d sends %v to queue pair %v at %v, which none of its own is connected to", n.Index, h.op, h.dest, run.Path.Dst)
		return
	}
	x := &e.wire
	if run.Path.Dst != e.route().to {
		w.Fail("wire", "adapter %d qp %v sends %v PSN %v over a path that it has left, or has not moved to", n.Index, e.num, h.op, h.psn)
	}
	if h.empty && e.isProbe(h) {
		return
	}
	if e.drained() {
		w.Fail("wire", "adapter %d qp %v sends %v PSN %v after its send queue has drained", n.Index, e.num, h.op, h.psn)
	}
	if w.Now < x.silent {
		w.Fail("rnr", "adapter %d qp %v sends PSN %v %v before the RNR timer of its peer has run out", n.Index, e.num, h.psn, x.silent.Sub(w.Now))
	}
	if !x.sent {
		x.began = w.Now
	} else if !n.inOrder && h.psn.Diff(x.last.Next()) > 0 {
		w.Mark("L1 repaired")
	}
	first := !x.sent
	x.last, x.sent = h.psn, true
	if h.op == roce.RCRDMAReadRequest { // it also uses the PSNs of its responses
		packets := (int(h.length) + e.pair.mtu.Bytes() - 1) / e.pair.mtu.Bytes()
		x.last = h.psn.Add(uint32(max(packets, 1) - 1))
	}
	if first || x.last.Diff(x.newest) > 0 {
		if first || x.newest.Diff(x.answered) <= 0 { // nothing was in flight: from now on the end waits for its peer
			e.news("a request", w.Now)
		}
		x.newest = x.last
	}
}

// route identifies the end that sent a packet.
type route struct {
	from *node
	to   netip.Addr
	dest ib.QPN
}

// route returns the end's own.
func (e *end) route() route {
	return route{e.node, e.peer.node.Addrs[e.gid()], e.peer.num}
}

// arrives checks a packet for an end before its adapter gets it.
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

// repaired is called when the adapter retransmits without a report of a loss
// and without counting a retry (L1).
func (e *end) repaired(r *trace.Record) {
	w := e.w
	e.goesBack()
	if e.node.inOrder && r.Cause != "answer in doubt" {
		w.Fail("repair", "adapter %d qp %v sends psn %v again (%s), and takes packets in order only", e.node.Index, e.num, r.PSN, r.Cause)
	}
	switch r.Cause {
	case "probe":
		w.Mark("L1 probe")
	case "answer in doubt":
		w.Mark("answer in doubt")
	default:
		w.Mark("L1 repair went no further")
	}
}

// fromNews fails if there are more retries than reports that can cause them
// (L1).
func (e *end) fromNews(news *int, r *trace.Record) {
	if *news--; *news < 0 {
		e.w.Fail("retry", "adapter %d qp %v goes back to psn %v (%s), and nothing that arrived says so", e.node.Index, e.num, r.PSN, r.Cause)
	}
}

// notReady is the cause of a retransmission due to an RNR NAK.
const notReady = "receiver not ready"

// countRetry fails if there are more retries without progress than the
// connection allows (E8, E12). Progress changes the PSN from which sending
// restarts.
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
		e.w.Fail("retry", "adapter %d qp %v goes back to psn %v (%s) for time %d and, because its peer is not ready, %d: it has %d and %d retries",
			e.node.Index, e.num, r.PSN, r.Cause, x.retries, x.waits, e.terms.retryCnt, e.terms.rnrRetry)
	}
}

// retried is called when the adapter retransmits.
func (e *end) retried(r *trace.Record) {
	w, x := e.w, &e.wire
	// A full CQ at a peer that polls too rarely can cause this too.
	if w.plan.has == 0 && r.Cause != notReady && e.peer.state != ib.ERR && !e.pair.broken {
		w.Fail("timer", "adapter %d qp %v: sending goes back (%s), and nothing was lost", e.node.Index, e.num, r.Cause)
	}
	e.countRetry(r)
	e.goesBack()
	switch r.Cause {
	case notReady:
		w.Mark("E12 requester waits")
		x.rnrs++
		x.silent = w.Now.Add(x.rnr)
	case "timeout":
		w.Mark("E5 timeout")
		wait := ib.AckTimeout(e.terms.timeout)
		if since := max(x.lastTimeout, x.began); x.sent && w.Now.Sub(since) < wait {
			w.Fail("timer", "adapter %d qp %v: the retry timer of %v fires %v after it was started", e.node.Index, e.num, wait, w.Now.Sub(since))
		}
		x.lastTimeout = w.Now
	case newPath:
	case "implied NAK":
		w.Mark("E22 implied NAK")
		e.fromNews(&x.answers, r)
	default:
		w.Mark("E8 sequence NAK")
		e.fromNews(&x.naks, r)
	}
}
