package rdmacm

import (
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// request handles a REQ or SIDR_REQ for an open service, in the control plane. It
// rejects a request without a listener by destroying its connection, as Linux does (IBA
// annex A11). If the backlog is full, it forgets the request, and the peer repeats it.
func (d *adapter) request(now clock.Instant, c *cm.Conn, e *cm.Event) {
	r, ok := parseRequest(e)
	if !ok || !slices.Contains(d.addrs, r.head.DstAddr) {
		c.Destroy(now)
		return
	}
	ps, port, _ := r.service.IP() // cannot fail: an ID has opened the service
	k := portKey{ps, port}
	id := newID(d.m, ps, r.typ)
	id.at.place = place{d, netip.AddrPortFrom(r.head.DstAddr, port), netip.AddrPortFrom(r.head.SrcAddr, r.head.SrcPort)}
	l := &id.link
	l.state, l.conn = stateConnect, c
	r.event.source = c.Path().Remote
	if !l.joined() {
		_ = c.SendREJ(now, &cm.REJParams{Reason: mad.RejRDCNotExist}) // allowed in this state
		return
	}
	r.event.Param.Channel = l.channel
	switch d.m.queue(id, k, r.event) {
	case queued:
		l.consume(c)
		c.SetHandler(handle)
		if r.typ != ib.UD {
			// A peer that repeats its request gets an MRA: the request has arrived.
			_ = c.PrepareMRA(now, cm.DefaultMRATimeout, nil) // allowed in this state
		}
	case full:
		c.Forget(now)
		l.left()
	case unwanted:
		c.Destroy(now)
		l.left()
	}
}

// verdict is the decision about a request.
type verdict uint8

const (
	queued verdict = iota
	full
	unwanted
)

// queue adds a request to the events of its listener.
func (m *Manager) queue(id *ID, k portKey, e *Event) verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ports.listener(k, id.at.src.Addr())
	switch {
	case l == nil || l.at.typ != id.at.typ || id.at.dev.gone: // no event would report that the adapter is gone
		return unwanted
	case !l.inbox.backlog.add(e.source, id.at.src.Addr()):
		return full
	case m.add(id) != nil:
		l.inbox.backlog.remove(e.source)
		return full
	}
	own := l.inbox.ch
	if l.inbox.sync {
		own = nil
	}
	_ = id.inbox.use(own) // a listener's channel is of this Manager and open
	e.ID, e.Listener, e.about, e.count = id, l, &l.inbox, &l.inbox.acks
	l.inbox.ch.put(e)
	return queued
}

// arrival is a parsed REQ or SIDR_REQ.
type arrival struct {
	service mad.ServiceID
	typ     ib.QPType
	head    mad.IPHeader
	event   *Event
}

// parseRequest parses a request. It returns false for a request without a valid IP
// header, or for a transport that IDs do not support.
func parseRequest(e *cm.Event) (arrival, bool) {
	r := arrival{event: &Event{Type: EventConnectRequest}}
	var data []byte
	switch e.Type {
	case cm.REQReceived:
		q := e.REQ
		r.service, data = q.ServiceID, q.PrivateData[:]
		switch q.Transport {
		case mad.TransportRC:
			r.typ = ib.RC
		case mad.TransportUC:
			r.typ = ib.UC
		case mad.TransportRD:
			r.typ = ib.RD
		case mad.TransportExtended: // the CM takes only XRC
			r.typ = ib.XRCTgt
		default:
			return r, false
		}
		r.event.Param = ConnParam{
			PrivateData:        slices.Clone(data[mad.IPHeaderSize:]),
			ResponderResources: q.InitiatorDepth, InitiatorDepth: q.ResponderResources,
			FlowControl: q.EndToEndFlowControl, RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount,
			SRQ: q.SRQ, QPN: q.LocalQPN, QKey: q.LocalQKey,
		}
	case cm.SIDRREQReceived:
		q := e.SIDRREQ
		r.service, r.typ, data = q.ServiceID, ib.UD, q.PrivateData[:]
		r.event.UD.PrivateData = slices.Clone(data[mad.IPHeaderSize:])
	default:
		return r, false
	}
	var err error
	r.head, err = mad.ParseIPHeader((*[mad.IPHeaderSize]byte)(data))
	r.head.SrcAddr, r.head.DstAddr = r.head.SrcAddr.Unmap(), r.head.DstAddr.Unmap()
	return r, err == nil
}
