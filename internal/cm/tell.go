package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// tell traces what an input has changed.
func (x *stimulus) tell(c *Conn, on Input, from State) {
	if c.m.cfg.Trace == nil || c.state == from {
		return
	}
	switch {
	case c.state == Established:
		traceChange(x.now, c, trace.Established, nil)
	case from == Established:
		traceChange(x.now, c, trace.Ended, ending(on))
	case on == MsgREJ || on == MsgREJStale:
		traceChange(x.now, c, trace.RejectedBy, x.ev.REJ.Reason)
	case on == MsgSIDRREP && x.ev.SIDRREP.Status != mad.SIDRValid:
		traceChange(x.now, c, trace.RejectedBy, x.ev.SIDRREP.Status)
	case on == TimerExhausted && from != DReqSent:
		traceChange(x.now, c, trace.Unanswered, from)
	}
}

// refuses reports whether a REJ refuses a request of the peer: it also ends a request of this side that
// was not answered, or that the program takes back.
func refuses(c *Conn, a Action) bool {
	return a != rejectTimeout && (c.role == Passive || c.state == RepRcvd || c.state == MRARepSent)
}

// ending is an input that has ended an established connection.
type ending Input

// String says why the connection has ended.
func (e ending) String() string {
	switch on := Input(e); {
	case on < firstMsg:
		return "by this side"
	case on == MsgDREQ:
		return "by the peer"
	default:
		return "after " + on.String()
	}
}

// traceChange records a change of the connection.
func traceChange(now clock.Instant, c *Conn, what trace.Change, why fmt.Stringer) {
	if t := c.m.cfg.Trace; t != nil {
		cause := ""
		if why != nil {
			cause = why.String()
		}
		t(&trace.Record{
			At: now, Kind: trace.Connection, Change: what, Cause: cause, QPN: c.ep.localQPN, Peer: c.ep.remoteQPN,
			Local: c.path.Local, Remote: c.to.Remote, Service: c.service,
		})
	}
}

// traceRefusal records that a message which belongs to no connection is refused.
func traceRefusal(m *Manager, x *stimulus, why fmt.Stringer) {
	if m.cfg.Trace == nil {
		return
	}
	r := trace.Record{
		At: x.now, Kind: trace.Connection, Change: trace.Rejected, Cause: why.String(), QPN: ib.QPNGSI,
		Local: x.from.From.Local, Remote: x.from.From.Remote,
	}
	switch {
	case x.ev.REQ != nil:
		r.Peer, r.Service = x.ev.REQ.LocalQPN, x.ev.REQ.ServiceID
	case x.ev.SIDRREQ != nil:
		r.Service = x.ev.SIDRREQ.ServiceID
	}
	m.cfg.Trace(&r)
}
