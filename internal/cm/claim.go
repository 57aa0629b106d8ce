package cm

import "github.com/softhca/softhca/mad"

// A connection has the peer's queue pair, or EE context, from when the peer answers it. Then
// a REQ or REP that names the same one shows that the peer has forgotten the connection (C7).
// A REQ alone gives its sender nothing: a stranger could send REQs in the name of a host, for
// all queue pairs that the host will use next, and its own REQs would be rejected as stale.
// Linux rejects them. A live peer does not notice the difference, for it does not ask twice
// for one queue pair.
//
// So several half-open connections may name one queue pair. When the peer answers a second
// one, it has forgotten the one whose REQ came first.

// claim gives a connection that the peer has just answered the peer's queue pair or EE context.
// It returns the established connection that the peer has forgotten if so, nil if there is none.
func claim(c *Conn, from State) (older *Conn) {
	switch {
	case c.role == Active || c.state == from: // an active one claims with the REP
		return nil
	case c.state != MRARepRcvd && c.state != Established && c.state != DReqRcvd:
		return nil
	case c.ep.transport == mad.TransportRD:
		if c.uses {
			older = c.channel.claimFar()
		}
		return older
	}
	key := qpKeyOf(c)
	older = c.m.qps[key]
	if older != nil && older.serial > c.serial {
		return c
	}
	c.m.qps[key] = c
	if older == c {
		return nil
	}
	return older
}

// claimFar does so for the peer's EE context.
func (h *Channel) claimFar() (older *Conn) {
	old := h.m.far[h.far]
	switch {
	case old == h:
		return nil
	case old != nil && old.serial > h.serial:
		return h.established()
	}
	h.m.far[h.far] = h
	if old == nil {
		return nil
	}
	return old.established()
}

// forgotten ends a connection that the peer has forgotten, nil for none, or examines it first.
func (x *stimulus) forgotten(c *Conn) {
	if c != nil && !(&stimulus{now: x.now}).doubt(c) {
		supersede(x.now, c)
	}
}
