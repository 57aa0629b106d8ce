package rdmacm

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// link is an ID's connection to its peer: the state of the ID, the connection of the CM, its
// path, and the queue pair and channel that it moves. conn is nil before state "connect". For
// UD, the connection resolves a service; the link of a listener has only a state.
//
// It belongs to the adapter's control plane; while the ID has no adapter, ID.call guards it.
type link struct {
	at    *binding
	inbox *inbox

	state    idState
	conn     *cm.Conn
	path     cm.Path // to the peer, once the route is resolved
	accepted bool    // passive: events other than CONNECT_REQUEST are wanted
	leaving  bool    // Disconnect was called

	// Written with ID.call held too, which suffices to read.
	settings settings
	qp       *ownQP   // nil: the program moves its own
	channel  *Channel // RD only
}

// handle converts the events of a link's connection to events of the ID, and takes the
// steps that librdmacm takes for the program.
func handle(now clock.Instant, c *cm.Conn, e *cm.Event) {
	l := c.Consumer.(*link)
	wanted := stateConnect
	if e.Type == cm.TimewaitExit {
		wanted = stateDisconnect // only an ID that was connected raises this event
	}
	if l.conn != c || l.state != wanted {
		return
	}
	if c.Role() == cm.Passive && !l.accepted {
		return // the program has not accepted the request
	}
	switch e.Type {
	case cm.REQError, cm.REPError, cm.SIDRREQError:
		l.fail(now)
		l.inbox.post(unreachable(ib.ETIMEDOUT))
	case cm.REPReceived:
		l.replied(now, e.REP)
	case cm.REJReceived:
		l.fail(now)
		l.inbox.post(l.rejected(e.REJ))
	case cm.RTUReceived, cm.UserEstablished:
		l.established(now)
	case cm.DREQError, cm.DREQReceived, cm.DREPReceived:
		l.disconnected(now, e.Type)
	case cm.TimewaitExit:
		l.inbox.post(&Event{Type: EventTimewaitExit})
	case cm.SIDRREPReceived:
		l.resolved(e.SIDRREP)
	case cm.LAPReceived:
		l.altPathAsked(now)
	case cm.APRReceived:
		l.altPathAnswered(now, e.APR)
	case cm.LAPError:
		l.altPathFailed(c.Asked(), -int(ib.ETIMEDOUT), fmt.Errorf("no answer from the peer: %w", ib.ETIMEDOUT))
	}
}

// consume makes the link the consumer of a connection.
func (l *link) consume(c *cm.Conn) {
	c.Consumer = l
	c.OnMove = func(now clock.Instant, left cm.Path) { l.migrated(now, c, left) }
}

// end ends the connection for good.
func (l *link) end(now clock.Instant) error {
	if l.conn != nil {
		l.conn.Destroy(now)
		l.conn = nil
	}
	return nil
}

// unreachable returns the event of a peer that does not answer.
func unreachable(errno ib.Errno) *Event {
	return &Event{Type: EventUnreachable, Status: -int(errno), Err: fmt.Errorf("no answer from the peer: %w", errno)}
}

// rejected returns the event of a REJ.
func (l *link) rejected(j *mad.REJ) *Event {
	data := slices.Clone(j.PrivateData[:])
	return &Event{
		Type: EventRejected, Status: int(j.Reason), Err: &RejectError{Reason: j.Reason, PrivateData: data, hint: l.hint(j.Reason)},
		Param: ConnParam{PrivateData: data},
	}
}

// fail moves the QP of a failed or ended connection to ERR.
func (l *link) fail(now clock.Instant) {
	if q := l.qp.engine(); q != nil {
		_ = l.at.dev.hca.Disconnect(now, q) // refused only in RESET, to which the program may have moved it
	}
}

