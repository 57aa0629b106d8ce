package cm

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// QPAttr returns the attributes, and their mask, that move the connection's QP
// to INIT, RTR or RTS as both sides agreed (C8), as ib_cm_init_qp_attr of Linux
// does. For service RD they move its EE context (C14). EINVAL in states in which
// they are not known yet or no longer useful, and for a connection that joins a
// channel, whose EE context is already connected.
func (c *Conn) QPAttr(to ib.QPState) (ib.QPAttr, ib.AttrMask, error) {
	alive := c.state >= ReqSent && c.state <= Established
	if c.joins {
		return ib.QPAttr{}, 0, fmt.Errorf("attributes for state %v: the EE context of a channel that exists needs none: %w", to, ib.EINVAL)
	}
	switch known := alive && c.remoteID != 0; {
	case to == ib.INIT && alive:
		return initAttr(c)
	case to == ib.RTR && known:
		return rtrAttr(c)
	case to == ib.RTS && known:
		return rtsAttr(c)
	}
	return ib.QPAttr{}, 0, fmt.Errorf("attributes for QP state %v: not known in connection state %v: %w", to, c.state, ib.EINVAL)
}

func initAttr(c *Conn) (ib.QPAttr, ib.AttrMask, error) {
	a := ib.QPAttr{State: ib.INIT, Port: 1, PKeyIndex: pkeyIndexOf(c)}
	if c.channel != nil {
		return a, ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort, nil
	}
	a.AccessFlags = ib.AccessRemoteWrite
	if c.ep.responderResources > 0 {
		a.AccessFlags |= ib.AccessRemoteRead | ib.AccessRemoteAtomic | ib.AccessFlush
	}
	return a, ib.AttrState | ib.AttrAccessFlags | ib.AttrPKeyIndex | ib.AttrPort, nil
}

func rtrAttr(c *Conn) (ib.QPAttr, ib.AttrMask, error) {
	_, remote := numbersOf(c)
	av, err := c.m.cfg.av(&c.path)
	if err != nil {
		return ib.QPAttr{}, 0, err
	}
	a := ib.QPAttr{
		State: ib.RTR, PathMTU: min(c.path.MTU, c.m.cfg.MTU), DestQPN: remote, RQPSN: c.ep.localPSN,
		AV: av,
	}
	mask := ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN
	switch c.ep.transport {
	case mad.TransportExtended:
		if c.role == Active { // an initiator answers nothing
			break
		}
		fallthrough
	case mad.TransportRC:
		a.MaxDestRDAtomic = c.ep.responderResources
		mask |= ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
	case mad.TransportRD: // the RD QPs have the RNR timer
		a.MaxDestRDAtomic = c.ep.responderResources
		mask |= ib.AttrMaxDestRDAtomic
	}
	return a, mask, nil
}

// av returns the address vector of a path.
func (c *Config) av(p *Path) (ib.AHAttr, error) {
	sgid, ok := c.sgid(p.Local)
	if !ok {
		return ib.AHAttr{}, fmt.Errorf("%v is not an address of the adapter: %w", p.Local, ib.EADDRNOTAVAIL)
	}
	return ib.AHAttr{
		DGID: ib.GIDFromAddr(p.Remote), SGIDIndex: sgid, Port: 1, FlowLabel: p.FlowLabel,
		HopLimit: p.HopLimit, TrafficClass: p.TClass, SL: p.SL,
	}, nil
}

func rtsAttr(c *Conn) (ib.QPAttr, ib.AttrMask, error) {
	a := ib.QPAttr{State: ib.RTS, SQPSN: c.ep.remotePSN}
	mask := ib.AttrState | ib.AttrSQPSN
	switch {
	case c.ep.xrc() && c.role == Passive: // a target sends no request
		a.Timeout = c.ep.timeout(c.ep.ackTimeout)
		mask |= ib.AttrTimeout
	case c.ep.transport != mad.TransportUC:
		a.Timeout, a.RetryCnt, a.RNRRetry = c.ep.timeout(c.ep.ackTimeout), c.ep.retryCount, c.ep.rnrRetryCount
		a.MaxRDAtomic = c.ep.initiatorDepth
		mask |= ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic
	}
	return a, mask, nil
}

// SetAckTimeout makes QPAttr return this local ACK timeout, a 5-bit code,
// instead of the path's; 0 means no timeout.
func (c *Conn) SetAckTimeout(code uint8) { c.ep.qpTimeout, c.ep.chosen = code&mad.MaxTimeout, true }

// timeout returns the local ACK timeout of the QP: the consumer's, if it set
// one, otherwise ofPath.
func (e *endpoint) timeout(ofPath uint8) uint8 {
	if e.chosen {
		return e.qpTimeout
	}
	return ofPath
}

// Resources returns how many READs and atomics the local QP accepts at a time
// and may have outstanding: first the values requested in the REQ, as this side
// sees them, later the agreed ones.
func (c *Conn) Resources() (responder, depth uint8) {
	return c.ep.responderResources, c.ep.initiatorDepth
}

// SetResources sets the values of Resources for QPAttr of a passive connection,
// whose QP must be ready before SendREP.
func (c *Conn) SetResources(responder, depth uint8) {
	c.ep.responderResources, c.ep.initiatorDepth = responder, depth
}

// pkeyIndexOf returns the index of the path's partition in the P_Key table, the
// first entry if it has none.
func pkeyIndexOf(c *Conn) uint16 {
	return uint16(max(slices.IndexFunc(c.m.cfg.PKeys, c.path.PKey.Matches), 0))
}
