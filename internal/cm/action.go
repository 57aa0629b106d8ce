package cm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// perform executes the action of a machine cell.
func (x *stimulus) perform(c *Conn, a Action) error {
	switch a {
	case none:
		return nil
	case sendREQ:
		return x.sendREQ(c)
	case sendREP:
		return x.sendREP(c)
	case sendRTU:
		return x.sendRTU(c)
	case resendREP:
		x.resendREP(c)
	case resendRTU:
		x.resend(c, mad.AttrRTU)
	case resendREJ:
		x.resend(c, mad.AttrREJ)
	case answerMRA:
		x.resendMRA(c)
	case sendMRA:
		return x.sendMRA(c)
	case prepareMRA:
		return x.prepareMRA(c)
	case sendREJ, rejectTimeout, rejectConsumer, rejectStale:
		return x.reject(c, a)
	case sendDREQ:
		return x.sendDREQ(c)
	case sendDREP, resendDREP:
		return x.sendDREP(c)
	case learnREP:
		return x.learnREP(c)
	case extendTimer:
		x.extendTimer(c)
	case retransmit:
		x.retransmit(c)
	case stop:
		c.stopRetry()
	case lapStop:
		c.lap = LAPIdle
		c.stopRetry()
	case sendSIDRREQ:
		return x.sendSIDRREQ(c)
	case sendSIDRREP:
		return x.sendSIDRREP(c, x.sidrRep)
	case rejectSIDR:
		return x.sendSIDRREP(c, &SIDRREPParams{Status: mad.SIDRRejected})
	case accept, acceptSIDR, rejectService, rejectUnknownID, answerDREP, unknownSIDR, lap:
		// The manager executes the actions of Listen and Unknown, stepLAP those
		// of alternate paths.
		panic(fmt.Sprintf("cm: action %d in state %v", a, c.state))
	default:
		panic(fmt.Sprintf("cm: no action %d", a))
	}
	return nil
}

// private copies private data into its field; EINVAL if there is no room for it.
func private(dst, src []byte, what string) error {
	if len(src) > len(dst) {
		return fmt.Errorf("%d bytes of private data: %s has room for %d: %w", len(src), what, len(dst), ib.EINVAL)
	}
	clear(dst[copy(dst, src):])
	return nil
}

// reasons copies additional information and private data into their fields and
// returns the length of the information; EINVAL if there is no room for one.
func reasons(info *[mad.InfoSize]byte, data, fromInfo, fromData []byte, what string) (uint8, error) {
	if len(fromInfo) > len(info) {
		return 0, fmt.Errorf("%d bytes of additional information: %s has room for %d: %w", len(fromInfo), what, len(info), ib.EINVAL)
	}
	return uint8(copy(info[:], fromInfo)), private(data, fromData, what)
}

// newMAD returns a MAD with the header of a message. The caller puts the message into it, by a
// call that the compiler knows: through an interface each message would be allocated.
func newMAD(attr mad.AttrID, tid uint64) *mad.MAD {
	m := new(mad.MAD)
	m.PutHeader(mad.CMHeader(attr, tid))
	return m
}

// transmit sends a MAD to the peer, unless the peer's allowance is spent. A full QP1
// queue counts as a lost packet.
func (x *stimulus) transmit(c *Conn, m *mad.MAD) {
	if maySend(c) {
		dispatch(x.now, c, m, c.m.transmit)
	}
}

// reply is transmit for a MAD whose loss makes the peer repeat its message.
func (x *stimulus) reply(c *Conn, m *mad.MAD) {
	if maySend(c) {
		dispatch(x.now, c, m, c.m.reply)
	}
}

// maySend spends one message of the peer's allowance, and counts the message as withheld if
// none is left.
func maySend(c *Conn) bool {
	ok := c.allowance.spend()
	if !ok {
		c.m.counters.Withheld++
	}
	return ok
}

// request sends a MAD and repeats it until it is answered.
func (x *stimulus) request(c *Conn, m *mad.MAD) {
	c.sent = m
	c.retry.left = c.retry.max
	c.await(x.now, c.retry.interval, c.retry.left)
	x.transmit(c, m)
}

// stopRetry stops retransmission.
func (c *Conn) stopRetry() {
	c.stopTimer()
	c.sent = nil
}

// retransmit repeats the unanswered message. It skips a repetition that the peer's allowance
// does not cover; the total time does not change.
func (x *stimulus) retransmit(c *Conn) {
	c.retry.left--
	c.await(x.now, clock.SpeedUp(c.retry.interval, c.m.cfg.RetrySpeedup), c.retry.left)
	if maySend(c) {
		c.m.retried(c.sent)
		dispatch(x.now, c, c.sent, c.m.transmit)
	}
}

