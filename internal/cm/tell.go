package cm

import (
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
		traceChange(x.now, c, trace.Established, "")
	case from == Established:
		traceChange(x.now, c, trace.Ended, whyEnded(on))
	case on == MsgREJ || on == MsgREJStale:
		traceChange(x.now, c, trace.RejectedBy, x.ev.REJ.Reason.String())
	case on == MsgSIDRREP && x.ev.SIDRREP.Status != mad.SIDRValid:
		traceChange(x.now, c, trace.RejectedBy, x.ev.SIDRREP.Status.String())
	case on == TimerExhausted && from != DReqSent:
		traceChange(x.now, c, trace.Unanswered, from.String())
	}
}

// whyEnded says why an established connection has ended.
func whyEnded(on Input) string {
	switch {
	case on < firstMsg:
		return "by this side"
	case on == MsgDREQ:
		return "by the peer"
	default:
		return "after " + on.String()
	}
}

// traceChange records a change of the connection.
func traceChange(now clock.Instant, c *Conn, what trace.Change, why string) {
	if t := c.m.cfg.Trace; t != nil {
		t(&trace.Record{
			At: now, Kind: trace.Connection, Change: what, Cause: why, QPN: c.ep.localQPN, Peer: c.ep.remoteQPN,
			Local: c.path.Local, Remote: c.to.Remote, Service: c.service,
		})
	}
}

// traceRefusal records that a message which belongs to no connection is refused.
func traceRefusal(m *Manager, x *stimulus, why string) {
	if m.cfg.Trace == nil {
		return
	}
	r := trace.Record{
		At: x.now, Kind: trace.Connection, Change: trace.Rejected, Cause: why, QPN: ib.QPNGSI,
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
