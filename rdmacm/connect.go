package rdmacm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The room for the program in private data. In REQ and SIDR_REQ it comes after
// the IP header.
const (
	reqData     = 92 - mad.IPHeaderSize
	sidrREQData = 216 - mad.IPHeaderSize
	rejData     = 148
)

// mostRetries is the largest retry count; for RNR retries it means without limit.
const mostRetries = 7

// errNoQP is returned when the QP of an ID is gone, or was never there.
var errNoQP = fmt.Errorf("the ID has no queue pair: %w", ib.EINVAL)

// errNotAsked is returned by calls that answer a request if there is none.
var errNotAsked = fmt.Errorf("no request waits for the answer: %w", ib.EINVAL)

// Connect requests a connection from the peer or, for an ID of UDP, the queue pair of
// its service. ESTABLISHED reports that both sides may send; for an ID without a QP
// of CreateQP, CONNECT_RESPONSE reports that the program must move its QP and call
// Establish. REJECTED, UNREACHABLE or CONNECT_ERROR report that there is no
// connection. A nil p requests 7 retries and all resources. After an error the ID may
// try again. Errors: EINVAL in another state, for private data over 56 bytes (UDP:
// 180), without a QP if p names none, and, for TCP, for more resources than the
// adapter has; ENOMEM if the adapter has no room for another connection.
func (id *ID) Connect(p *ConnParam) error {
	return id.start("connect", func() error {
		if err := id.room(); err != nil {
			return err
		}
		if id.typ != ib.RD {
			return id.do(func(now clock.Instant) error { return id.connect(now, p) })
		}
		return id.connectRD(p)
	}, EventEstablished, EventConnectResponse)
}

// connect runs on the adapter's thread.
func (id *ID) connect(now clock.Instant, p *ConnParam) error {
	switch {
	case id.state != stateRouteResolved:
		return id.state.refuses()
	case id.path.Remote.IsMulticast():
		return fmt.Errorf("%v is a group: %w", id.path.Remote, ib.EINVAL)
	}
	var err error
	c := id.dev.hca.CM().NewConn(handle)
	id.consume(c)
	if id.typ == ib.UD {
		err = id.askService(now, c, p)
	} else {
		err = id.askConnection(now, c, p)
	}
	if err != nil {
		return err
	}
	id.conn, id.state = c, stateConnect
	return nil
}

// askConnection sends REQ.
func (id *ID) askConnection(now clock.Instant, c *cm.Conn, p *ConnParam) error {
	o, err := id.offer(p)
	if err != nil {
		return err
	}
	data, err := id.private(o.PrivateData, reqData)
	if err != nil {
		return err
	}
	req := cm.REQParams{
		Service: mad.IPServiceID(id.ps, id.dst.Port()), Transport: mad.TransportRC, QPN: o.QPN, Path: id.path,
		ResponderResources: min(o.ResponderResources, id.dev.maxRD), InitiatorDepth: min(o.InitiatorDepth, id.dev.maxRD),
		RetryCount: min(o.RetryCount, mostRetries), RNRRetryCount: min(o.RNRRetryCount, mostRetries),
		FlowControl: o.FlowControl, SRQ: o.SRQ,
		ResponseTimeout: id.settings.cmTimeout, MaxRetries: id.settings.cmRetries, PrivateData: data,
	}
	switch id.typ {
	case ib.UC:
		req.Transport = mad.TransportUC
	case ib.RD:
		if err := id.askRD(&req, &o); err != nil {
			return err
		}
	}
	if err := c.SendREQ(now, &req); err != nil {
		return err
	}
	id.settings.chooseTimeout(c)
	if id.channel != nil {
		id.channel.conn = c.Channel()
	}
	return nil
}

// askService sends SIDR_REQ.
func (id *ID) askService(now clock.Instant, c *cm.Conn, p *ConnParam) error {
	p = cmp.Or(p, &ConnParam{})
	data, err := id.private(p.PrivateData, sidrREQData)
	if err != nil {
		return err
	}
	return c.SendSIDRREQ(now, &cm.SIDRREQParams{
		Service: mad.IPServiceID(id.ps, id.dst.Port()), Path: id.path,
		ResponseTimeout: id.settings.cmTimeout, MaxRetries: id.settings.cmRetries, PrivateData: data,
	})
}

