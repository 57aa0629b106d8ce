package broker

import (
	"bytes"
	"syscall"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// visit is a request that waits for a listener, with its packet.
type visit struct {
	mad    mad.MAD
	from   gsi.Received
	packet fabric.Datagram
}

// keep stores a request for a service that no member listens to, and reports whether it
// has.
func (e *engine) keep(now clock.Instant, r *gsi.Received) bool {
	s, ok := wanted(r.MAD)
	if !ok {
		return false
	}
	v := &visit{mad: *r.MAD, from: *r, packet: e.current}
	v.from.MAD = &v.mad
	v.packet.Bytes = bytes.Clone(e.current.Bytes)
	return e.early.Keep(now, s, r.From.Remote, v)
}

// wanted returns the service that a message requests.
func wanted(m *mad.MAD) (s mad.ServiceID, ok bool) {
	switch m.Header().AttrID {
	case mad.AttrREQ:
		var q mad.REQ
		q.Decode(m)
		return q.ServiceID, true
	case mad.AttrSIDRREQ:
		var q mad.SIDRREQ
		q.Decode(m)
		return q.ServiceID, true
	}
	return 0, false
}

// errEnds is the answer of a broker that ends: the next one decides.
const errEnds = syscall.ECANCELED

// claim gives a service to a member, and forwards the requests that wait for it. errEnds if the engine is closed.
func (e *engine) claim(slot uint8, s mad.ServiceID) syscall.Errno {
	errno := errEnds
	_ = e.do(func(now clock.Instant) { // if it fails, nothing listens here any more
		if errno = e.router.claim(slot, s); errno == 0 {
			e.early.Listened(s)
			e.takeEarly(now)
		}
	})
	return errno
}

// release ends a member's claim of a service.
func (e *engine) release(slot uint8, s mad.ServiceID) {
	_ = e.do(func(clock.Instant) { e.router.release(slot, s) }) // an engine that is closed has no services
}

// settle notes that a member has answered all DREQs of its peers.
func (e *engine) settle(slot uint8) {
	_ = e.do(func(clock.Instant) { e.router.settle(slot) }) // an engine that is closed answers none
}

// takeEarly forwards the stored requests that have a listener now, and refuses those whose
// wait is over.
func (e *engine) takeEarly(now clock.Instant) {
	for v, ok := e.early.Due(now); ok; v, ok = e.early.Due(now) {
		e.current = v.packet
		if !e.forward(now, &v.from) {
			e.cm.Receive(now, &v.from)
		}
	}
}
