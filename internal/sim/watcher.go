package sim

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// watcher is the oracle's view of an end on the wire.
type watcher struct {
	e           *end
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
	began       clock.Instant   // first request of the connection
	stuckAt     ib.PSN          // PSN of the last retransmission
	retries     int             // retransmissions from there after a timeout
	waits       int             // retransmissions from there after an RNR NAK
	lied        bool            // a forged NAK was sent
	deceived    bool            // the forged NAK was believed
	ended       bool            // because the program ended the connection
	claimed     uint64          // disturbed of the pair, when the last claim came
	examines    bool            // the end examines a claim
	forgedAt    ib.PSN          // PSN of the last forged request
	answersAt   map[ib.PSN]bool // PSNs of forged answers
	again       bool            // two forged answers had the same PSN
	probes      int             // probes that challenges may still send
}

// forgesAnswer notes a forged answer.
func (x *watcher) forgesAnswer(psn ib.PSN) {
	if x.again = x.again || x.answersAt[psn]; x.answersAt == nil {
		x.answersAt = make(map[ib.PSN]bool)
	}
	x.answersAt[psn] = true
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
func (x *watcher) challenge(r *trace.Record) {
	e := x.e
	switch r.Cause {
	case peerAnswers:
		e.w.Mark("claim refuted")
		e.delays.examined()
	case peerIsSilent:
		e.w.Mark("claim believed")
		x.deceived = x.lied
		e.delays.examined()
	case programEnds:
		x.deceived, x.ended = x.lied, true
	default:
		x.probes = probesOfClaim
		x.claimed, x.examines = e.pair.disturbed, true
		e.pair.examines()
	}
}

// silentPeer reports whether the peer could not answer, or all its answers to a challenge may
// have been lost.
func (x *watcher) silentPeer() bool {
	e, p := x.e, x.e.peer
	return p.state < ib.RTR || p.state == ib.ERR || e.pair.broken || e.paths.at != p.paths.at ||
		e.pair.disturbed-x.claimed >= probesOfClaim || len(e.w.cut) > 0
}

// isProbe reports whether a packet is a probe of a challenge, whose number is limited.
func (x *watcher) isProbe(h header) bool {
	if x.probes == 0 || x.sent && h.psn.Diff(x.newest) > 0 {
		return false // a WRITE of no bytes
	}
	x.probes--
	return true
}

// progress is called when a request of the end succeeds.
func (x *watcher) progress() {
	x.rounds, x.rnrs = 0, 0
	if x.e.pair != nil {
		x.disturbed = x.e.pair.disturbed
	}
}

// sniff checks a packet that an adapter sends.
func (w *world) sniff(n *node, run *fabric.Run, seg []byte) {
	n.tally.sent++
	if w.Telling() {
		w.note(n, "->", seg)
	}
	h := headerOf(seg)
	if !isReliable(h.op.Service()) || h.op.Info().Flags&roce.FlagResponse != 0 {
		return
	}
	e := w.routes[route{n, run.Path.Dst, h.dest}]
	if e == nil {
		w.Fail("wire", "adapter %d sends %v to queue pair %v at %v, which none of its own is connected to", n.Index, h.op, h.dest, run.Path.Dst)
		return
	}
	x := &e.wire
	e.delays.sends()
	if run.Path.Dst != e.paths.route().to {
		w.Fail("wire", "adapter %d qp %v sends %v PSN %v over a path that it has left, or has not moved to", n.Index, e.num, h.op, h.psn)
	}
	if h.empty && x.isProbe(h) {
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
	if h.rc == roce.RCRDMAReadRequest { // it also uses the PSNs of its responses
		packets := (int(h.length) + e.pair.mtu.Bytes() - 1) / e.pair.mtu.Bytes()
		x.last = h.psn.Add(uint32(max(packets, 1) - 1))
	}
	if first || x.last.Diff(x.newest) > 0 {
		if first || x.newest.Diff(x.answered) <= 0 { // nothing was in flight: from now on the end waits for its peer
			e.delays.news("a request", w.Now)
		}
		x.newest = x.last
		e.delays.departs(x.last)
	}
}

// arrives checks a packet for an end before its adapter gets it.
func (x *watcher) arrives(h header) {
	switch {
	case h.rc == roce.RCAcknowledge && h.aeth.IsRNR():
		x.rnr = ib.RNRTimer(h.aeth.Value())
	case h.rc == roce.RCAcknowledge && h.aeth == roce.NAKSequence:
		x.naks++
	}
	if h.op.Info().Flags&roce.FlagResponse != 0 {
		x.answers++
		if x.sent && h.psn.Diff(x.newest) <= 0 && (x.answers == 1 || h.psn.Diff(x.answered) > 0) {
			x.answered = h.psn
			x.e.delays.answered(h.psn)
		}
		x.e.delays.hears(h)
	}
}

// repaired is called when the adapter retransmits without a report of a loss
// and without counting a retry (L1).
func (x *watcher) repaired(r *trace.Record) {
	e, w := x.e, x.e.w
	e.delays.goesBack()
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
func (x *watcher) fromNews(news *int, r *trace.Record) {
	if *news--; *news < 0 {
		x.e.w.Fail("retry", "adapter %d qp %v goes back to psn %v (%s), and nothing that arrived says so", x.e.node.Index, x.e.num, r.PSN, r.Cause)
	}
}

// notReady is the cause of a retransmission due to an RNR NAK.
const notReady = "receiver not ready"

// countRetry fails if there are more retries without progress than the
// connection allows (E8, E12). Progress changes the PSN from which sending
// restarts.
func (x *watcher) countRetry(r *trace.Record) {
	e := x.e
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
func (x *watcher) retried(r *trace.Record) {
	e, w := x.e, x.e.w
	// A full CQ at a peer that polls too rarely can cause this too.
	if w.plan.has&^sharedMemory == 0 && !w.shaken && r.Cause != notReady && e.peer.state != ib.ERR && !e.pair.broken {
		w.Fail("timer", "adapter %d qp %v: sending goes back (%s), and nothing was lost", e.node.Index, e.num, r.Cause)
	}
	x.countRetry(r)
	e.delays.goesBack()
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
		x.fromNews(&x.answers, r)
	default:
		w.Mark("E8 sequence NAK")
		x.fromNews(&x.naks, r)
	}
}
