package rdmacm

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// handle converts the events of an ID's connection to events of the ID, and takes the
// steps that librdmacm takes for the program. It runs on the adapter's thread.
func handle(now clock.Instant, c *cm.Conn, e *cm.Event) {
	id := c.Consumer.(*ID)
	wanted := stateConnect
	if e.Type == cm.TimewaitExit {
		wanted = stateDisconnect // only an ID that was connected raises this event
	}
	if id.conn != c || id.state != wanted {
		return
	}
	if c.Role() == cm.Passive && !id.accepted {
		return // the program has not accepted the request
	}
	switch e.Type {
	case cm.REQError, cm.REPError, cm.SIDRREQError:
		id.fail(now)
		id.post(unreachable(ib.ETIMEDOUT))
	case cm.REPReceived:
		id.replied(now, e.REP)
	case cm.REJReceived:
		id.fail(now)
		id.post(id.rejected(e.REJ))
	case cm.RTUReceived, cm.UserEstablished:
		id.established(now)
	case cm.DREQError, cm.DREQReceived, cm.DREPReceived:
		id.disconnected(now, e.Type)
	case cm.TimewaitExit:
		id.post(&Event{Type: EventTimewaitExit})
	case cm.SIDRREPReceived:
		id.resolved(e.SIDRREP)
	case cm.LAPReceived:
		id.altPathAsked(now)
	case cm.APRReceived:
		id.altPathAnswered(now, e.APR)
	case cm.LAPError:
		id.altPathFailed(c.Asked(), -int(ib.ETIMEDOUT), fmt.Errorf("no answer from the peer: %w", ib.ETIMEDOUT))
	}
}

// consume makes the ID the consumer of a connection.
func (id *ID) consume(c *cm.Conn) {
	c.Consumer = id
	c.OnMove = func(now clock.Instant, left cm.Path) { id.migrated(now, c, left) }
}

// unreachable returns the event of a peer that does not answer.
func unreachable(errno ib.Errno) *Event {
	return &Event{Type: EventUnreachable, Status: -int(errno), Err: fmt.Errorf("no answer from the peer: %w", errno)}
}

// rejected returns the event of a REJ.
func (id *ID) rejected(j *mad.REJ) *Event {
	data := slices.Clone(j.PrivateData[:])
	return &Event{
		Type: EventRejected, Status: int(j.Reason), Err: &RejectError{Reason: j.Reason, PrivateData: data, hint: id.hint(j.Reason)},
		Param: ConnParam{PrivateData: data},
	}
}

// fail moves the QP of a failed or ended connection to ERR.
func (id *ID) fail(now clock.Instant) {
	if q := id.qp.engine(); q != nil {
		_ = id.dev.hca.Disconnect(now, q) // refused only in RESET, to which the program may have moved it
	}
}

// replied handles REP: it moves the QP of CreateQP to RTS and sends RTU. A program with
// its own QP does this itself, and an MRA makes the peer wait for it. An RD queue pair
// needs no parameters of the peer.
func (id *ID) replied(now clock.Instant, rep *mad.REP) {
	ev := &Event{Type: EventEstablished, Param: ConnParam{
		PrivateData:        slices.Clone(rep.PrivateData[:]),
		ResponderResources: rep.InitiatorDepth, InitiatorDepth: rep.ResponderResources,
		FlowControl: rep.EndToEndFlowControl, RNRRetryCount: rep.RNRRetryCount, SRQ: rep.SRQ, QPN: rep.LocalQPN,
		QKey: rep.LocalQKey, Channel: id.channel,
	}}
	if id.qp == nil && id.typ != ib.RD {
		_ = id.conn.PrepareMRA(now, cm.DefaultMRATimeout, nil) // allowed in this state
		ev.Type = EventConnectResponse
		id.post(ev)
		return
	}
	if err := id.ready(now); err != nil {
		id.refuse(now)
		id.post(&Event{Type: EventConnectError, Status: -1, Err: fmt.Errorf("connect the queue pair: %w", err)})
		return
	}
	_ = id.conn.SendRTU(now, nil) // allowed in this state
	id.post(ev)
}

// ready moves the QP of CreateQP to RTS.
func (id *ID) ready(now clock.Instant) error {
	if id.typ == ib.RD {
		return id.readyRD(now)
	}
	q := id.qp.engine()
	if q == nil {
		return errNoQP
	}
	return id.dev.hca.Establish(now, id.conn, q)
}

// refuse ends a connection that this side cannot establish.
func (id *ID) refuse(now clock.Instant) {
	id.fail(now)
	// Allowed in every state before the connection is established.
	_ = id.conn.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer})
}

// established handles RTU, or the first packet in its place. If the program has already
// called Disconnect, the connection ends at once.
func (id *ID) established(now clock.Instant) {
	if id.leaving {
		_ = id.conn.SendDREQ(now, nil) // allowed in this state
		return
	}
	id.post(&Event{Type: EventEstablished})
}

// disconnected reports the first cause that ends a connection. It answers a DREQ that
// crosses ours: the program has already called Disconnect.
func (id *ID) disconnected(now clock.Instant, cause cm.EventType) {
	id.fail(now)
	id.state = stateDisconnect
	ev := &Event{Type: EventDisconnected}
	if cause == cm.DREQError {
		ev.Status, ev.Err = -int(ib.ETIMEDOUT), fmt.Errorf("no answer to the disconnect: %w", ib.ETIMEDOUT)
	}
	if cause == cm.DREQReceived && (id.leaving || id.answers) {
		_ = id.conn.SendDREP(now, nil) // allowed in this state
	}
	id.post(ev)
}

// resolved handles the answer to the resolution of a UD service.
func (id *ID) resolved(rep *mad.SIDRREP) {
	data := slices.Clone(rep.PrivateData[:])
	if rep.Status != mad.SIDRValid {
		id.post(&Event{
			Type: EventUnreachable, Status: int(rep.Status), UD: UDParam{PrivateData: data},
			Err: fmt.Errorf("the service was not resolved: %v: %w", rep.Status, ib.ECONNREFUSED),
		})
		return
	}
	id.post(&Event{Type: EventEstablished, UD: UDParam{PrivateData: data, AH: id.ahAttr(), QPN: rep.QPN, QKey: rep.QKey}})
}

// ahAttr returns the address vector of the path to the peer.
func (id *ID) ahAttr() ib.AHAttr {
	sgid, _ := id.dev.index(id.path.Local)
	return ib.AHAttr{
		DGID: ib.GIDFromAddr(id.path.Remote), SGIDIndex: sgid, Port: 1, FlowLabel: id.path.FlowLabel,
		HopLimit: id.path.HopLimit, TrafficClass: id.path.TClass, SL: id.path.SL,
	}
}
