package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// Anyone on the peer's host can send packets from the peer's address, and a PSN in flight
// can be guessed. So a packet that would end or move a connection of service RC is only a
// claim. It starts a challenge, as RFC 5961 does for TCP: the requester asks the peer, on
// the path that is known, for an answer that a live peer must give and a peer that has
// failed or moved does not give. The claim is believed when the peer stays silent.
//
// The question is a WRITE of no bytes at the PSN before the oldest that is not
// acknowledged. Whatever that PSN was, the peer has executed it or will never execute it,
// so the WRITE is a duplicate, which the responder acknowledges without looking at its key
// or executing it (IBA C9-105). A responder that has sent a fatal NAK is in ERR, and one
// that has migrated drops what comes over its old path: both are silent.

// Bounds of a challenge.
const (
	challengeProbes = 3
	challengeTime   = 10 * time.Millisecond // minimum for all of the probes; else two round trips
	// challengeUnmeasured is the time of those of the connection manager on a path whose round trip is not known.
	challengeUnmeasured = 100 * time.Millisecond
)

// claims is a set of claims that packets made.
type claims uint8

const (
	claimNAK   claims = 1 << iota // a NAK says that a request cannot succeed
	claimMoved                    // a packet shows MigReq on the alternate path
	claimGone                     // the connection manager doubts that the peer is there

	claimAny = claimNAK | claimMoved | claimGone
)

// challenge is the examination of claims about the peer. All of them share its probes.
type challenge struct {
	ep     *endpoint
	end    *End
	req    *requester
	comp   *completer
	flight *flow.Recovery // the requester's
	claims claims
	probes uint8 // started since the last kind of claim was added
	owed   bool  // a probe waits to be sent
	since  clock.Instant
	step   time.Duration // from one probe to the next
	next   clock.Instant // when the next probe is due, or the verdict
	nak    refusal       // of claimNAK
	result func(now clock.Instant, alive bool)
	// Other claims begin the probes anew, but do not put off the verdict on a NAK: an answer
	// refutes it from nakFrom on, and silence until nakUntil, after nakProbes probes, proves it.
	nakFrom, nakUntil clock.Instant
	nakProbes         uint8
	// unheard says that the peer has acknowledged nothing since this end migrated. It may be
	// examining that, and drops meanwhile what comes over the new path.
	unheard bool
}

// refusal is what a NAK claims: the request at psn was refused.
type refusal struct {
	psn      ib.PSN
	syndrome roce.Syndrome
}

// on reports whether claims of one of the kinds k are examined.
func (c *challenge) on(k claims) bool {
	return c.ep.distrusts(k) && c.ep.behaviour().takesResponses()
}

// refuses starts a challenge for a NAK that would end the connection, and reports whether
// it did.
func (c *challenge) refuses(now clock.Instant, n refusal) bool {
	if !c.on(claimNAK) {
		return false
	}
	if c.claims&claimNAK == 0 || n.psn.Diff(c.nak.psn) < 0 {
		c.nak = n // of two NAKs, keep the one that acknowledges fewer requests
	}
	if c.claims&claimNAK == 0 {
		c.nakProbes = 0
		c.add(now, claimNAK, "NAK")
		c.nakFrom, c.nakUntil = now.Add(c.step), now.Add(time.Duration(c.rounds())*c.step)
		c.arm(now)
	}
	return true
}

// moved starts a challenge for the claim that the peer has migrated, and reports
// whether it did.
func (c *challenge) moved(now clock.Instant) bool {
	if !c.on(claimMoved) {
		return false
	}
	c.add(now, claimMoved, "migration")
	return true
}

// Challenge asks the peer for a sign of life and calls result once: alive as soon as the
// peer answers, or not alive after silence. The thread of the shard calls result, from
// Receive or Advance, and result may call the end. Challenge reports false, and does not call
// result, if the end is not of service RC, is not in RTS or SQD, is already being challenged,
// or Settings.NoChallenge is set. If the end stops, Advance calls result with false. Destruction
// drops result.
func (e *End) Challenge(now clock.Instant, result func(now clock.Instant, alive bool)) bool {
	c := &e.challenge
	if !c.on(claimGone) || c.result != nil {
		return false
	}
	c.result = result
	c.add(now, claimGone, "connection")
	e.Arm()
	return true
}

// add begins to examine claims of kind k. Probes begin anew for each kind, but not for each packet, so
// that a flood of claims does not put off the verdict.
func (c *challenge) add(now clock.Instant, k claims, what string) {
	if c.claims&k != 0 {
		return
	}
	c.claims |= k
	c.ep.env.Counters.Challenges++
	c.trace("challenge: " + what)
	c.since, c.probes = now, 0
	c.step = c.time() / challengeProbes
	c.ask(now)
}

// rounds returns how many probes must stay unanswered: twice as many while the peer may be
// examining a migration of this end.
func (c *challenge) rounds() uint8 {
	if c.unheard {
		return 2 * challengeProbes
	}
	return challengeProbes
}

// time returns how long a challenge takes. An end that has not measured a round trip has not sent
// a request yet: whether its peer is gone is no urgent question there.
func (c *challenge) time() time.Duration {
	f, least := c.flight, time.Duration(challengeTime)
	switch c.claims {
	case claimGone:
		if !f.Measured() {
			return challengeUnmeasured
		}
	case claimMoved:
		least = c.ep.silence()
	}
	return f.OverdueAfter(least)
}

// ask makes the next probe ready. The answer acknowledges what the peer has executed, so it also
// refutes a NAK after which the peer is alive.
func (c *challenge) ask(now clock.Instant) {
	c.probes++
	c.owed = true
	c.wait(now)
}

