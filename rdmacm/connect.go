package rdmacm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// The room for the program in private data. In REQ and SIDR_REQ it comes after
// the IP header.
const (
	reqData     = 92 - mad.IPHeaderSize
	sidrREQData = 216 - mad.IPHeaderSize
)

// mostRetries is the largest retry count; for RNR retries it means without limit.
const mostRetries = 7

// errNoQP is returned when the QP of an ID is gone, or was never there.
var errNoQP = fmt.Errorf("the ID has no queue pair: %w", ib.EINVAL)

// errNotAsked is returned by calls that answer a request if there is none.
var errNotAsked = fmt.Errorf("no connection request waits for an answer: %w", ib.EINVAL)

// Connect requests a connection from the peer or, for an ID of UDP, the queue pair of
// its service. ESTABLISHED reports that both sides may send; for an ID without a QP
// of CreateQP, CONNECT_RESPONSE reports that the program must move its QP and call
// Establish. REJECTED, UNREACHABLE or CONNECT_ERROR report that there is no
// connection. A nil p requests 7 retries and all resources. After an error the ID may
// try again. Errors: EINVAL in another state, for private data over 56 bytes (UDP:
// 180), without a QP if p names none, and, for TCP, for more resources than the
// adapter has; ENOMEM if the adapter has no room for another connection.
func (id *ID) Connect(p *ConnParam) error {
	if err := disturb(id, "CMConnect"); err != nil {
		return err
	}
	return id.start("connect", func() error {
		if id.at.typ != ib.RD {
			return id.at.do(func(now clock.Instant) error { return id.link.connect(now, p) })
		}
		return id.connectRD(p)
	}, EventEstablished, EventConnectResponse)
}

// connect runs in the control plane.
func (l *link) connect(now clock.Instant, p *ConnParam) error {
	switch {
	case l.state != stateRouteResolved:
		return l.state.refuses()
	case l.path.Remote.IsMulticast():
		return fmt.Errorf("%v is a multicast group: %w", l.path.Remote, ib.EINVAL)
	}
	var err error
	c := l.at.dev.hca.CM().NewConn(handle)
	l.consume(c)
	if l.at.typ == ib.UD {
		err = l.askService(now, c, p)
	} else {
		err = l.askConnection(now, c, p)
	}
	if err != nil {
		return err
	}
	l.conn, l.state = c, stateConnect
	return nil
}

// askConnection sends REQ.
func (l *link) askConnection(now clock.Instant, c *cm.Conn, p *ConnParam) error {
	o, err := l.offer(p)
	if err != nil {
		return err
	}
	data, err := l.private(o.PrivateData, reqData)
	if err != nil {
		return err
	}
	req := cm.REQParams{
		Service: mad.IPServiceID(l.at.ps, l.at.dst.Port()), Transport: mad.TransportRC, QPN: o.QPN, Path: l.path,
		ResponderResources: min(o.ResponderResources, l.at.dev.maxRD), InitiatorDepth: min(o.InitiatorDepth, l.at.dev.maxRD),
		RetryCount: min(o.RetryCount, mostRetries), RNRRetryCount: min(o.RNRRetryCount, mostRetries),
		FlowControl: o.FlowControl, SRQ: o.SRQ,
		ResponseTimeout: l.settings.cmTimeout, MaxRetries: l.settings.cmRetries, PrivateData: data,
	}
	switch l.at.typ {
	case ib.UC:
		req.Transport = mad.TransportUC
	case ib.XRCIni:
		req.Transport = mad.TransportExtended
	case ib.XRCTgt:
		return fmt.Errorf("an XRC target cannot connect; an initiator does: %w", ib.EINVAL)
	case ib.RD:
		if err := l.askRD(&req, &o); err != nil {
			return err
		}
	}
	if err := c.SendREQ(now, &req); err != nil {
		return err
	}
	l.settings.chooseTimeout(c)
	if l.channel != nil {
		l.channel.conn = c.Channel()
	}
	return nil
}

// askService sends SIDR_REQ.
func (l *link) askService(now clock.Instant, c *cm.Conn, p *ConnParam) error {
	p = cmp.Or(p, &ConnParam{})
	data, err := l.private(p.PrivateData, sidrREQData)
	if err != nil {
		return err
	}
	return c.SendSIDRREQ(now, &cm.SIDRREQParams{
		Service: mad.IPServiceID(l.at.ps, l.at.dst.Port()), Path: l.path,
		ResponseTimeout: l.settings.cmTimeout, MaxRetries: l.settings.cmRetries, PrivateData: data,
	})
}