// resendREP answers a repeated REQ with the REP: the first may be lost. The timer
// stays.
func (x *stimulus) resendREP(c *Conn) {
	c.m.retried(c.sent)
	x.reply(c, c.sent)
}

// extendTimer extends the timer to the time that the peer's MRA requests; the
// remaining repetitions do not change (C7).
func (x *stimulus) extendTimer(c *Conn) {
	wait := peerWait(x.ev.MRA.ServiceTimeout) + peerWait(c.ep.ackTimeout)
	c.await(x.now, wait, c.retry.left)
}

func (x *stimulus) sendREQ(c *Conn) error {
	p, path := x.req, x.req.Path
	path.fill()
	path.PKey = cmp.Or(path.PKey, c.m.cfg.PKeys[0])
	life := path.Lifetime
	ack := mad.AckTimeout(c.m.cfg.AckDelay, life)
	wait := cmp.Or(p.ResponseTimeout, DefaultResponseTimeout)
	msg := mad.REQ{
		ServiceID: p.Service, LocalCAGUID: c.m.cfg.GUID, LocalQPN: p.QPN, LocalQKey: p.QKey,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		RemoteResponseTimeout: wait, LocalResponseTimeout: wait,
		Transport: p.Transport, EndToEndFlowControl: p.FlowControl,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, PKey: path.PKey, PathMTU: path.MTU,
		MaxCMRetries: cmp.Or(p.MaxRetries, DefaultMaxRetries), SRQ: p.SRQ,
		Primary: path.wire(ack),
	}
	if p.Transport == mad.TransportExtended {
		p.asXRC(&msg)
	}
	if err := private(msg.PrivateData[:], p.PrivateData, "REQ"); err != nil {
		return err
	}
	if p.RetryCount > 7 || p.RNRRetryCount > 7 || msg.MaxCMRetries > 15 || wait > mad.MaxTimeout {
		return fmt.Errorf("retry count %d, RNR retry count %d (0 to 7), CM retries %d (1 to 15), response timeout %d (1 to 31): %w",
			p.RetryCount, p.RNRRetryCount, p.MaxRetries, wait, ib.EINVAL)
	}
	if !path.MTU.Valid() || p.Transport > mad.TransportExtended || !connectable(p.QPN) {
		return fmt.Errorf("path MTU code %d (1 to 5), transport %v (RC, UC, RD or XRC), QPN %v: %w", path.MTU, p.Transport, p.QPN, ib.EINVAL)
	}
	if err := c.m.cfg.check(&path); err != nil {
		return err
	}
	if err := p.checkChannel(c.m, &path); err != nil {
		return err
	}
	if err := c.begin(x.now); err != nil {
		return err
	}
	c.role, c.service, c.path = Active, p.Service, path
	learnPort(c, p.PrivateData)
	c.ep = endpoint{
		transport: p.Transport, localQPN: p.QPN, localPSN: c.m.psn(),
		responderResources: p.ResponderResources, initiatorDepth: p.InitiatorDepth,
		retryCount: p.RetryCount, rnrRetryCount: p.RNRRetryCount, ackTimeout: min(life+1, mad.MaxTimeout),
	}
	c.to = path.address()
	c.retry = retry{max: msg.MaxCMRetries, response: wait, interval: 2*mad.Timeout(life) + mad.Timeout(wait)}
	if err := x.enterOwn(c); err != nil {
		c.m.free(x.now, c)
		return err
	}
	if h := c.channel; h != nil {
		msg.LocalEECN, msg.RemoteEECN, msg.RDCExists = uint32(h.local), uint32(h.far.eecn), c.joins
	}
	msg.LocalCommID, msg.StartingPSN, c.ep.peerRNRRetries = c.localID, c.ep.localPSN, msg.RNRRetryCount
	d := newMAD(mad.AttrREQ, c.tid)
	msg.Put(d)
	x.request(c, d)
	return nil
}

func (x *stimulus) sendREP(c *Conn) error {
	p := x.rep
	msg := mad.REP{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, LocalQPN: p.QPN, LocalQKey: p.QKey, StartingPSN: c.ep.localPSN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TargetAckDelay: c.m.cfg.AckDelay, EndToEndFlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount,
		SRQ: p.SRQ, LocalCAGUID: c.m.cfg.GUID,
	}
	if c.ep.xrc() {
		p.asXRC(&msg)
	}
	if !c.asked.LocalGID.IsZero() {
		msg.FailoverAccepted = mad.FailoverUnsupported
	}
	if err := private(msg.PrivateData[:], p.PrivateData, "REP"); err != nil {
		return err
	}
	if p.RNRRetryCount > 7 || !connectable(p.QPN) {
		return fmt.Errorf("RNR retry count %d (0 to 7), QPN %v: %w", p.RNRRetryCount, p.QPN, ib.EINVAL)
	}
	if err := p.agree(c); err != nil {
		return err
	}
	if h := c.channel; h != nil {
		msg.LocalEECN = uint32(h.local)
		h.step(x.now, ChannelReady)
	}
	c.ep.localQPN = p.QPN
	c.ep.responderResources, c.ep.initiatorDepth = p.ResponderResources, p.InitiatorDepth
	c.answer = nil
	d := newMAD(mad.AttrREP, c.tid)
	msg.Put(d)
	x.request(c, d)
	c.ep.peerRNRRetries = p.RNRRetryCount
	tellRetries(x.now, c)
	return nil
}

