package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// Conn is one side of a connection, or of a SIDR resolution.
type Conn struct {
	// Consumer is for the consumer's use in its handler.
	Consumer any

	paths

	m         *Manager
	handler   Handler
	state     State
	lap       LAPState
	destroyed bool // the consumer has destroyed it
	halfOpen  bool // counted in Manager.halfOpen

	serial   uint64 // higher for later REQs and REPs
	localID  uint32
	remoteID uint32 // 0: not known yet
	guid     uint64 // of the peer's node
	tid      uint64 // transaction ID of the peer's request, repeated in answers
	lapTID   uint64 // of the peer's LAP
	dreqTID  uint64 // of the peer's DREQ
	service  mad.ServiceID
	listener *Listener
	track    tracked

	ep endpoint

	channel   *Channel // RD only
	uses      bool     // it is one of channel.users,
	joins     bool     // it joined an existing channel: "RDC exists"
	srcPort   uint16   // of the side that connects, from the IP header in the private data; 0: none
	allowance allowance
	place     int32 // index in channel.users

	retry  retry
	timer  deadline.Link
	sent   *mad.MAD // the message that waits for an answer
	answer *mad.MAD // the answer to a repetition by the peer: RTU, MRA, REJ or DREP
	mra    prepared

	lastDue clock.Instant // of the last message that Config.Nasty delayed

	exam         *examination  // nil: none is under way
	older, newer *Conn         // neighbours in an eviction list
	group        *silentGroup  // owner of that list; nil: Manager.evictTimewait, or no list
	silentSince  clock.Instant // time of its entry into that list
}

// endpoint holds the parameters that the two QPs of a connection agree on.
type endpoint struct {
	transport          mad.TransportService
	localQPN           ib.QPN
	remoteQPN          ib.QPN
	localPSN           ib.PSN // first PSN of the peer
	remotePSN          ib.PSN // first PSN of this side
	responderResources uint8
	initiatorDepth     uint8
	retryCount         uint8
	rnrRetryCount      uint8
	peerRNRRetries     uint8 // RNR retries of the peer's QP, from the REQ or REP of this side
	ackTimeout         uint8 // 5-bit code of the QP's local ACK timeout
	qpTimeout          uint8 // the consumer's replacement, if chosen is set
	chosen             bool
}

// prepared is an MRA that is sent once the peer repeats its message.
type prepared struct {
	timeout uint8
	private []byte
}

// State returns the state of the connection.
func (c *Conn) State() State { return c.state }

// LAPState returns the sub-state of alternate path loading.
func (c *Conn) LAPState() LAPState { return c.lap }

// LocalID returns our communication ID, or the request ID of a SIDR client.
func (c *Conn) LocalID() uint32 { return c.localID }

// RemoteID returns the peer's communication ID, 0 if it is not known.
func (c *Conn) RemoteID() uint32 { return c.remoteID }

// RemoteQPN returns the peer's QPN, 0 if it is not known.
func (c *Conn) RemoteQPN() ib.QPN { return c.ep.remoteQPN }

// Channel returns the reliable datagram channel of a connection of service RD,
// nil for others and once the connection is over.
func (c *Conn) Channel() *Channel { return c.channel }

// Peer returns the peer's address and its QPN, for RD its EE context number. With
// the IDs, that suffices to end the connection of a process that has died.
func (c *Conn) Peer() (to gsi.Address, number ib.QPN) {
	_, number = numbersOf(c)
	return c.to, number
}

// Service returns the service ID of the request.
func (c *Conn) Service() mad.ServiceID { return c.service }

// Alternate returns the alternate path that the two sides last agreed on or,
// between LAP and APR, negotiate; the zero path if there is none. Its local
// side is the active one.
func (c *Conn) Alternate() mad.Path {
	if c.lap != LAPIdle {
		return c.asked
	}
	return c.alt
}

// Listener returns the listener of a passive connection.
func (c *Conn) Listener() *Listener { return c.listener }

// SetHandler replaces the handler. Events that come later go to h.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// stimulus is an input with its arguments.
type stimulus struct {
	now  clock.Instant
	from *gsi.Received // messages
	tid  uint64        // messages
	ev   Event         // messages, decoded
	// foreign: the message names a connection, but its sender is not that
	// connection's peer.
	foreign bool
	// late: the request has waited for a listener.
	late bool

	req     *REQParams
	rep     *REPParams
	rej     *REJParams
	mra     uint8 // service timeout
	lap     *Path
	apr     *APRParams
	sidrReq *SIDRREQParams
	sidrRep *SIDRREPParams
	private []byte
}