// offer returns this side's parameters of a connection: p, or the defaults, with the QP of
// CreateQP if there is one.
func (l *link) offer(p *ConnParam) (ConnParam, error) {
	o := ConnParam{
		ResponderResources: AllResources, InitiatorDepth: AllResources, RetryCount: mostRetries, RNRRetryCount: mostRetries,
	}
	switch {
	case p != nil:
		o = *p
	case l.qp == nil:
		return o, errNoQP
	}
	if l.qp != nil {
		q := l.qp.engine()
		if q == nil {
			return o, errNoQP
		}
		o.QPN, o.SRQ = q.Num(), l.qp.srq
		if l.at.typ == ib.RD {
			var err error
			if o.QKey, err = l.at.dev.qkey(q); err != nil {
				return o, err
			}
		}
	}
	for _, n := range [...]uint8{o.ResponderResources, o.InitiatorDepth} {
		if l.at.ps == TCP && n != AllResources && n > l.at.dev.maxRD {
			return o, fmt.Errorf("%d outstanding READs and atomics; the adapter allows %d: %w", n, l.at.dev.maxRD, ib.EINVAL)
		}
	}
	if o.QPN == 0 {
		return o, errNoQP
	}
	return o, nil
}

// qkey returns the Q_Key of a queue pair.
func (d *adapter) qkey(q *qp.QP) (key ib.QKey, err error) {
	err = d.hca.Enter(func() error {
		key = q.Query().QKey
		return nil
	})
	return key, err
}

// private returns the private data of a REQ or SIDR_REQ.
func (l *link) private(data []byte, room int) ([]byte, error) {
	if len(data) > room {
		return nil, fmt.Errorf("%d bytes of private data; there is room for %d: %w", len(data), room, ib.EINVAL)
	}
	var h [mad.IPHeaderSize]byte
	mad.IPHeader{SrcPort: l.at.src.Port(), SrcAddr: l.at.src.Addr(), DstAddr: l.at.dst.Addr()}.Put(&h)
	return slices.Concat(h[:], data), nil
}

// Accept accepts the request of the ID. It first moves the QP of CreateQP to RTS, so
// that the peer may send at once; ESTABLISHED follows. For an ID of UDP it sends the
// peer the QP, and no event follows. A nil p accepts the peer's parameters; otherwise
// the resources are those of p, whatever the peer requested. The peer's retry counts
// are those of its REQ. EINVAL if there is nothing to accept, without a QP, and, for
// TCP, for more resources than the adapter has; then the request is still pending. Any
// other error, such as EINVAL for private data over 196 bytes (UDP: 136), rejects it.
func (id *ID) Accept(p *ConnParam) error {
	if err := disturb(id, "CMAccept"); err != nil {
		return err
	}
	connects := false
	err := id.run("accept", func() error {
		connects = id.at.typ != ib.UD
		if id.at.typ == ib.RD {
			return id.acceptRD(p)
		}
		return id.at.do(func(now clock.Instant) error { return id.link.accept(now, p) })
	})
	if err != nil || !connects {
		return err
	}
	return id.inbox.complete("accept", EventEstablished)
}

// accept runs in the control plane.
func (l *link) accept(now clock.Instant, p *ConnParam) error {
	if !l.asked() {
		return errNotAsked
	}
	if l.at.typ == ib.UD {
		return l.acceptService(now, p)
	}
	o, err := l.offer(p)
	if err != nil {
		return err
	}
	if err := l.acceptConnection(now, &o, p != nil); err != nil {
		l.refuse(now)
		return err
	}
	return nil
}

// asked reports whether a peer's request is pending.
func (l *link) asked() bool {
	if l.state != stateConnect || l.conn == nil || l.conn.Role() != cm.Passive {
		return false
	}
	switch l.conn.State() {
	case cm.ReqRcvd, cm.MRAReqSent, cm.SIDRReqRcvd:
		return true
	default:
		return false
	}
}

// acceptConnection moves the QP to RTS and sends REP.
func (l *link) acceptConnection(now clock.Instant, o *ConnParam, chosen bool) error {
	c := l.conn
	served, depth := c.Resources()
	served, depth = min(served, l.at.dev.maxRD), min(depth, l.at.dev.maxRD)
	if chosen && o.ResponderResources != AllResources {
		served = min(o.ResponderResources, l.at.dev.maxRD)
	}
	if chosen && o.InitiatorDepth != AllResources {
		depth = min(o.InitiatorDepth, l.at.dev.maxRD)
	}
	c.SetResources(served, depth)
	l.settings.chooseTimeout(c)
	if l.qp != nil || l.at.typ == ib.RD {
		if err := l.ready(now); err != nil {
			return err
		}
	}
	rep := cm.REPParams{
		QPN: o.QPN, ResponderResources: served, InitiatorDepth: depth, RNRRetryCount: min(o.RNRRetryCount, mostRetries),
		FlowControl: o.FlowControl, SRQ: o.SRQ, PrivateData: o.PrivateData,
	}
	if k := l.channel; k != nil {
		rep.QKey, rep.EECN = o.QKey, k.eec.EECN()
		k.conn = c.Channel()
	}
	err := c.SendREP(now, &rep)
	l.accepted = err == nil
	return err
}

