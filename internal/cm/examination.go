package cm

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/mad"
)

// A REQ or REP that names the queue pair of a connection says that the peer was restarted and
// has forgotten it (C7); so does the answer to another connection (claim.go). Anybody who knows the peer's GUID can write such a REQ, so it only
// starts an examination of the connection: its queue pair is challenged, and the peer's
// connection manager is asked. The REJ and the end of the connection wait for the outcome.

const (
	// maxExaminations bounds the examinations at a time, those of peers known to live included.
	maxExaminations = 256
	// inquiries is how often the peer's connection manager is asked, and inquiryWait the time
	// after each.
	inquiries   = 3
	inquiryWait = 100 * time.Millisecond
	// trust is how long a peer that has shown to be alive is not examined again, and how long
	// the outcome of the last challenge may take.
	trust = time.Second
)

// examState is where an examination stands.
type examState uint8

const (
	examOver   examState = iota // there is none
	examBoth                    // a challenge and an inquiry are under way
	examAsked                   // the challenge failed; the inquiry is under way
	examAlone                   // the queue pair cannot be challenged; the inquiry is under way
	examLast                    // the inquiry was in vain; a challenge is under way, and decides
	examLiving                  // the peer lives
	numExamStates
)

var examStateNames = [numExamStates]string{"EXAM_OVER", "EXAM_BOTH", "EXAM_ASKED", "EXAM_ALONE", "EXAM_LAST", "EXAM_LIVING"}

// String returns the name, such as "EXAM_BOTH".
func (s examState) String() string { return nameOf(examStateNames[:], s, "invalid examination state") }

// examInput moves an examination.
type examInput uint8

const (
	examForgotten examInput = iota // the peer's connection manager does not know the connection
	examAlive                      // the peer has answered the challenge
	examDead                       // it has not
	examTimer                      // the time after the last inquiry, of the last challenge, or the trust, is over
	numExamInputs
)

// examAction is what an input of an examination does.
type examAction uint8

const (
	examNone      examAction = iota
	examEnd                  // REJ to the message, and the connection ends
	examTrust                // the connection stays; the message is dropped
	examChallenge            // challenge the queue pair once more; trust, if it cannot be
	examForget               // the next message starts another examination
	numExamActions
)

type examCell = cellOf[examAction, examState]

type examRow struct {
	in   examState
	on   examInput
	do   examAction
	next examState
}

// examRows is the machine. A peer that lives answers a challenge; one that was restarted says
// that it has forgotten the connection. Silence of both, for a while, is believed after a
// second challenge only: a peer may be held up. A queue pair that cannot be challenged has
// its connection ended by what its peer says, never by silence: no stale REQ comes from a
// host that is gone.
func examRows() []examRow {
	return []examRow{
		{examBoth, examForgotten, examEnd, examOver},
		{examBoth, examAlive, examTrust, examLiving},
		{examBoth, examDead, examNone, examAsked},
		{examBoth, examTimer, examNone, examLast},
		{examAsked, examForgotten, examEnd, examOver},
		{examAsked, examTimer, examChallenge, examLast},
		{examAlone, examForgotten, examEnd, examOver},
		{examAlone, examTimer, examTrust, examLiving},
		{examLast, examForgotten, examEnd, examOver},
		{examLast, examAlive, examTrust, examLiving},
		{examLast, examDead, examEnd, examOver},
		{examLast, examTimer, examTrust, examLiving},
		{examLiving, examTimer, examForget, examOver},
	}
}

type examTable [numExamStates][numExamInputs]examCell

// examMachine is the rows by state and input. It never changes.
var examMachine = newExamTable()

func newExamTable() *examTable {
	t := new(examTable)
	for _, r := range examRows() {
		t[r.in][r.on] = cellFor(r.do, r.next, NoEvent)
	}
	return t
}

// examination is what is found out about the peer of a connection.
type examination struct {
	conn    *Conn
	state   examState
	left    int      // inquiries
	message *request // the REQ or REP that is answered at the end; nil: the peer has answered another connection
	timer   deadline.Link
	serial  uint64 // of the challenge under way, of all that there were
}

// doubt examines a connection whose peer a message shows to have forgotten it, and drops the
// message if an examination is under way, or there are too many. It reports false if the
// environment cannot challenge queue pairs, or the connection is not established: then its
// end, or that of its set-up, is decided already.
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

// challenge has the environment challenge the queue pair, and reports false if it cannot be.
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
			return // it is over
		}
		on := examDead
		if alive {
			on = examAlive
		}
		e.step(now, on)
	})
}

// ask asks the peer's connection manager whether it knows the connection: a DREQ for a queue
// pair that nobody has. A manager that knows the IDs drops it, as the queue pair is not that
// of the connection (Linux does, too); one that does not know them answers by DREP.
func (e *examination) ask(now clock.Instant) {
	c := e.conn
	e.left--
	c.m.exams.Set(e, now.Add(inquiryWait))
	msg := mad.DREQ{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	c.m.transmit(now, c.way(), build(mad.AttrDREQ, c.m.cfg.TID(c.localID), &msg))
}

// due is called when the timer fires.
func (e *examination) due(now clock.Instant) {
	if e.left > 0 && e.state != examLiving {
		e.ask(now)
		return
	}
	e.step(now, examTimer)
}

// step gives the examination an input. One that the state has no use for is late.
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

// trust leaves the connection alone.
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

// stale rejects a message for the connection that it has shown to be forgotten.
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

// forgotten takes a DREP for a connection that has sent no DREQ but an inquiry, and reports
// whether it is that.
func forgotten(now clock.Instant, c *Conn) bool {
	if c == nil || c.exam == nil || c.state != Established {
		return false
	}
	c.exam.step(now, examForgotten)
	return true
}