// offer returns the ID's parameters of a connection: p, or the defaults, with the QP of
// CreateQP if there is one.
func (id *ID) offer(p *ConnParam) (ConnParam, error) {
	o := ConnParam{
		ResponderResources: AllResources, InitiatorDepth: AllResources, RetryCount: mostRetries, RNRRetryCount: mostRetries,
	}
	switch {
	case p != nil:
		o = *p
	case id.qp == nil:
		return o, errNoQP
	}
	if id.qp != nil {
		q := id.qp.engine()
		if q == nil {
			return o, errNoQP
		}
		o.QPN, o.SRQ = q.Num(), id.qp.srq
		if id.typ == ib.RD {
			o.QKey = q.Query().QKey
		}
	}
	for _, n := range [...]uint8{o.ResponderResources, o.InitiatorDepth} {
		if id.ps == TCP && n != AllResources && n > id.dev.maxRD {
			return o, fmt.Errorf("%d READs and atomics; the adapter has %d: %w", n, id.dev.maxRD, ib.EINVAL)
		}
	}
	if o.QPN == 0 {
		return o, errNoQP
	}
	return o, nil
}

// private returns the private data of a REQ or SIDR_REQ.
func (id *ID) private(data []byte, room int) ([]byte, error) {
	if len(data) > room {
		return nil, fmt.Errorf("%d bytes of private data; there is room for %d: %w", len(data), room, ib.EINVAL)
	}
	var h [mad.IPHeaderSize]byte
	mad.IPHeader{SrcPort: id.src.Port(), SrcAddr: id.src.Addr(), DstAddr: id.dst.Addr()}.Put(&h)
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
	connects := false
	err := id.run("accept", func() error {
		connects = id.typ != ib.UD
		if id.typ == ib.RD {
			return id.acceptRD(p)
		}
		return id.do(func(now clock.Instant) error { return id.accept(now, p) })
	})
	if err != nil || !connects {
		return err
	}
	return id.complete("accept", EventEstablished)
}

// accept runs on the adapter's thread.
func (id *ID) accept(now clock.Instant, p *ConnParam) error {
	if !id.asked() {
		return errNotAsked
	}
	if id.typ == ib.UD {
		return id.acceptService(now, p)
	}
	o, err := id.offer(p)
	if err != nil {
		return err
	}
	if err := id.acceptConnection(now, &o, p != nil); err != nil {
		id.refuse(now)
		return err
	}
	return nil
}

// asked reports whether a peer's request is pending.
func (id *ID) asked() bool {
	if id.state != stateConnect || id.conn == nil || id.conn.Role() != cm.Passive {
		return false
	}
	switch id.conn.State() {
	case cm.ReqRcvd, cm.MRAReqSent, cm.SIDRReqRcvd:
		return true
	default:
		return false
	}
}

// acceptConnection moves the QP to RTS and sends REP.
func (id *ID) acceptConnection(now clock.Instant, o *ConnParam, chosen bool) error {
	c := id.conn
	served, depth := c.Resources()
	served, depth = min(served, id.dev.maxRD), min(depth, id.dev.maxRD)
	if chosen && o.ResponderResources != AllResources {
		served = min(o.ResponderResources, id.dev.maxRD)
	}
	if chosen && o.InitiatorDepth != AllResources {
		depth = min(o.InitiatorDepth, id.dev.maxRD)
	}
	c.SetResources(served, depth)
	id.settings.chooseTimeout(c)
	if id.qp != nil || id.typ == ib.RD {
		if err := id.ready(now); err != nil {
			return err
		}
	}
	rep := cm.REPParams{
		QPN: o.QPN, ResponderResources: served, InitiatorDepth: depth, RNRRetryCount: min(o.RNRRetryCount, mostRetries),
		FlowControl: o.FlowControl, SRQ: o.SRQ, PrivateData: o.PrivateData,
	}
	if k := id.channel; k != nil {
		rep.QKey, rep.EECN = o.QKey, k.eec.EECN()
		k.conn = c.Channel()
	}
	err := c.SendREP(now, &rep)
	id.accepted = err == nil
	return err
}

