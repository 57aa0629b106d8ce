package cm

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/mad"
)

// A REQ or REP that names the queue pair of a connection suggests that the peer was restarted and
// has forgotten the connection (C7); so does the peer's answer to another connection (claim.go). A
// stranger who knows the peer's GUID can forge such a REQ, so it only starts an examination: the
// queue pair is challenged, and the peer's connection manager gets an inquiry. The REJ and the end
// of the connection wait for the outcome.

const (
	// maxExaminations bounds simultaneous examinations, including the trust periods of live
	// peers.
	maxExaminations = 256
	// inquiries is the number of inquiries to the peer's connection manager, inquiryWait the
	// time after each.
	inquiries   = 3
	inquiryWait = 100 * time.Millisecond
	// trust is how long a peer that proved to be alive is not examined again, and the time
	// limit of the last challenge.
	trust = time.Second
)

// examState is the state of an examination.
type examState uint8

const (
	examOver   examState = iota // there is none
	examBoth                    // a challenge and an inquiry are under way
	examAsked                   // the challenge failed; the inquiry is under way
	examAlone                   // the queue pair cannot be challenged; the inquiry is under way
	examLast                    // inquiries were not answered; a last challenge decides
	examLiving                  // the peer is alive: trust period
	numExamStates
)

var examStateNames = [numExamStates]string{"EXAM_OVER", "EXAM_BOTH", "EXAM_ASKED", "EXAM_ALONE", "EXAM_LAST", "EXAM_LIVING"}

// String returns the name, such as "EXAM_BOTH".
func (s examState) String() string { return nameOf(examStateNames[:], s, "invalid examination state") }

// examInput is an input of the examination machine.
type examInput uint8

const (
	examForgotten examInput = iota // the peer's connection manager does not know the connection
	examAlive                      // the peer has answered the challenge
	examDead                       // the challenge failed: silence
	examTimer                      // end of the wait after the last inquiry, of the last challenge, or of the trust period
	numExamInputs
)

// examAction is the action of an examination cell.
type examAction uint8

const (
	examNone      examAction = iota
	examEnd                  // REJ to the message, and the connection ends
	examTrust                // the connection stays; the message is dropped
	examChallenge            // challenge the queue pair again; trust if that is impossible
	examForget               // the next message starts another examination
	numExamActions
)

type examRow = rowOf[examAction, examState, examInput]

// examRows is the machine. A live peer answers the challenge; a restarted one answers the
// inquiry that it does not know the connection. If both stay unanswered, a second challenge
// decides, since the peer may only be slow. If the queue pair cannot be challenged, only the
// peer's answer ends the connection, never silence: a host that is gone sends no REQ.
func examRows() []examRow {
	return []examRow{
		{in(examBoth, examAsked, examAlone, examLast), examForgotten, examEnd, examOver, NoEvent},
		{in(examBoth), examAlive, examTrust, examLiving, NoEvent},
		{in(examBoth), examDead, examNone, examAsked, NoEvent},
		{in(examBoth), examTimer, examNone, examLast, NoEvent},
		{in(examAsked), examTimer, examChallenge, examLast, NoEvent},
		{in(examLast), examAlive, examTrust, examLiving, NoEvent},
		{in(examLast), examDead, examEnd, examOver, NoEvent},
		{in(examAlone, examLast), examTimer, examTrust, examLiving, NoEvent},
		{in(examLiving), examTimer, examForget, examOver, NoEvent},
	}
}

var examMachine = newMachine(numExamStates, numExamInputs, examRows())

// examination checks whether the peer of a connection has forgotten it.
type examination struct {
	conn    *Conn
	state   examState
	left    int      // inquiries left
	message *request // the REQ or REP to answer at the end; nil: the cause was an answer to another connection
	timer   deadline.Link
	serial  uint64 // number of the current challenge
}

