package sim

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/roce"
)

// This file checks upper bounds of delays. A reliable connection with work must
// hear from its peer again within two round trips, as long as the network harms
// no packet between the two adapters. After harm, the retry timer of the queue
// pair bounds the silence (E5) and, between adapters that probe, an earlier probe
// does (L1): the first one a probe time after the silence began, each further one
// when the silence has doubled. If the peer is gone, the retries of the
// connection end the request (E8). Window room that one queue pair occupies
// towards an address is released within that queue pair's time.

// slack is the tolerance added to the rules. Everything except the network
// takes no time in a run.
const slack = time.Microsecond

// Bounds of the time from the last news of a peer to a probe: before a round
// trip was measured; and after the peer or the network was late.
const (
	probeTime     = 4 * time.Millisecond
	probeTimeLate = 16 * time.Millisecond
)

// mostDelay is how late a nasty adapter begins a request.
const mostDelay = 200 * time.Microsecond

// windowTimeout is how long a request may find too little room in the window to a peer's address
// while others use it.
const windowTimeout = 100 * time.Millisecond

// challengeTime is how long a claim about a peer is examined, if the round trip is short.
const challengeTime = 10 * time.Millisecond

// delays is the oracle's state about how long an end waits for its peer.
type delays struct {
	e      *end
	heard  clock.Instant // when the end last heard of its peer, or began to wait
	since  clock.Instant // the same, or the time of a state change that restarts the wait
	harmed clock.Instant // time of the last harm to a packet between the two
	risk   uint64        // the last request that the harm can have delayed
	sent   []departure   // requests without an answer, in the order of their PSNs
	slow   time.Duration // the longest time from a request to its answer
	back   clock.Instant // when the end went back and sent nothing since; 0: it has sent
	again  bool          // a packet was harmed or retransmitted: the peer may buffer the end of a message until it comes again
}

// departure is the first departure of a request.
type departure struct {
	last ib.PSN // of the request
	at   clock.Instant
}

// trip is the longest round trip without harm by the network. A FLUSH may wait for the storage.
func (w *world) trip() time.Duration {
	d := 2*(w.plan.net.Latency+w.plan.net.jitter) + storageTime
	if w.plan.on(sharedMemory) {
		d += 2 * carrierTime
	}
	if w.plan.on(lateAnswers) {
		d += 2 * lateAnswer
	}
	if w.plan.on(nastiness) {
		d += mostDelay
	}
	if w.ports.rate > 0 { // everything that a queue pair has posted may precede a packet in its port
		d += time.Duration(float64(int(endCap.MaxSendWR)*w.plan.slot) * 8e9 / w.ports.rate)
	}
	return d
}

// harmed records that the network harmed a packet between the ends, or another
// cause of delay for the connection.
func (p *pair) harmed() {
	for _, e := range p.ends {
		if e != nil {
			e.delays.harmed, e.delays.again = e.w.Now, true
			e.delays.atRisk()
		}
	}
}

// examined notes the end of a challenge, with which both ends begin anew. All that they sent
// meanwhile may have been dropped.
func (d *delays) examined() {
	d.onTime("the end of a challenge")
	d.e.wire.examines = false
	for _, o := range d.e.pair.ends {
		if o != nil {
			o.delays.since, o.delays.again = max(o.delays.since, d.e.w.Now), true
			o.delays.atRisk()
		}
	}
}

// leaves notes that the end gives back its part of the window to its peer. Others may have
// waited for it, and begin anew.
func (d *delays) leaves() {
	e := d.e
	if e.pair == nil || e.peer == nil {
		return
	}
	for _, o := range e.node.ends {
		if o != e && o.sends() && o.peer.node == e.peer.node {
			o.delays.since = max(o.delays.since, e.w.Now)
		}
	}
}

// challenge returns how long a claim about the peer is examined at most, at either end: by the round
// trips that they have measured.
func (d *delays) challenge() time.Duration {
	slow := d.slow
	if p := d.e.peer; p != nil {
		slow = max(slow, p.delays.slow)
	}
	return max(challengeTime, 2*d.e.w.trip(), 3*slow)
}

