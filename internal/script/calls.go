package script

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The calls of a connection's consumer. If the connection has a queue pair,
// they move it as rdma_cm does.

// caller takes the name of a connection and gives it one of the adapter, if it
// has none.
func (cs *connections) caller(a *args) (*connection, error) {
	c, err := named[*connection](&cs.registry, a, "a connection")
	switch {
	case err != nil:
		return nil, err
	case c.conn == nil, c.over && c.vacant():
		c.conn, c.over, c.state, c.lap = cs.HCA.CM().NewConn(cs.heard), false, cm.Idle, cm.LAPIdle
	case c.over:
		return nil, fmt.Errorf("%s is destroyed: it takes no calls", c.name)
	}
	return c, nil
}

// pathTo takes a path to the peer.
func (cs *connections) pathTo(a *args) cm.Path {
	mtu, err := parseMTU(cs.world, a.str("mtu", "1024"))
	if err != nil {
		a.fail(fmt.Errorf("mtu: %w", err))
	}
	return cm.Path{
		Local: a.addr("from", cs.local), Remote: a.addr("to", cs.peer), MTU: mtu,
		FlowLabel: uint32(a.small("flow_label", 0, 32)), TClass: uint8(a.small("traffic_class", 0, 8)),
		HopLimit: uint8(a.small("hop_limit", 0, 8)), SL: uint8(a.small("sl", 0, 8)),
		PKey: ib.PKey(a.small("pkey", 0, 16)), Lifetime: uint8(a.small("lifetime", 0, 8)),
	}
}

// connect asks the peer for a connection: connect CONN SERVICE.
func (cs *connections) connect(c *connection, a *args) error {
	var err error
	p := cm.REQParams{
		Transport: c.transport(), Path: cs.pathTo(a), QPN: ib.QPN(a.num("qp", uint64(c.qpn()), number)),
		ResponderResources: uint8(a.small("resources", 4, 8)), InitiatorDepth: uint8(a.small("depth", 4, 8)),
		RetryCount: uint8(a.small("retry", 7, 8)), RNRRetryCount: uint8(a.small("rnr", 7, 8)),
		FlowControl: a.boolean("flow_control", false), SRQ: a.boolean("srq", false),
		ResponseTimeout: uint8(a.small("timeout", 0, 8)), MaxRetries: uint8(a.small("cm_retries", 0, 8)),
		PrivateData: a.data("private"),
	}
	p.Service, err = parseService(a.word("a service"))
	cs.prepareQP(cs.now, c)
	if err = cmp.Or(err, cs.askRD(a, c, &p), a.err); err != nil {
		return err
	}
	c.service = p.Service
	return cs.outcome(c.conn.SendREQ(cs.now, &p))
}

// transport is the service of the connection's queue pair, RC without one.
func (c *connection) transport() mad.TransportService {
	switch {
	case c.rd:
		return mad.TransportRD
	case c.qp != nil && c.qp.Type() == ib.UC:
		return mad.TransportUC
	case c.xrc():
		return mad.TransportExtended
	}
	return mad.TransportRC
}

// xrc reports whether the connection's queue pair is an end of XRC.
func (c *connection) xrc() bool {
	return c.qp != nil && (c.qp.Type() == ib.XRCIni || c.qp.Type() == ib.XRCTgt)
}

// ownQPN is the queue pair number that a connection without a queue pair names
// in its messages.
const ownQPN = 0x111

func (c *connection) qpn() ib.QPN {
	if c.qp != nil {
		return c.qp.Num()
	}
	return ownQPN
}

// accept answers the peer's REQ, by default with all the RDMA read resources
// that it asks for, up to the adapter's limit: accept CONN.
func (cs *connections) accept(c *connection, a *args) error {
	var req mad.REQ
	asked, most := c.got[mad.AttrREQ], cs.HCA.Limits().MaxRDAtomic
	req.Decode(&asked)
	p := cm.REPParams{
		QPN:                ib.QPN(a.num("qp", uint64(c.qpn()), number)),
		ResponderResources: uint8(a.small("resources", uint64(min(req.InitiatorDepth, most)), 8)),
		InitiatorDepth:     uint8(a.small("depth", uint64(min(req.ResponderResources, most)), 8)),
		RNRRetryCount:      uint8(a.small("rnr", 7, 8)),
		FlowControl:        a.boolean("flow_control", false), SRQ: a.boolean("srq", false), PrivateData: a.data("private"),
	}
	cs.answerRD(a, c, &p)
	if a.err != nil {
		return a.err
	}
	if (c.moves() || c.rd) && c.conn.Role() == cm.Passive {
		c.conn.SetResources(p.ResponderResources, p.InitiatorDepth)
	}
	if !cs.establishQP(c) {
		return nil
	}
	return cs.outcome(c.conn.SendREP(cs.now, &p))
}