// tellRetries reports how often the peer repeats a request after RNR NAKs, as this side has asked it
// to.
func tellRetries(now clock.Instant, c *Conn) {
	if f := c.m.cfg.PeerRetries; f != nil && c.channel == nil {
		f(now, c.ep.localQPN, c.ep.remoteQPN, c.ep.peerRNRRetries)
	}
}

func (x *stimulus) sendRTU(c *Conn) error {
	msg := mad.RTU{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	if err := private(msg.PrivateData[:], x.private, "RTU"); err != nil {
		return err
	}
	if h := c.channel; h != nil {
		h.step(x.now, ChannelReady)
	}
	c.answer = newMAD(mad.AttrRTU, c.tid)
	msg.Put(c.answer)
	x.transmit(c, c.answer)
	return nil
}

// learnREP stores the contents of the REP. It refuses a peer whose ID or QP
// belongs to another connection (C7).
func (x *stimulus) learnREP(c *Conn) error {
	p := x.ev.REP
	guid, remote := p.LocalCAGUID, c.to.Remote
	qpn := c.ep.numberIn(p)
	if p.LocalCommID == 0 || !connectable(qpn) {
		c.m.counters.Invalid++
		return errVetoed
	}
	if c.m.peers[peerKey{p.LocalCommID, guid, remote}] != nil {
		c.m.counters.Duplicates[MsgREP]++
		return errVetoed
	}
	if old := c.m.qps[qpKey{qpn, guid, remote}]; old != nil {
		if x.doubt(old) {
			return errVetoed
		}
		x.rejectStaleREP(c)
		old.expire(x.now)
		return errVetoed
	}
	if !x.learnChannel(c) {
		return errVetoed
	}
	c.remoteID, c.guid = p.LocalCommID, guid
	e := &c.ep
	e.remoteQPN, e.remotePSN = qpn, p.StartingPSN
	e.initiatorDepth = min(e.initiatorDepth, p.ResponderResources)
	e.responderResources = min(e.responderResources, p.InitiatorDepth)
	e.rnrRetryCount = p.RNRRetryCount
	e.ackTimeout = mad.AckTimeout(p.TargetAckDelay, e.ackTimeout-min(e.ackTimeout, 1))
	c.stopRetry()
	c.m.remember(c)
	if c.channel == nil { // an RD QP may have any number of connections
		c.m.qps[qpKeyOf(c)] = c
	}
	tellRetries(x.now, c)
	return nil
}

// rejectStaleREP rejects a REP whose QP or EE context belongs to another
// connection.
func (x *stimulus) rejectStaleREP(c *Conn) {
	c.m.answerREJ(x, mad.REJ{
		LocalCommID: c.localID, RemoteCommID: x.ev.REP.LocalCommID, Message: mad.WhichREP, Reason: mad.RejStaleConnection,
	})
}

// whichOf names the message that an MRA or REJ in this state is about.
func whichOf(c *Conn) mad.Which {
	switch c.state {
	case ReqRcvd, MRAReqSent:
		return mad.WhichREQ
	case RepRcvd, MRARepSent:
		return mad.WhichREP
	default:
		return mad.WhichOther
	}
}

func buildMRA(c *Conn, timeout uint8, data []byte) (*mad.MAD, error) {
	msg := mad.MRA{LocalCommID: c.localID, RemoteCommID: c.remoteID, Message: whichOf(c), ServiceTimeout: timeout}
	if err := private(msg.PrivateData[:], data, "MRA"); err != nil {
		return nil, err
	}
	tid := c.tid
	if msg.Message == mad.WhichOther {
		tid = c.lapTID
	}
	d := newMAD(mad.AttrMRA, tid)
	msg.Put(d)
	return d, nil
}

func (x *stimulus) sendMRA(c *Conn) error {
	m, err := buildMRA(c, x.mra, x.private)
	if err != nil {
		return err
	}
	c.answer = m
	x.transmit(c, m)
	return nil
}

func (x *stimulus) prepareMRA(c *Conn) error {
	if _, err := buildMRA(c, x.mra, x.private); err != nil {
		return err
	}
	c.mra = prepared{timeout: x.mra, private: slices.Clone(x.private)}
	return nil
}

// resend answers a repeated message with the stored answer. It reports false if
// that is of another kind.
func (x *stimulus) resend(c *Conn, kind mad.AttrID) bool {
	if c.answer == nil || c.answer.Header().AttrID != kind {
		return false
	}
	c.m.retried(c.answer)
	x.reply(c, c.answer)
	return true
}

// resendMRA is resend for MRA, which may not have been built yet.
func (x *stimulus) resendMRA(c *Conn) {
	if !x.resend(c, mad.AttrMRA) {
		c.answer, _ = buildMRA(c, c.mra.timeout, c.mra.private) // checked when it was prepared
		x.reply(c, c.answer)
	}
}

// reject sends the REJ of a reject action.
func (x *stimulus) reject(c *Conn, a Action) error {
	msg := mad.REJ{LocalCommID: c.localID, RemoteCommID: c.remoteID, Message: whichOf(c)}
	switch a {
	case sendREJ:
		msg.Reason = x.rej.Reason
		var err error
		if msg.InfoLength, err = reasons(&msg.Info, msg.PrivateData[:], x.rej.Info, x.rej.PrivateData, "REJ"); err != nil {
			return err
		}
	case rejectTimeout:
		msg.Reason = mad.RejTimeout
		binary.BigEndian.PutUint64(msg.Info[:], c.m.cfg.GUID)
		msg.InfoLength = 8
	case rejectStale:
		msg.Reason = mad.RejStaleConnection
	default:
		msg.Reason = mad.RejConsumer
	}
	if refuses(c, a) {
		traceChange(x.now, c, trace.Rejected, msg.Reason)
	}
	if c.state == ReqRcvd {
		msg.LocalCommID = 0 // no ID exists yet; 0, as on Linux
	}
	if a == rejectStale { // answer to a REQ in TIMEWAIT
		msg.Message = mad.WhichREQ
		d := newMAD(mad.AttrREJ, x.tid)
		msg.Put(d)
		x.reply(c, d)
		return nil
	}
	c.answer = newMAD(mad.AttrREJ, c.tid)
	msg.Put(c.answer)
	x.reply(c, c.answer)
	c.stopTimer()
	return nil
}

func (x *stimulus) sendDREQ(c *Conn) error {
	_, remote := numbersOf(c)
	msg := mad.DREQ{LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: remote}
	if err := private(msg.PrivateData[:], x.private, "DREQ"); err != nil {
		return err
	}
	c.lap = LAPIdle
	d := newMAD(mad.AttrDREQ, c.m.cfg.TID(c.localID))
	msg.Put(d)
	x.request(c, d)
	return nil
}

// sendDREP answers a DREQ with the stored answer, or a new one.
func (x *stimulus) sendDREP(c *Conn) error {
	if x.resend(c, mad.AttrDREP) {
		return nil
	}
	msg := mad.DREP{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	if err := private(msg.PrivateData[:], x.private, "DREP"); err != nil {
		return err
	}
	c.answer = newMAD(mad.AttrDREP, c.dreqTID)
	msg.Put(c.answer)
	x.transmit(c, c.answer)
	return nil
}

// expire ends a connection whose peer has forgotten it: its QP turned up in
// another one.
func (c *Conn) expire(now clock.Instant) {
	if c.state == Established {
		_ = c.step(CallDREQ, &stimulus{now: now}) // cannot fail in this state
	}
}

// address returns the destination of MADs on a path.
func (p *Path) address() gsi.Address {
	return gsi.Address{Local: p.Local, Remote: p.Remote, PKey: p.PKey, TClass: p.TClass, HopLimit: p.HopLimit}
}

// wire returns the path as REQ and LAP carry it, from the sender's side.
func (p *Path) wire(ack uint8) mad.Path {
	w := mad.Path{
		LocalGID: ib.GIDFromAddr(p.Local), RemoteGID: ib.GIDFromAddr(p.Remote),
		FlowLabel: p.FlowLabel, TrafficClass: p.TClass, HopLimit: p.HopLimit, SL: p.SL, LocalAckTimeout: ack,
	}
	if p.HopLimit > 1 {
		w.LocalLID, w.RemoteLID = 0xffff, 0xffff
	} else {
		w.SubnetLocal = true
	}
	return w
}

// fill replaces zero values by defaults, and normalises addresses to the form
// of received packets.
func (p *Path) fill() {
	p.Local, p.Remote = p.Local.Unmap().WithZone(""), p.Remote.Unmap().WithZone("")
	p.HopLimit = cmp.Or(p.HopLimit, DefaultHopLimit)
	p.Lifetime = cmp.Or(p.Lifetime, DefaultLifetime)
}