// acceptService sends SIDR_REP.
func (l *link) acceptService(now clock.Instant, p *ConnParam) error {
	p = cmp.Or(p, &ConnParam{})
	rep := cm.SIDRREPParams{Status: mad.SIDRValid, QPN: p.QPN, QKey: cmp.Or(p.QKey, DefaultQKey), PrivateData: p.PrivateData}
	if q := l.qp.engine(); q != nil {
		rep.QPN = q.Num()
	}
	if rep.QPN == 0 {
		return errNoQP
	}
	err := l.conn.SendSIDRREP(now, &rep)
	if err != nil {
		// Allowed in this state, and without data that could be too long.
		_ = l.conn.SendSIDRREP(now, &cm.SIDRREPParams{Status: mad.SIDRRejected})
	}
	return err
}

// Reject rejects the request of the ID, or the peer's answer after CONNECT_RESPONSE.
// EINVAL if there is neither, or for private data over 148 bytes (UDP: 136); then
// nothing was sent.
func (id *ID) Reject(private []byte) error { return id.RejectWith(mad.RejConsumer, private) }

// RejectWith is Reject with a reason. An ID of UDP has only one reason.
func (id *ID) RejectWith(reason mad.RejReason, private []byte) error {
	if err := disturb(id, "CMReject"); err != nil {
		return err
	}
	return id.runOn("reject", func(now clock.Instant) error { return id.link.reject(now, reason, private) })
}

func (l *link) reject(now clock.Instant, reason mad.RejReason, private []byte) error {
	switch {
	case l.asked() && l.at.typ == ib.UD:
		return l.conn.SendSIDRREP(now, &cm.SIDRREPParams{Status: mad.SIDRRejected, PrivateData: private})
	case l.asked(), l.answered():
		return l.conn.SendREJ(now, &cm.REJParams{Reason: reason, PrivateData: private})
	default:
		return fmt.Errorf("there is nothing to reject: %w", ib.EINVAL)
	}
}

// answered reports whether a REP is pending, for Establish or Reject.
func (l *link) answered() bool {
	if l.state != stateConnect || l.conn == nil {
		return false
	}
	s := l.conn.State()
	return s == cm.RepRcvd || s == cm.MRARepSent
}

// Establish completes a connection after CONNECT_RESPONSE, once the program has moved
// its QP to RTR or RTS: it sends RTU. No event follows. EINVAL for an ID with a QP of
// CreateQP, and if there is nothing to complete.
func (id *ID) Establish() error {
	if err := disturb(id, "CMEstablish"); err != nil {
		return err
	}
	return id.runOn("establish", func(now clock.Instant) error {
		if id.link.qp != nil || !id.link.answered() {
			return fmt.Errorf("the peer has sent no response to complete: %w", ib.EINVAL)
		}
		return id.link.conn.SendRTU(now, nil)
	})
}

// Notify reports an asynchronous event of the program's own QP to the connection; a QP
// of CreateQP needs no such call. COMM_EST, data before RTU, establishes a passive
// connection: EISCONN if it is already established. PATH_MIG moves the messages of the
// connection to the alternate path too: EINVAL if the two sides had agreed on none.
// EINVAL in another state and for other events.
func (id *ID) Notify(e ib.EventType) error {
	return id.runOn("notify", func(now clock.Instant) error {
		switch {
		case e == ib.EventCommEst && id.link.conn != nil:
			return id.link.conn.Establish(now)
		case e == ib.EventPathMig && id.link.state == stateConnect && id.link.conn != nil && id.link.conn.Migrated(now):
			return nil
		}
		return fmt.Errorf("%v in state %q: %w", e, id.link.state, ib.EINVAL)
	})
}

// Disconnect moves the QP of CreateQP to ERR and ends the connection: it sends DREQ
// or, if the peer was first, DREP. DISCONNECTED follows. A connection that is not yet
// established is disconnected as soon as it is. EINVAL for an ID that is neither
// connected nor listening. If there is nothing to end, it does nothing.
func (id *ID) Disconnect() error {
	if err := disturb(id, "CMDisconnect"); err != nil {
		return err
	}
	follows := false
	err := id.runOn("disconnect", func(now clock.Instant) (err error) {
		follows, err = id.link.disconnect(now)
		return err
	})
	if err != nil || !follows {
		return err
	}
	return id.inbox.complete("disconnect", EventDisconnected)
}

// disconnect reports whether DISCONNECTED follows or may already be pending.
func (l *link) disconnect(now clock.Instant) (follows bool, err error) {
	if l.conn == nil && l.state != stateListen {
		return false, l.state.refuses()
	}
	if l.conn == nil || l.at.typ == ib.UD {
		return false, nil
	}
	l.fail(now)
	l.leaving = true
	switch l.conn.State() {
	case cm.Established:
		return true, l.conn.SendDREQ(now, nil)
	case cm.DReqRcvd:
		return l.inbox.pending() > 0, l.conn.SendDREP(now, nil)
	default:
		return l.inbox.pending() > 0, nil
	}
}