// prepareQP moves the connection's queue pair to INIT, if it is still in RESET.
func (cs *connections) prepareQP(now clock.Instant, c *connection) {
	if !c.moves() || c.qp.State() != ib.RESET {
		return
	}
	if err := cs.HCA.Prepare(now, c.qp.QP); err != nil {
		cs.refused(err)
	}
	cs.settle()
}

// establishQP moves the connection's queue pair to RTS, and reports false if
// that was refused.
func (cs *connections) establishQP(c *connection) bool {
	switch {
	case c.rd && !c.byHand && (c.qp != nil || c.eec != nil):
		return cs.establishRD(c) == nil
	case !c.moves():
		return true
	}
	err := cs.HCA.Establish(cs.now, c.conn, c.qp.QP)
	cs.settle()
	cs.learnAttr(c.qp)
	if err != nil {
		cs.refused(err)
	}
	return err == nil
}

// learnAttr reads back the attributes that a connection gave a queue pair, so
// that the peer's packets fit them.
func (cs *connections) learnAttr(q *pair) {
	q.attr = q.query()
	q.peerPSN, q.isSent = q.attr.RQPSN, false
}

// disconnect moves the connection's queue pair to ERR.
func (cs *connections) disconnect(now clock.Instant, c *connection) {
	if !c.moves() {
		return
	}
	if err := cs.HCA.Disconnect(now, c.qp.QP); err != nil {
		cs.refused(err)
	}
	cs.settle()
}

// move moves the connection's queue pair, or EE context, by hand with the
// connection's attributes: move CONN STATE.
func (cs *connections) move(c *connection, a *args) error {
	to, err := parseState(a.word("a state"))
	switch {
	case a.err != nil || err != nil:
		return cmp.Or(a.err, err)
	case c.qp == nil && c.eec == nil:
		return fmt.Errorf("%s has no queue pair", c.name)
	}
	q := c.qp
	if c.eec != nil {
		q = c.eec
	}
	at, mask, err := c.conn.QPAttr(to)
	if err != nil {
		return cs.outcome(err)
	}
	kept := q.attr
	q.attr = at
	if !cs.modifyOnce(q, mask) {
		q.attr = kept
		return nil
	}
	q.attr = q.query()
	return nil
}

// rtu finishes the peer's side: rtu CONN.
func (cs *connections) rtu(c *connection, a *args) error {
	return cs.sendPrivate(a, func(private []byte) error {
		if !cs.establishQP(c) {
			return nil
		}
		return c.conn.SendRTU(cs.now, private)
	})
}

// dreq ends the connection: dreq CONN.
func (cs *connections) dreq(c *connection, a *args) error {
	return cs.sendPrivate(a, func(private []byte) error {
		cs.disconnect(cs.now, c)
		return c.conn.SendDREQ(cs.now, private)
	})
}

// drep agrees to the end: drep CONN.
func (cs *connections) drep(c *connection, a *args) error {
	return cs.sendPrivate(a, func(private []byte) error {
		cs.disconnect(cs.now, c)
		return c.conn.SendDREP(cs.now, private)
	})
}

// establishConn tells the connection that data has come: establish CONN.
func (cs *connections) establishConn(c *connection, a *args) error {
	return cs.outcome(c.conn.Establish(cs.now))
}

// sendPrivate makes a call whose only parameter is private data.
func (cs *connections) sendPrivate(a *args, call func([]byte) error) error {
	private := a.data("private")
	if a.err != nil {
		return a.err
	}
	return cs.outcome(call(private))
}

// reject refuses what the peer sent last: reject CONN [REASON].
func (cs *connections) reject(c *connection, a *args) error {
	var err error
	p := cm.REJParams{Reason: mad.RejConsumer, Info: a.data("info"), PrivateData: a.data("private")}
	if len(a.words) > 0 {
		p.Reason, err = parseEnum(a.word("a reason"), mad.RejVendorOptionUnsupported)
	}
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	return cs.outcome(c.conn.SendREJ(cs.now, &p))
}

// mra asks the peer to wait: mra CONN [CODE].
func (cs *connections) mra(c *connection, a *args) error {
	return cs.askToWait(a, c.conn.SendMRA)
}

// prepareMRA has an MRA sent when the peer repeats its message: prepare_mra
// CONN [CODE].
func (cs *connections) prepareMRA(c *connection, a *args) error {
	return cs.askToWait(a, c.conn.PrepareMRA)
}

func (cs *connections) askToWait(a *args, call func(clock.Instant, uint8, []byte) error) error {
	var err error
	code := uint64(cm.DefaultMRATimeout)
	if len(a.words) > 0 {
		code, err = parseWord(a, "a code of time")
	}
	if err == nil && code > 255 {
		err = fmt.Errorf("%d is no code of time", code)
	}
	private := a.data("private")
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	return cs.outcome(call(cs.now, uint8(code), private))
}

// destroyConn destroys the connection, as its consumer does.
func (cs *connections) destroyConn(c *connection) error {
	if c.conn == nil || c.over {
		return fmt.Errorf("%s has no consumer", c.name)
	}
	c.over = true
	c.conn.Destroy(cs.now)
	return nil
}
