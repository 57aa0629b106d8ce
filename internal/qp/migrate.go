package qp

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/packet"
)

// Automatic path migration (V15). Software loads an alternate path and asks for
// REARM; the first packet of the peer with MigReq 0 shows that the peer has done
// the same, and the endpoint becomes ARMED. Then either side may migrate: when
// its retries are exhausted, when its host loses the local address, when
// software asks for it, or when a packet with MigReq 1 on the alternate path
// shows that the peer has migrated.
//
// The migration state in a packet counts only at the expected PSN, at a PSN
// that the peer may retransmit, or in an answer to an outstanding request. A
// stranger who knows only the addresses of both paths must guess a PSN within
// replayPSNs or resyncPSNs, and at best makes the endpoint migrate early.

// migration is the migration state of an endpoint, and its alternate path.
type migration struct {
	ep        *endpoint
	end       *End
	req       *requester // of a reliable service: retransmits outstanding packets on the new path
	challenge *challenge // of the same service: examines the peer's claim that it has migrated
	// used: software has asked for REARM. From then on MigReq carries the
	// migration state; before, Settings.MigReq.
	used  bool
	moved func(now clock.Instant) // called after each migration
	alternate
}

// alternate is the alternate path and its state. Its zero value is MIGRATED
// without one.
type alternate struct {
	state  ib.MigState
	loaded bool // since the last migration
	told   bool // PATH_MIG_ERR was raised in this state
	path   Path
	pkey   ib.PKey
	claim  clock.Instant // UC, XRC target: time of the first MigReq since the last packet over the primary path; 0: none
}

// sign is what a packet shows about its sender's path.
type sign uint8

const (
	signNone   sign = iota
	signMoved       // the peer has moved to the alternate path
	signAstray      // the peer has moved, but not to the alternate path
)

// replayPSNs is how far before the expected PSN a migrated peer may start its
// retransmission.
const replayPSNs = 1 << 15

// admit judges the path of a packet with MigReq 1 at an ARMED endpoint.
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

// followReplay is follow for a duplicate request.
func (e *endpoint) followReplay(now clock.Instant, p *Packet, behind uint32) bool {
	return p.sign == signNone || e.mig.followReplay(now, p, behind)
}

// stay forgets the alternate path and all migrations, as RESET does.
func (e *endpoint) stay() {
	m := &e.mig
	m.alternate, m.used, m.moved = alternate{}, false, nil
}

// armed reports whether the endpoint may migrate by itself, over a path that may not be usable.
func (e *endpoint) armed() bool { return e.mig.state == ib.ARMED }

// migration returns the migration state.
func (e *endpoint) migration() ib.MigState { return e.mig.state }

// mayMigrate reports whether the endpoint may migrate by itself.
func (e *endpoint) mayMigrate() bool { return e.mig.mayMigrate() }

// migrate makes the alternate path the primary one.
func (e *endpoint) migrate(now clock.Instant) { e.mig.migrate(now) }

// follow handles the migration state in a packet at a PSN that only the peer
// should know, and reports whether it may be processed.
func (m *migration) follow(now clock.Instant, p *Packet) bool {
	switch {
	case p.sign == signMoved && m.path.usable():
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
		m.ep.describe()
	default:
		m.claim = 0
	}
	return true
}

// examines reports whether the claim that the peer has migrated still has to be verified. UC and
// XRC targets send no requests that the peer must answer, so they accept the claim when it is
// repeated after the old path was silent for the time of a challenge.
func (m *migration) examines(now clock.Instant) bool {
	switch {
	case m.ep.doubted&claimMoved != 0:
		return m.challenge.moved(now)
	case m.ep.env.Settings.NoChallenge:
		return false
	case m.claim == 0:
		m.claim = max(now, 1)
	}
	return now.Sub(m.claim) < m.ep.silence()
}

// silence returns how long the old path must be silent before the end believes that its peer has
// migrated. A short retry timer shortens this time, because the peer repeats its requests only
// until its retries are exhausted.
func (e *endpoint) silence() time.Duration {
	if d := ib.AckTimeout(e.attr.Timeout); d != 0 {
		return min(d, challengeTime)
	}
	return challengeTime
}

// followReplay is follow for a duplicate request: the peer may have migrated
// because it received no answer.
func (m *migration) followReplay(now clock.Instant, p *Packet, behind uint32) bool {
	if p.sign == signMoved && behind <= replayPSNs {
		return m.follow(now, p)
	}
	if p.sign != signNone {
		m.ep.drop(counters.DropMigration, p)
	}
	return p.sign == signNone
}

// tell raises PATH_MIG_ERR, at most once in each migration state.
func (m *migration) tell() {
	if !m.told {
		m.told = true
		m.ep.raise(ib.EventPathMigErr)
	}
}

// migrate makes the alternate path the primary one. Outstanding packets are
// retransmitted there.
func (m *migration) migrate(now clock.Instant) {
	ep := m.ep
	a := &ep.attr
	a.AV, a.Port, a.PKeyIndex, a.Timeout = a.AltAV, a.AltPort, a.AltPKeyIndex, a.AltTimeout
	m.end.setPath(m.path)
	ep.pkey = m.pkey
	m.alternate = alternate{path: ep.path, pkey: ep.pkey}
	ep.prefixes, ep.ipid = packet.Prefixes{}, ipidPolicy{}
	ep.setPace()
	ep.raise(ib.EventPathMig)
	if m.req != nil {
		m.challenge.moveOn()
		m.req.moved(now)
	}
	m.end.describe()
	if m.moved != nil {
		m.moved(now)
	}
}

// OnMigrate sets a function that is called after each migration of the QP or EE
// context, until it is reset. The function must not change its state.
func (e *End) OnMigrate(f func(now clock.Instant)) {
	m := &e.ep.mig
	m.moved = f
}

// load sets the alternate path. The caller has resolved its address vector.
func (m *migration) load(a *ib.QPAttr) {
	to := &m.ep.attr
	to.AltAV, to.AltPort, to.AltPKeyIndex, to.AltTimeout = a.AltAV, a.AltPort, a.AltPKeyIndex, a.AltTimeout
	m.pkey = m.ep.env.port(a.AltPort).PKeys[a.AltPKeyIndex]
	m.loaded, m.told = true, false
}

// set applies the migration state of a checked modify call.
func (m *migration) set(now clock.Instant, to ib.MigState) {
	switch {
	case to == ib.REARM:
		m.state, m.told, m.used = ib.REARM, false, true
	case m.state == ib.ARMED:
		m.migrate(now)
	}
}

// mayMigrate reports whether the endpoint may move by itself. If its alternate
// path is unusable, it raises PATH_MIG_ERR.
func (m *migration) mayMigrate() bool {
	if m.state != ib.ARMED {
		return false
	}
	if !m.path.usable() {
		m.tell()
		return false
	}
	return true
}

// AddressLost reports that the port has lost a local address: an ARMED end whose
// path uses it migrates.
func (e *End) AddressLost(now clock.Instant, addr netip.Addr) {
	m := &e.ep.mig
	if e.ep.path.Src == addr && e.ep.behaviour().sends() && m.mayMigrate() {
		m.migrate(now)
		e.Arm()
	}
}
