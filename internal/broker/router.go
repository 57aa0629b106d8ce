package broker

import (
	"container/list"
	"io"
	"net/netip"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// maxKnown bounds the remembered connections of a member; beyond it, the oldest is
// forgotten.
const maxKnown = 4096

// router finds the member for a message of the connection manager.
type router struct {
	connTable io.WriterAt   // outlives the broker
	members   [256]*account // by slot
	services  map[mad.ServiceID]*account
	remote    map[remoteKey]*connection
	local     map[uint32]*connection
}

// account is the known state of a member.
type account struct {
	slot     uint8
	services map[mad.ServiceID]bool
	known    list.List // of *connection, the oldest first
	asked    list.List // the known connections with a DREQ of the peer, the latest last
	vacant   []uint16  // places in the connection table below used without a connection
	used     uint16    // number of places that ever had a connection
}

// remoteKey identifies a connection by the peer's communication ID and address.
type remoteKey struct {
	id   uint32
	addr netip.Addr
}

// connection is the state of a connection that the messages of its peer show.
type connection struct {
	of      *account
	at      *list.Element
	place   uint16 // in the connection table
	key     remoteKey
	localID uint32 // 0 until the peer names it
	qpn     ib.QPN // the peer's; its EE context for RD
	peer    gsi.Address
	ending  ending
}

func newRouter(connTable io.WriterAt) *router {
	return &router{
		connTable: connTable, services: make(map[mad.ServiceID]*account), remote: make(map[remoteKey]*connection), local: make(map[uint32]*connection),
	}
}

// join adds the member of a slot, unless it is already known.
func (r *router) join(slot uint8) {
	if r.members[slot] == nil {
		r.members[slot] = &account{slot: slot, services: make(map[mad.ServiceID]bool)}
	}
}

// restore adds the member of a slot with the connections that the previous broker recorded,
// in the order of their places.
func (r *router) restore(slot uint8, all []*connection) {
	r.join(slot)
	for _, c := range all {
		if r.remote[c.key] != nil || r.local[c.localID] != nil {
			continue // not a record of a broker
		}
		c.of = r.members[slot]
		for ; c.of.used < c.place; c.of.used++ {
			c.of.vacant = append(c.of.vacant, c.of.used)
		}
		c.of.used++
		r.add(c)
		c.ending.enter(c)
	}
}

// leave removes the member of a slot and returns its connections whose peers must be
// disconnected.
func (r *router) leave(now clock.Instant, slot uint8) []*connection {
	a := r.members[slot]
	if a == nil {
		return nil
	}
	r.members[slot] = nil
	for s := range a.services {
		delete(r.services, s)
	}
	var left []*connection
	for e := a.known.Front(); e != nil; e = a.known.Front() {
		c := e.Value.(*connection)
		if !c.ending.over(now) {
			left = append(left, c)
		}
		r.forget(c)
	}
	return left
}

// claim gives a service to the member of a slot.
func (r *router) claim(slot uint8, s mad.ServiceID) syscall.Errno {
	a := r.members[slot]
	switch {
	case a == nil: // the member has ended after sending this
		return syscall.ESHUTDOWN
	case r.services[s] == a:
		return 0
	case r.services[s] != nil:
		return syscall.EADDRINUSE
	case len(a.services) >= maxServices:
		return syscall.ENOMEM
	}
	r.services[s], a.services[s] = a, true
	return 0
}

// release undoes a claim of a member.
func (r *router) release(slot uint8, s mad.ServiceID) {
	if a := r.members[slot]; a != nil && r.services[s] == a {
		delete(r.services, s)
		delete(a.services, s)
	}
}

// route returns the member for a message, nil if there is none, and updates the connection
// of the message.
func (r *router) route(now clock.Instant, m *mad.MAD, from *gsi.Address) *account {
	h := m.Header()
	switch h.AttrID {
	case mad.AttrREQ:
		return r.request(m, from)
	case mad.AttrSIDRREQ:
		var q mad.SIDRREQ
		q.Decode(m)
		return r.listener(q.ServiceID)
	case mad.AttrSIDRREP:
		var p mad.SIDRREP
		p.Decode(m)
		return r.owner(p.RequestID)
	case mad.AttrREP:
		return r.reply(m, from)
	case mad.AttrRTU:
		return r.ready(m, from)
	case mad.AttrDREQ:
		return r.ask(now, m, from)
	case mad.AttrDREP, mad.AttrREJ:
		return r.end(m, from)
	case mad.AttrMRA, mad.AttrLAP, mad.AttrAPR:
		_, to := ids(m)
		if to == 0 {
			return r.ofPeer(m, from)
		}
		return r.owner(to)
	}
	return nil
}

// listener returns the member that listens to a service, nil if none does.
func (r *router) listener(s mad.ServiceID) *account {
	if isDomain(s) {
		return nil
	}
	return r.services[s]
}

// owner returns the member of a communication ID.
func (r *router) owner(id uint32) *account { return r.members[id>>24] }

// ids returns the communication IDs at the start of a message: the sender's, and ours.
func ids(m *mad.MAD) (from, to uint32) {
	var t mad.RTU
	t.Decode(m)
	return t.LocalCommID, t.RemoteCommID
}

// ofPeer returns the member of a connection that only the peer's ID identifies.
func (r *router) ofPeer(m *mad.MAD, from *gsi.Address) *account {
	id, _ := ids(m)
	if c := r.remote[remoteKey{id, from.Remote}]; c != nil {
		return c.of
	}
	return nil
}

// request routes a REQ. A repeated REQ goes to the same member as the first, even if it no
// longer listens.
func (r *router) request(m *mad.MAD, from *gsi.Address) *account {
	var q mad.REQ
	q.Decode(m)
	k := remoteKey{q.LocalCommID, from.Remote}
	a, c := r.listener(q.ServiceID), r.remote[k]
	if c != nil && c.ending.asked { // the peer now uses its ID for another connection
		r.forget(c)
		c = nil
	}
	switch {
	case a == nil && c == nil:
		return nil
	case a == nil || c != nil && c.of == a:
		return c.of
	case c != nil:
		r.forget(c)
	}
	qpn := q.LocalQPN
	if q.Transport == mad.TransportRD {
		qpn = ib.QPN(q.LocalEECN)
	}
	r.learn(&connection{of: a, key: k, qpn: qpn, peer: *from})
	return a
}

// reply routes a REP, which names both ends.
func (r *router) reply(m *mad.MAD, from *gsi.Address) *account {
	var p mad.REP
	p.Decode(m)
	a := r.owner(p.RemoteCommID)
	if a == nil {
		return nil
	}
	k := remoteKey{p.LocalCommID, from.Remote}
	if c := r.remote[k]; c != nil {
		r.forget(c)
	}
	if c := r.local[p.RemoteCommID]; c != nil {
		r.forget(c)
	}
	qpn := p.LocalQPN
	if p.LocalEECN != 0 {
		qpn = ib.QPN(p.LocalEECN)
	}
	r.learn(&connection{of: a, key: k, localID: p.RemoteCommID, qpn: qpn, peer: *from})
	return a
}

// ready routes an RTU, the first message with our ID of a connection that the peer
// requested.
func (r *router) ready(m *mad.MAD, from *gsi.Address) *account {
	id, to := ids(m)
	a := r.owner(to)
	if c := r.remote[remoteKey{id, from.Remote}]; c != nil && c.of == a && c.localID == 0 && r.name(c, to) {
		r.note(c)
	}
	return a
}

// name sets our ID of a connection, unless another connection without a DREQ has it.
func (r *router) name(c *connection, id uint32) bool {
	switch old := r.local[id]; {
	case id == 0 || old != nil && !old.ending.asked:
		return false
	case old != nil:
		r.forget(old)
	}
	c.localID, r.local[id] = id, c
	return true
}

// end routes messages that end a connection. A REJ may come from a peer that does not know
// our ID, or has no ID of its own. If the peer of a member is on the broker's own address,
// the member's DREP to the peer also passes here, and ends the peer's DREQ.
func (r *router) end(m *mad.MAD, from *gsi.Address) *account {
	id, to := ids(m)
	a := r.owner(to)
	if to == 0 {
		a = r.ofPeer(m, from)
	}
	if c := r.local[id]; c != nil && m.Header().AttrID == mad.AttrDREP && c.answeredBy(to, from) {
		r.forget(c)
	}
	c := r.remote[remoteKey{id, from.Remote}]
	if c == nil && id == 0 {
		c = r.local[to]
	}
	if c != nil && c.of == a && c.peer.Remote == from.Remote && (to == 0 || c.localID == 0 || c.localID == to) {
		r.forget(c)
	}
	return a
}

// answeredBy reports whether a DREP to a communication ID, from one of our addresses to
// another, is the member's answer to its peer.
func (c *connection) answeredBy(to uint32, from *gsi.Address) bool {
	return c.ending.asked && c.key == remoteKey{to, from.Local} && c.peer.Local == from.Remote
}

// ask routes a DREQ. The connection ends with the member's answer, which the broker does
// not see.
func (r *router) ask(now clock.Instant, m *mad.MAD, from *gsi.Address) *account {
	id, to := ids(m)
	a := r.owner(to)
	c := r.remote[remoteKey{id, from.Remote}]
	if c == nil || c.of != a || c.localID != 0 && c.localID != to {
		return a
	}
	if c.localID == 0 && !r.name(c, to) {
		return a // our ID belongs to another connection
	}
	c.ending.ask(now, c, m.Header().TID)
	if a.asked.Len() > maxAsked {
		r.forget(a.asked.Front().Value.(*connection))
	}
	r.note(c)
	return a
}

// settle forgets the connections of a member whose peers have sent a DREQ: the member has
// answered all.
func (r *router) settle(slot uint8) {
	if a := r.members[slot]; a != nil {
		for e := a.asked.Front(); e != nil; e = a.asked.Front() {
			r.forget(e.Value.(*connection))
		}
	}
}

// learn remembers a connection.
func (r *router) learn(c *connection) {
	a := c.of
	if a.known.Len() >= maxKnown {
		r.forget(a.known.Front().Value.(*connection))
	}
	if n := len(a.vacant); n > 0 {
		c.place, a.vacant = a.vacant[n-1], a.vacant[:n-1]
	} else {
		c.place = a.used
		a.used++
	}
	r.add(c)
	r.note(c)
}

// add adds a connection that has its place in the connection table.
func (r *router) add(c *connection) {
	c.at = c.of.known.PushBack(c)
	r.remote[c.key] = c
	if c.localID != 0 {
		r.local[c.localID] = c
	}
}

// note writes a connection to the connection table. If there is no memory for it, the next broker does
// not know it.
func (r *router) note(c *connection) {
	b := c.record()
	_, _ = r.connTable.WriteAt(b[:], recordAt(c.of.slot, c.place))
}

// forget removes a connection.
func (r *router) forget(c *connection) {
	c.of.known.Remove(c.at)
	c.ending.end(c)
	c.of.vacant = append(c.of.vacant, c.place)
	_, _ = r.connTable.WriteAt(make([]byte, recordSize), recordAt(c.of.slot, c.place)) // cannot fail: the record has memory
	if r.remote[c.key] == c {
		delete(r.remote, c.key)
	}
	if r.local[c.localID] == c {
		delete(r.local, c.localID)
	}
}
