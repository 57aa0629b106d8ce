package cm

import "github.com/softhca/softhca/mad"

// A connection owns the peer's queue pair or EE context only once the peer has answered it.
// From then on, a REQ or REP that names the same one shows that the peer has forgotten the
// connection (C7). A REQ alone does not suffice: a stranger could forge REQs of a host for
// all queue pairs that it will use next, and the host's own REQs would be rejected as stale,
// as they are on Linux. A live peer sees no difference, since it never requests two
// connections for one queue pair.
//
// So several half-open connections may name one queue pair. When the peer answers two of
// them, it has forgotten the one with the earlier REQ.

// claim makes a connection that the peer has just answered the owner of the peer's queue pair or
// EE context. It returns the established connection that the peer has forgotten thereby, or nil.
func claim(c *Conn, from State) (older *Conn) {
	switch {
	case c.role == Active || c.state == from: // an active connection claims on the REP
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

// claimFar is claim for the peer's EE context.
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

// forgotten ends a connection that the peer seems to have forgotten, if necessary after an
// examination. nil is none.
func (x *stimulus) forgotten(c *Conn) {
	if c != nil && !(&stimulus{now: x.now}).doubt(c) {
		supersede(x.now, c)
	}
}