// wait arms the timer for the next probe or verdict.
func (c *challenge) wait(now clock.Instant) {
	c.next = now.Add(c.step)
	c.arm(now)
	c.end.Wake()
}

func (c *challenge) arm(now clock.Instant) {
	at := c.next
	if c.claims&claimNAK != 0 && c.nakUntil > now {
		at = min(at, c.nakUntil)
	}
	c.ep.timers[timerChallenge] = at
}

// timeout sends the next probe, or ends the challenge after the last. A probe that has not
// left yet proves nothing, so timeout waits for it.
func (c *challenge) timeout(now clock.Instant) {
	if c.claims&claimNAK != 0 && now >= c.nakUntil && c.nakProbes >= c.rounds() {
		c.claims &^= claimNAK
		c.trace("challenge: the peer is silent")
		if c.comp.believe(now, c.nak); c.end.State() == ib.ERR {
			return // the other claims ended with the queue pair
		}
	}
	switch {
	case c.claims == 0:
		c.ep.timers[timerChallenge] = clock.Never
	case now < c.next:
		c.arm(now)
	case c.owed:
		c.wait(now)
	case c.probes < c.rounds(), c.claims == claimNAK:
		c.ask(now)
	default:
		c.believe(now)
	}
}

// send appends the pending probe. It reports false when the batch has no room.
func (c *challenge) send(b *fabric.Batch) bool {
	ep := c.ep
	p := ep.header(inService(roce.RCRDMAWriteOnly, ep.service), c.psn())
	p.BTH.AckReq, p.RETH = true, roce.RETH{}
	seg := ep.appendBare(b)
	if seg == nil {
		return false
	}
	ep.pace.Sent(ep.env.now, ipLength(&ep.path, seg))
	c.owed = false
	c.nakProbes = min(c.nakProbes+1, 2*challengeProbes)
	return true
}

// psn returns the PSN of a probe. In the middle of a READ of an RC queue pair it is the one before the READ: an
// acknowledgement of a part of it would look like the loss of its responses.
func (c *challenge) psn() ib.PSN {
	r := c.req
	if c.ep.distrusts(claimNAK) && !r.drained() && r.queue.oldest().kind == begunAnswered {
		return r.queue.oldest().first.Prev()
	}
	return c.flight.Una().Prev()
}

// idle reports whether no claim is examined.
func (c *challenge) idle() bool { return c.claims == 0 }

// weigh drops the claims that an answer refutes.
func (c *challenge) weigh(now clock.Instant) {
	var refuted claims
	if now.Sub(c.since) >= c.step {
		refuted = claimMoved | claimGone
	}
	if now >= c.nakFrom && c.nak.fatal() {
		refuted |= claimNAK
	}
	if c.flight.Una().Diff(c.nak.psn) > 0 {
		refuted |= claimNAK
	}
	if refuted &= c.claims; refuted != 0 {
		c.refute(now, refuted)
	}
}

// fatal reports whether a responder that sends such a NAK fails.
func (n *refusal) fatal() bool { return n.syndrome.IsNAK() && n.syndrome != roce.NAKSequence }

// refute drops claims that the peer's answer has refuted.
func (c *challenge) refute(now clock.Instant, k claims) {
	c.ep.env.Counters.ChallengesRefuted++
	c.trace("challenge: the peer answers")
	if c.claims &^= k; c.claims == 0 {
		c.owed = false
		c.ep.timers[timerChallenge] = clock.Never
	}
	c.end.Wake()
	if k&claimGone != 0 {
		c.report(now, true)
	}
}

// believe acts on the claims other than a NAK, after the peer stayed silent.
func (c *challenge) believe(now clock.Instant) {
	k, e := c.claims, c.end
	c.claims &= claimNAK // the NAK has its own deadline
	if k != claimGone {
		c.trace("challenge: the peer is silent")
	}
	if k&claimMoved != 0 && e.ep.mayMigrate() {
		e.ep.migrate(now)
		if k&claimGone != 0 {
			c.add(now, claimGone, "connection") // on the new path
			return
		}
	}
	if c.claims != 0 {
		c.ask(now)
	}
	if k&claimGone != 0 {
		c.report(now, false)
	}
}

// conclude accepts a NAK that is still challenged when the program, or the connection
// manager, ends the connection: often the peer's program has just ended it, because of the
// error that the NAK reports.
func (c *challenge) conclude(now clock.Instant) {
	if c.claims&claimNAK != 0 && c.nak.fatal() {
		c.claims &^= claimNAK
		c.trace("challenge: the connection ends")
		c.comp.believe(now, c.nak)
	}
}

// report calls the connection manager back.
func (c *challenge) report(now clock.Instant, alive bool) {
	f := c.result
	c.result = nil
	f(now, alive)
}

// moveOn drops the claims about a path that the end has left.
func (c *challenge) moveOn() {
	c.unheard = true
	if c.claims &^= claimNAK | claimMoved; c.claims == 0 {
		c.owed = false
		c.ep.timers[timerChallenge] = clock.Never
	}
}

// stop drops all claims of an end whose timers were just stopped. If the connection manager waits
// for a result, the next Advance reports false.
func (c *challenge) stop() {
	c.claims, c.owed, c.unheard, c.next = 0, false, false, c.ep.env.now
	if c.result != nil {
		c.claims, c.probes = claimGone, challengeProbes
		c.ep.timers[timerChallenge] = c.ep.env.now
	}
}

func (c *challenge) trace(cause string) {
	if c.ep.env.Trace != nil {
		c.ep.record(trace.Record{Kind: trace.Challenge, PSN: c.flight.Una(), Cause: cause})
	}
}
