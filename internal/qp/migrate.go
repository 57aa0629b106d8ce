package qp

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
)

// Automatic path migration (V15). Software loads an alternate path and asks for
// REARM; the first packet of the peer with MigReq 0 shows that it has done the
// same, and the endpoint is ARMED. From there either side may move to the
// alternate path by itself: because its retries are used up, because it lost the
// address of its path, because software says so, or because the peer moved,
// which a packet with MigReq 1 on the alternate path tells.
//
// What a packet says of migration counts only at a PSN that the peer's next
// packet has, or one that it may send again, or in answer to what is
// outstanding: who only knows the addresses of both paths must guess one of
// replayPSNs, or of resyncPSNs, and gains that the endpoint moves early.

// migration is where an endpoint stands, and its alternate path.
type migration struct {
	ep  *endpoint
	req *requester // of a reliable service: sends again what was outstanding on the old path
	// used says that software has asked for REARM: whatever MigReq says when
	// nothing ever migrates, from now on it tells the peer.
	used  bool
	moved func(now clock.Instant) // told of each migration
	alternate
}

// bit returns the MigReq of what is sent.
func (m *migration) bit() bool {
	return m.state == ib.MIGRATED && (m.used || m.ep.env.Settings.MigReq)
}

// alternate is the alternate path and what has become of it. Its zero value is
// MIGRATED without one.
type alternate struct {
	state  ib.MigState
	loaded bool // since the last migration
	told   bool // PATH_MIG_ERR was raised in this state
	path   fabric.Path
	pkey   ib.PKey
	claim  clock.Instant // UC: time of the first MigReq since the last packet over the primary path; 0: none
}

// sign is what a packet says of its sender's path.
type sign uint8

const (
	signNone   sign = iota
	signMoved       // the peer has moved to the alternate path
	signAstray      // the peer has moved, and not to the alternate path
)

// replayPSNs is how far behind the expected PSN a peer that has moved may begin
// to send again.
const replayPSNs = 1 << 15

// comesBy reports whether a packet came by a path.
func comesBy(path *fabric.Path, d *fabric.Datagram) bool {
	return d.Src == path.Dst && d.Dst == path.Src
}

// admit judges the path of a packet with MigReq 1 that comes to an endpoint that
// is ARMED.
func (m *migration) admit(p *Packet) (counters.Drop, bool) {
	e := m.ep
	switch {
	case comesBy(&m.path, p.Data) && m.pkey.Matches(p.BTH.PKey):
		p.sign = signMoved
		return 0, true
	case !comesBy(&m.path, p.Data) && !comesBy(&e.path, p.Data):
		return counters.DropAddress, false
	case !m.pkey.Matches(p.BTH.PKey) && !e.pkey.Matches(p.BTH.PKey):
		return counters.DropPKey, false
	}
	p.sign = signAstray
	return 0, true
}

// follow draws the conclusions of a packet at a PSN that only the peer should
// know, and reports whether it may be processed.
func (m *migration) follow(now clock.Instant, p *Packet) bool {
	switch {
	case p.sign == signMoved && m.usable():
		if m.examines(now) {
			m.ep.drop(counters.DropMigration, p)
			return false
		}
		m.migrate(now)
	case p.sign != signNone:
		m.tell()
		m.ep.drop(counters.DropMigration, p)
		return false
	case m.state == ib.REARM && !p.BTH.MigReq:
		m.state = ib.ARMED
	default:
		m.claim = 0
	}
	return true
}

// examines reports whether the claim that the peer has moved is examined before it is believed. UC
// has no requests that the peer must answer: there the old path must have been silent for as
// long as a challenge takes, and the claim must come again then.
func (m *migration) examines(now clock.Instant) bool {
	switch {
	case m.req != nil:
		return m.req.end.challenge.moved(now)
	case m.ep.env.Settings.NoChallenge:
		return false
	case m.claim == 0:
		m.claim = max(now, 1)
	}
	return now.Sub(m.claim) < challengeTime
}

// followReplay does so for a request that was executed before: the peer may have
// moved because it did not hear the answer.
func (m *migration) followReplay(now clock.Instant, p *Packet, behind uint32) bool {
	if p.sign == signMoved && behind <= replayPSNs {
		return m.follow(now, p)
	}
	if p.sign != signNone {
		m.ep.drop(counters.DropMigration, p)
	}
	return p.sign == signNone
}

// tell raises PATH_MIG_ERR, once in a state.
func (m *migration) tell() {
	if !m.told {
		m.told = true
		m.ep.raise(ib.EventPathMigErr)
	}
}

// migrate makes the alternate path the primary one. What is outstanding is sent
// again there.
func (m *migration) migrate(now clock.Instant) {
	ep := m.ep
	a := &ep.attr
	a.AV, a.Port, a.PKeyIndex, a.Timeout = a.AltAV, a.AltPort, a.AltPKeyIndex, a.AltTimeout
	ep.path, ep.pkey = m.path, m.pkey
	m.alternate = alternate{path: ep.path, pkey: ep.pkey}
	ep.prefixes, ep.ipid = prefixCache{}, ipidPolicy{}
	ep.setPace()
	ep.raise(ib.EventPathMig)
	if m.req != nil {
		m.req.end.challenge.moveOn()
		m.req.moved(now)
	}
	if m.moved != nil {
		m.moved(now)
	}
}

// OnMigrate sets what is called each time that the QP, or the EE context, has
// migrated, until it is reset. It must not move that; nil calls nothing.
func (e *End) OnMigrate(f func(now clock.Instant)) { e.ep.mig.moved = f }

// load takes an alternate path. What its address leads to is the caller's.
func (m *migration) load(a *ib.QPAttr) {
	to := &m.ep.attr
	to.AltAV, to.AltPort, to.AltPKeyIndex, to.AltTimeout = a.AltAV, a.AltPort, a.AltPKeyIndex, a.AltTimeout
	m.pkey = m.ep.env.PKey(a.AltPKeyIndex)
	m.loaded, m.told = true, false
}

// set carries out what a modify call asks for and may ask for.
func (m *migration) set(now clock.Instant, to ib.MigState) {
	switch {
	case to == ib.REARM:
		m.state, m.told, m.used = ib.REARM, false, true
	case m.state == ib.ARMED:
		m.migrate(now)
	}
}

// usable reports whether the port has the alternate path's local address.
func (m *migration) usable() bool { return !m.ep.env.Gone[m.path.Src] }

// mayMigrate reports whether the endpoint may move by itself. An alternate path
// that cannot be used is told of.
func (m *migration) mayMigrate() bool {
	if m.state != ib.ARMED {
		return false
	}
	if !m.usable() {
		m.tell()
		return false
	}
	return true
}

// AddressLost says that the port has lost a local address: what is armed and has
// its path from there moves.
func (e *End) AddressLost(now clock.Instant, addr netip.Addr) {
	m := &e.ep.mig
	if e.ep.path.Src == addr && e.ep.behaviour().sends() && m.mayMigrate() {
		m.migrate(now)
	}
}