// replied handles REP: it moves the QP of CreateQP to RTS and sends RTU. A program with
// its own QP does this itself, and an MRA makes the peer wait for it. An RD queue pair
// needs no parameters of the peer.
func (l *link) replied(now clock.Instant, rep *mad.REP) {
	ev := &Event{Type: EventEstablished, Param: ConnParam{
		PrivateData:        slices.Clone(rep.PrivateData[:]),
		ResponderResources: rep.InitiatorDepth, InitiatorDepth: rep.ResponderResources,
		FlowControl: rep.EndToEndFlowControl, RNRRetryCount: rep.RNRRetryCount, SRQ: rep.SRQ, QPN: l.peerQPN(rep),
		QKey: rep.LocalQKey, Channel: l.channel,
	}}
	if l.qp == nil && l.at.typ != ib.RD {
		_ = l.conn.PrepareMRA(now, cm.DefaultMRATimeout, nil) // allowed in this state
		ev.Type = EventConnectResponse
		l.inbox.post(ev)
		return
	}
	if err := l.ready(now); err != nil {
		l.refuse(now)
		l.inbox.post(&Event{Type: EventConnectError, Status: -1, Err: fmt.Errorf("connect the queue pair: %w", err)})
		return
	}
	_ = l.conn.SendRTU(now, nil) // allowed in this state
	l.inbox.post(ev)
}

// peerQPN returns the number of the peer's queue pair; for XRC it is where an EE context's would be.
func (l *link) peerQPN(rep *mad.REP) ib.QPN {
	if l.at.typ == ib.XRCIni {
		return ib.QPN(rep.LocalEECN)
	}
	return rep.LocalQPN
}

// ready moves the QP of CreateQP to RTS.
func (l *link) ready(now clock.Instant) error {
	if l.at.typ == ib.RD {
		return l.readyRD(now)
	}
	q := l.qp.engine()
	if q == nil {
		return errNoQP
	}
	l.countTimers()
	return l.at.dev.hca.Establish(now, l.conn, q)
}

// countTimers notes the timers that the queue pair or EE context gets from the connection.
func (l *link) countTimers() {
	if a, _, err := l.conn.QPAttr(ib.RTS); err == nil {
		l.at.dev.dev.CountTimers(&a)
	}
}

// refuse ends a connection that this side cannot establish.
func (l *link) refuse(now clock.Instant) {
	l.fail(now)
	// Allowed in every state before the connection is established.
	_ = l.conn.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer})
}

// established handles RTU, or the first packet in its place. If the program has already
// called Disconnect, the connection ends at once.
func (l *link) established(now clock.Instant) {
	if l.leaving {
		_ = l.conn.SendDREQ(now, nil) // allowed in this state
		return
	}
	l.inbox.post(&Event{Type: EventEstablished})
}

// disconnected reports the first cause that ends a connection. It answers a DREQ that
// crosses ours: the program has already called Disconnect.
func (l *link) disconnected(now clock.Instant, cause cm.EventType) {
	l.fail(now)
	l.state = stateDisconnect
	ev := &Event{Type: EventDisconnected}
	if cause == cm.DREQError {
		ev.Status, ev.Err = -int(ib.ETIMEDOUT), fmt.Errorf("no answer to the disconnect: %w", ib.ETIMEDOUT)
	}
	if cause == cm.DREQReceived && (l.leaving || l.settings.autoDisconnect) {
		_ = l.conn.SendDREP(now, nil) // allowed in this state
	}
	l.inbox.post(ev)
}

// resolved handles the answer to the resolution of a UD service.
func (l *link) resolved(rep *mad.SIDRREP) {
	data := slices.Clone(rep.PrivateData[:])
	if rep.Status != mad.SIDRValid {
		l.inbox.post(&Event{
			Type: EventUnreachable, Status: int(rep.Status), UD: UDParam{PrivateData: data},
			Err: fmt.Errorf("the service was not resolved: %v: %w", rep.Status, ib.ECONNREFUSED),
		})
		return
	}
	l.inbox.post(&Event{Type: EventEstablished, UD: UDParam{PrivateData: data, AH: l.ahAttr(), QPN: rep.QPN, QKey: rep.QKey}})
}

// ahAttr returns the address vector of the path to the peer.
func (l *link) ahAttr() ib.AHAttr {
	sgid, _ := l.at.dev.index(l.path.Local)
	return ib.AHAttr{
		DGID: ib.GIDFromAddr(l.path.Remote), SGIDIndex: sgid, Port: 1, FlowLabel: l.path.FlowLabel,
		HopLimit: l.path.HopLimit, TrafficClass: l.path.TClass, SL: l.path.SL,
	}
}