// examines records the start of a challenge at an end: until its end, the end sends nothing,
// or drops packets from the path to which the peer seems to have moved.
func (p *pair) examines() {
	for _, e := range p.ends {
		if e != nil {
			until := e.w.Now.Add(e.delays.challenge())
			e.delays.since, e.delays.again = max(e.delays.since, until), true
			e.delays.atRisk()
		}
	}
}

// atRisk records that all requests posted so far may have been lost.
func (d *delays) atRisk() {
	if n := len(d.e.sq); n > 0 {
		d.risk = d.e.sq[n-1].id
	}
}

// hurt reports whether a request at risk is not known to be complete.
func (d *delays) hurt() bool { return len(d.e.sq) > 0 && d.e.sq[0].id <= d.risk }

// stirred records a state change that restarts the waits of both ends.
func (p *pair) stirred() {
	for _, e := range p.ends {
		if e != nil {
			e.delays.since = max(e.delays.since, e.w.Now)
		}
	}
}

// due reports whether progress is due: a request that leaves a completion is
// incomplete.
func (e *end) due() bool { return e.sends() && e.state == ib.RTS && len(e.sq) > e.unsignaled() }

// sends reports whether the end may have requests in flight.
func (e *end) sends() bool {
	return e.qp != nil && e.reliable && e.state >= ib.RTS && e.state != ib.ERR && len(e.sq) > 0
}

// begins starts a wait if progress has become due at the end.
func (d *delays) begins(before bool) {
	if !before {
		d.since, d.heard = max(d.since, d.e.w.Now), max(d.heard, d.e.w.Now)
	}
}

// departs is called when a request is sent for the first time; last is its last PSN.
func (d *delays) departs(last ib.PSN) { d.sent = append(d.sent, departure{last, d.e.w.Now}) }

// answered is called when an answer arrives for everything up to a PSN.
func (d *delays) answered(psn ib.PSN) {
	for len(d.sent) > 0 && d.sent[0].last.Diff(psn) <= 0 {
		d.slow = max(d.slow, d.e.w.Now.Sub(d.sent[0].at))
		d.sent = d.sent[1:]
	}
}

// hears is called with each answer that arrives for the end.
func (d *delays) hears(h header) {
	until := d.e.w.Now
	if h.rc == roce.RCAcknowledge && h.aeth.IsRNR() {
		until = until.Add(ib.RNRTimer(h.aeth.Value()))
	}
	d.news("an answer", until)
}

// news ends the silence: an awaited packet arrived. The next one may be due
// later, if the peer requested a pause.
func (d *delays) news(what string, until clock.Instant) {
	d.onTime(what)
	d.since, d.heard = max(d.since, until), max(d.heard, until)
}

// goesBack is called when the end retransmits.
func (d *delays) goesBack() {
	d.again, d.back = true, d.e.w.Now
	if d.hurt() {
		d.atRisk()
	}
}

// sends is called with each request that the end sends. If it went back and then had to wait for room
// in the window, it waits for its peer anew.
func (d *delays) sends() {
	if d.back != 0 && d.back < d.e.w.Now {
		d.onTime("a retransmission")
		d.since = max(d.since, d.e.w.Now)
	}
	d.back = 0
}

// dead reports whether the end's requests may have no live receiver, or one
// that does not repeat the answer to a READ whose region is gone (E9).
func (d *delays) dead() bool {
	e := d.e
	p := e.peer
	return e.pair.broken || e.wire.deceived || p.wire.deceived || e.wire.astray || p.wire.astray || p.qp == nil || p.remGone || p.state < ib.RTR || p.state == ib.ERR || e.paths.at != p.paths.at
}

// limit returns the time by which the end must hear from its peer, by its own timers. A
// challenge in progress continues after the last harm.
func (d *delays) limit() clock.Instant {
	e := d.e
	until := d.limitBeyondChallenges()
	if e.wire.examines || e.peer != nil && e.peer.wire.examines {
		until = until.Add(d.challenge())
	}
	return until
}