// doubt starts an examination of a connection that the peer seems to have forgotten. It
// drops the message if an examination is under way, or at the limit. It reports false if the
// environment cannot challenge queue pairs, or if the connection is not established; then no
// examination is needed.
func (x *stimulus) doubt(c *Conn) bool {
	m := c.m
	switch {
	case m.cfg.Challenge == nil || c.state != Established:
		return false
	case c.exam != nil || m.exams.Len() >= maxExaminations:
		if x.from != nil {
			m.counters.Doubted++
		}
		return true
	}
	e := &examination{conn: c, state: examAlone, left: inquiries}
	if x.from != nil {
		e.message = x.copied()
	}
	c.exam = e
	m.counters.Examined++
	if e.challenge(x.now) {
		e.state = examBoth
	}
	e.ask(x.now)
	return true
}

// challenge asks the environment to challenge the queue pair, and reports false if it
// cannot.
func (e *examination) challenge(now clock.Instant) bool {
	c, m := e.conn, e.conn.m
	if c.channel != nil {
		return false
	}
	m.challenges++
	serial := m.challenges
	e.serial = serial
	return m.cfg.Challenge(now, c.ep.localQPN, func(now clock.Instant, alive bool) {
		if c.exam != e || e.serial != serial {
			return // the examination is over
		}
		on := examDead
		if alive {
			on = examAlive
		}
		e.step(now, on)
	})
}

// ask sends an inquiry: a DREQ with a QPN that no queue pair has. A connection manager that
// knows the IDs drops it, since the QPN does not fit the connection (Linux does, too); one
// that does not know them answers with DREP.
func (e *examination) ask(now clock.Instant) {
	c := e.conn
	e.left--
	c.m.exams.Set(e, now.Add(inquiryWait))
	msg := mad.DREQ{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	d := newMAD(mad.AttrDREQ, c.m.cfg.TID(c.localID))
	msg.Put(d)
	c.m.transmit(now, c.way(), d)
}

// due is called when the timer fires.
func (e *examination) due(now clock.Instant) {
	if e.left > 0 && e.state != examLiving {
		e.ask(now)
		return
	}
	e.step(now, examTimer)
}

// step applies an input. It ignores a late one, for which the state has no row.
func (e *examination) step(now clock.Instant, on examInput) {
	cell := examMachine[e.state][on]
	if !cell.defined {
		return
	}
	c, m := e.conn, e.conn.m
	e.state = cell.next
	if e.state == examLast {
		m.exams.Set(e, now.Add(trust))
	}
	switch cell.do {
	case examNone:
	case examEnd:
		message := e.message
		dismiss(c)
		if message != nil {
			message.stale(now, m)
		}
		supersede(now, c)
	case examChallenge:
		if !e.challenge(now) {
			e.trust(now)
		}
	case examTrust:
		e.trust(now)
	case examForget:
		dismiss(c)
	}
}

// trust keeps the connection and drops the message.
func (e *examination) trust(now clock.Instant) {
	e.conn.m.counters.Trusted++
	if e.message != nil {
		e.conn.m.counters.Doubted++
	}
	e.state, e.left, e.message = examLiving, 0, nil
	e.conn.m.exams.Set(e, now.Add(trust))
}

// dismiss ends an examination, if there is one, without an outcome.
func dismiss(c *Conn) {
	if c.exam != nil {
		c.m.exams.Remove(c.exam)
		c.exam = nil
	}
}

// supersede ends a connection that the peer has forgotten, and all that share its channel.
func supersede(now clock.Instant, c *Conn) {
	if c.channel != nil {
		c.channel.expire(now)
		return
	}
	c.expire(now)
}

// stale answers a REQ or REP with REJ "stale connection".
func (r *request) stale(now clock.Instant, m *Manager) {
	x := &stimulus{now: now, from: &r.from, tid: r.mad.Header().TID}
	if r.mad.Header().AttrID == mad.AttrREQ {
		x.ev.REQ = decode(&mad.REQ{}, &r.mad)
		m.refuse(x, mad.RejStaleConnection)
		return
	}
	x.ev.REP = decode(&mad.REP{}, &r.mad)
	if c := m.find(x.ev.REP.RemoteCommID, x.ev.REP.LocalCommID, x); c != nil && (c.state == ReqSent || c.state == MRAReqRcvd) {
		x.rejectStaleREP(c)
	}
}

// forgotten handles a DREP that answers an inquiry, and reports whether it was one.
func forgotten(now clock.Instant, c *Conn) bool {
	if c == nil || c.exam == nil || c.state != Established {
		return false
	}
	c.exam.step(now, examForgotten)
	return true
}