// sender returns the address to answer: QP1 of the sender, whichever QP it used
// (C1).
func (x *stimulus) sender() gsi.Address {
	to := x.from.From
	to.QPN = ib.QPNGSI
	return to
}

// errVetoed is returned by an action that has answered the input itself: the
// state does not change.
var errVetoed = fmt.Errorf("message was refused")

// step applies an input. It returns an error, without any change, if it is a
// call that the state does not allow or that fails.
func (c *Conn) step(on Input, x *stimulus) error {
	e := machine[c.state][on]
	switch {
	case !e.defined:
		return undefinedIn(c, on)
	case e.do == lap:
		return x.stepLAP(c, on)
	case e.duplicate:
		c.m.counters.Duplicates[on]++
	}
	if err := x.perform(c, e.do); err != nil {
		return err
	}
	from := c.state
	c.move(x.now, e.next)
	x.tell(c, on, from)
	older := claim(c, from)
	x.raise(c, e.raise)
	x.forgotten(older)
	x.settle(c)
	return nil
}

// undefinedIn handles an input without a cell: it counts a message and refuses a
// call.
func undefinedIn(c *Conn, on Input) error {
	if on >= firstMsg {
		c.m.counters.Unexpected[on]++
		return nil
	}
	if c.state == Established && on == CallEstablish {
		return fmt.Errorf("%v: the connection is established already: %w", on, ib.EISCONN)
	}
	return fmt.Errorf("%v: not in state %v: %w", on, c.state, ib.EINVAL)
}

// move changes the state.
func (c *Conn) move(now clock.Instant, to State) {
	if to == c.state {
		return
	}
	c.state = to
	dismiss(c)
	if to > Established || to == Idle {
		c.channel.leave(now, c)
	}
	switch to {
	case RepSent:
		list(now, c.m, c)
	case Established:
		c.allowance.limited = false
		c.m.leaveHalfOpen(c)
		c.channel.lead(c)
	case DReqRcvd:
		unlist(c.m, c)
	case Timewait:
		list(now, c.m, c)
		c.forgetQP()
		c.sent = nil
		c.await(now, peerWait(c.ep.ackTimeout), 0)
	case Idle:
		c.m.free(now, c)
		return
	}
	report(c)
}

// begin gives a connection in Idle a communication ID. The object may have
// served another connection before, so begin clears all earlier state;
// otherwise late messages could match the wrong one.
func (c *Conn) begin(now clock.Instant) error {
	id, err := c.m.newID(now)
	if err != nil {
		return err
	}
	if c.destroyed || c.state != Idle { // by the consumer of the evicted connection
		return fmt.Errorf("the connection is used already: %w", ib.EINVAL)
	}
	*c = Conn{Consumer: c.Consumer, paths: paths{OnMove: c.OnMove}, m: c.m, handler: c.handler, localID: id, tid: c.m.cfg.TID(id)}
	c.m.local[id] = c
	return nil
}

// raise calls the consumer's handler.
func (x *stimulus) raise(c *Conn, t EventType) {
	if t == NoEvent || c.handler == nil {
		return
	}
	ev := x.ev // a copy is allocated here; x, which most calls need without an event, is not
	ev.Type = t
	c.handler(x.now, c, &ev)
}

// settle answers a DREQ for a connection whose consumer is gone: it crossed the
// DREQ of this side.
func (x *stimulus) settle(c *Conn) {
	if c.destroyed && c.state == DReqRcvd {
		_ = c.step(CallDestroy, &stimulus{now: x.now}) // cannot fail in this state
	}
}

// Destroy ends the connection for its consumer, in any state (the CallDestroy
// rows of the machine): the manager sends the final messages and waits out
// TIMEWAIT, and the handler gets no more events. The connection must not be used
// afterwards.
func (c *Conn) Destroy(now clock.Instant) {
	if c.destroyed {
		return
	}
	c.destroyed, c.handler = true, nil
	_ = c.step(CallDestroy, &stimulus{now: now}) // defined in every state of a connection
}

// Forget drops a new connection without an answer, from within the handler that
// received it; the peer will repeat its request.
func (c *Conn) Forget(now clock.Instant) {
	c.destroyed, c.handler = true, nil
	c.state = Idle
	c.m.free(now, c)
}