// acceptService sends SIDR_REP.
func (id *ID) acceptService(now clock.Instant, p *ConnParam) error {
	p = cmp.Or(p, &ConnParam{})
	rep := cm.SIDRREPParams{Status: mad.SIDRValid, QPN: p.QPN, QKey: cmp.Or(p.QKey, DefaultQKey), PrivateData: p.PrivateData}
	if q := id.qp.engine(); q != nil {
		rep.QPN = q.Num()
	}
	if rep.QPN == 0 {
		return errNoQP
	}
	err := id.conn.SendSIDRREP(now, &rep)
	if err != nil {
		// Allowed in this state, and without data that could be too long.
		_ = id.conn.SendSIDRREP(now, &cm.SIDRREPParams{Status: mad.SIDRRejected})
	}
	return err
}

// Reject rejects the request of the ID, or the peer's answer after CONNECT_RESPONSE.
// EINVAL if there is neither, or for private data over 148 bytes (UDP: 136); then
// nothing was sent.
func (id *ID) Reject(private []byte) error { return id.RejectWith(mad.RejConsumer, private) }

// RejectWith is Reject with a reason. An ID of UDP has only one reason.
func (id *ID) RejectWith(reason mad.RejReason, private []byte) error {
	return id.runOn("reject", func(now clock.Instant) error { return id.reject(now, reason, private) })
}

func (id *ID) reject(now clock.Instant, reason mad.RejReason, private []byte) error {
	switch {
	case id.asked() && id.typ == ib.UD:
		return id.conn.SendSIDRREP(now, &cm.SIDRREPParams{Status: mad.SIDRRejected, PrivateData: private})
	case id.asked(), id.answered():
		return id.conn.SendREJ(now, &cm.REJParams{Reason: reason, PrivateData: private})
	default:
		return fmt.Errorf("there is nothing to reject: %w", ib.EINVAL)
	}
}

// answered reports whether a REP is pending, for Establish or Reject.
func (id *ID) answered() bool {
	if id.state != stateConnect || id.conn == nil {
		return false
	}
	s := id.conn.State()
	return s == cm.RepRcvd || s == cm.MRARepSent
}

// Establish completes a connection after CONNECT_RESPONSE, once the program has moved
// its QP to RTR or RTS: it sends RTU. No event follows. EINVAL for an ID with a QP of
// CreateQP, and if there is nothing to complete.
func (id *ID) Establish() error {
	return id.runOn("establish", func(now clock.Instant) error {
		if id.qp != nil || !id.answered() {
			return fmt.Errorf("no response of a peer waits for it: %w", ib.EINVAL)
		}
		return id.conn.SendRTU(now, nil)
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
		case e == ib.EventCommEst && id.conn != nil:
			return id.conn.Establish(now)
		case e == ib.EventPathMig && id.state == stateConnect && id.conn != nil && id.conn.Migrated(now):
			return nil
		}
		return fmt.Errorf("%v in state %q: %w", e, id.state, ib.EINVAL)
	})
}

// Disconnect moves the QP of CreateQP to ERR and ends the connection: it sends DREQ
// or, if the peer was first, DREP. DISCONNECTED follows. A connection that is not yet
// established is disconnected as soon as it is. EINVAL for an ID that is neither
// connected nor listening. If there is nothing to end, it does nothing.
func (id *ID) Disconnect() error {
	follows := false
	err := id.runOn("disconnect", func(now clock.Instant) (err error) {
		follows, err = id.disconnect(now)
		return err
	})
	if err != nil || !follows {
		return err
	}
	return id.complete("disconnect", EventDisconnected)
}

// disconnect reports whether DISCONNECTED follows or may already be pending.
func (id *ID) disconnect(now clock.Instant) (follows bool, err error) {
	if id.conn == nil && id.state != stateListen {
		return false, id.state.refuses()
	}
	if id.conn == nil || id.typ == ib.UD {
		return false, nil
	}
	id.fail(now)
	id.leaving = true
	switch id.conn.State() {
	case cm.Established:
		return true, id.conn.SendDREQ(now, nil)
	case cm.DReqRcvd:
		return id.hasNews(), id.conn.SendDREP(now, nil)
	default:
		return id.hasNews(), nil
	}
}

// hasNews reports whether events are pending.
func (id *ID) hasNews() bool {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.waiting > 0
}
