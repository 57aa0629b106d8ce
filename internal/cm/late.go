package cm

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// This file has the behaviour of Config.Nasty: messages of connections leave late, and some leave
// twice. The messages of a connection keep their order, and none waits for more than a fraction of
// the time after which it would be repeated, so that no connection fails.

// Bounds of the behaviour.
const (
	lateOdds  = 4                    // of this number of messages, one is late on average
	twiceOdds = 8                    // of this number of messages, one is sent twice on average
	mostDelay = 5 * time.Millisecond // maximum delay
	waitShare = 16                   // maximum delay, as a part of the time until a repetition
	maxLate   = 1024                 // messages that wait; at the bound, all are sent
)

// Late are the messages of connections that wait because of Config.Nasty.
type Late struct{ late []lateMessage } // by due

// lateMessage is a message that waits.
type lateMessage struct {
	due  clock.Instant
	to   gsi.Address
	mad  *mad.MAD // of a connection, which does not change it
	send sender
}

// sender is Manager.transmit or Manager.reply.
type sender func(now clock.Instant, to gsi.Address, d *mad.MAD)

// dispatch sends a message of a connection: at once, or as Nasty chooses.
func dispatch(now clock.Instant, c *Conn, d *mad.MAD, send sender) {
	m, to := c.m, c.way()
	dice, most := m.cfg.Nasty, min(mostDelay, c.retry.interval/waitShare)
	if !dice.Has(nasty.CM) || most <= 0 {
		send(now, to, d)
		return
	}
	kind, due := d.Header().AttrID, max(now, c.lastDue)
	if kind == mad.AttrDREQ || kind == mad.AttrREJ { // the program may end now
		m.sendLate(now, clock.Never)
		send(now, to, d)
		return
	}
	if dice.OneIn(nasty.CM, lateOdds) {
		due = max(due, now.Add(dice.Time(nasty.CM, most)))
		traceNasty(now, c, fmt.Sprintf("nasty: %v is sent %v late", kind, due.Sub(now)))
	}
	c.lastDue = m.postpone(now, lateMessage{due, to, d, send})
	if !repeatable(kind) || !dice.OneIn(nasty.CM, twiceOdds) || c.allowance.limited {
		return
	}
	due = max(due, now.Add(dice.Time(nasty.CM, most)))
	traceNasty(now, c, fmt.Sprintf("nasty: %v is sent twice", kind))
	c.lastDue = m.postpone(now, lateMessage{due, to, d, send})
}

// repeatable reports whether a copy of a message has no effect. A copy of a request that the peer
// has answered is another request, and a copy of an APR may answer the next LAP.
func repeatable(kind mad.AttrID) bool {
	return kind != mad.AttrREQ && kind != mad.AttrSIDRREQ && kind != mad.AttrLAP && kind != mad.AttrAPR
}

// postpone sends a message when it is due, and returns when that is.
func (q *Late) postpone(now clock.Instant, l lateMessage) clock.Instant {
	if len(q.late) >= maxLate {
		q.sendLate(now, clock.Never)
		l.due = now
	}
	if l.due <= now {
		l.send(now, l.to, l.mad)
		return now
	}
	i := len(q.late)
	for i > 0 && q.late[i-1].due > l.due {
		i--
	}
	q.late = slices.Insert(q.late, i, l)
	return l.due
}

// sendLate sends the messages that are due by an instant.
func (q *Late) sendLate(now, until clock.Instant) {
	for len(q.late) > 0 && q.late[0].due <= until {
		l := q.late[0]
		q.late = slices.Delete(q.late, 0, 1)
		l.send(now, l.to, l.mad)
	}
}

// lateDue returns when the next message is due; clock.Never if there is none.
func (q *Late) lateDue() clock.Instant {
	if len(q.late) == 0 {
		return clock.Never
	}
	return q.late[0].due
}

// SendLate sends all messages that wait, before the adapter closes.
func (q *Late) SendLate(now clock.Instant) { q.sendLate(now, clock.Never) }

// traceNasty records what happens to a message of a connection.
func traceNasty(now clock.Instant, c *Conn, cause string) {
	if t := c.m.cfg.Trace; t != nil {
		t(&trace.Record{
			At: now, Kind: trace.Fault, QPN: c.ep.localQPN, Peer: c.ep.remoteQPN,
			Local: c.path.Local, Remote: c.path.Remote, Cause: cause,
		})
	}
}