func (d *delays) limitBeyondChallenges() clock.Instant {
	e := d.e
	quiet := 2*e.w.trip() + slack
	last := max(d.since, d.harmed)
	switch {
	case d.dead():
		// In every second round, other queue pairs may leave no room to
		// retransmit.
		rounds := 2 * (time.Duration(e.terms.retryCnt) + 1)
		if e.paths.asked {
			rounds *= 2
		}
		return last.Add(rounds*ib.AckTimeout(e.terms.timeout) + quiet)
	case d.hurt():
		last = d.sendsAgain(last)
		if !e.peer.node.inOrder { // which may buffer packets until they come again
			last = d.sendsAgain(last)
		}
		return last.Add(quiet)
	case d.again && !e.peer.node.inOrder:
		return d.sendsAgain(d.since).Add(quiet)
	case d.again:
		// It repeats one packet, and the rest when nothing more can come: within two of the
		// round trips that it has measured after the answer.
		quiet = max(quiet, 2*d.slow+e.w.trip()+slack)
	}
	return d.since.Add(quiet)
}

// sendsAgain returns the time by which the end retransmits an unanswered request,
// if packets sent after last arrive.
func (d *delays) sendsAgain(last clock.Instant) clock.Instant {
	return min(last.Add(ib.AckTimeout(d.e.terms.timeout)), d.probes(last))
}

// probes returns until when a probe leaves that the network does not harm, if
// it harms nothing after last. Where an answer is lost, the next one may be taken for it, and the
// round trip for longer than it is. A probe comes after at most three of the round trips that were
// measured.
func (d *delays) probes(last clock.Instant) clock.Instant {
	probe := probeTime
	switch {
	case d.e.node.inOrder:
		return clock.Never
	case d.harmed != 0, d.e.w.plan.on(reordering | duplication | lateAnswers | clockJumps | lateReceives):
		probe = max(probeTimeLate, 3*d.slow)
	}
	return d.heard.Add(2*last.Sub(d.heard) + probe)
}

// latest returns the time by which the end must hear from its peer. It may have
// to wait for other ends that fill the window to its peer.
func (d *delays) latest() clock.Instant {
	e := d.e
	until := d.limit()
	for _, o := range e.node.ends {
		if o == e || !o.reliable || o.peer == nil || o.peer.node != e.peer.node {
			continue
		}
		if o.sends() {
			until = max(until, o.delays.limit())
		}
		if d.dead() && (o.sends() || o.delays.heard > d.since) { // nothing in flight makes room for a large request
			until = max(until, d.limit().Add(windowTimeout))
		}
		if o.delays.again { // it may have given back the room only now
			until = max(until, o.delays.heard.Add(2*e.w.trip()+slack))
		}
	}
	return until
}

// onTime checks that the current event is not too late.
func (d *delays) onTime(what string) {
	e := d.e
	if !e.due() {
		return
	}
	if until := d.latest(); e.w.Now > until {
		e.w.Fail("delay", "adapter %d qp %v: %s comes %v too late: nothing was heard of the peer since %v, harm at %v (open: %v), %d sends pending",
			e.node.Index, e.num, what, e.w.Now.Sub(until), time.Duration(d.since), time.Duration(d.harmed), d.hurt(), len(e.sq))
	}
}

// strained records that the node may be late with everything: its thread has no processor, or its port
// waits for room in a ring or has lost packets there.
func (n *node) strained() {
	w := n.w
	w.harmed()
	w.shaken = true
	for _, p := range w.pairs {
		if p.at[0] == n || p.at[1] == n {
			p.disturbed++
			p.harmed()
		}
	}
}

// strain does so if it is true now, and for the packets in rings that their reader does not know
// yet.
func (c *carrier) strain() {
	if c.blocked || c.n.w.Now < c.stalled {
		c.n.strained()
	}
	for _, l := range c.links {
		if o := l.other(c); !o.known && !o.closed {
			c.n.w.disturb(c.n, o.c.n)
		}
	}
}

// allOnTime checks every end.
func (w *world) allOnTime() {
	for _, n := range w.nodes {
		if n.carrier != nil {
			n.carrier.strain()
		}
	}
	for _, n := range w.nodes {
		for _, e := range n.ends {
			if e.qp != nil {
				e.delays.onTime("the next answer")
			}
		}
	}
}
