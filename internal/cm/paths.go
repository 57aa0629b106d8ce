package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// paths holds a connection's paths to its peer. Its messages take the path of its
// QP. If the QP migrates to the agreed alternate path, the old path most likely
// lost packets and would lose the DREQ too. One side may migrate before the
// other, so messages that arrive over the alternate path are answered there.
type paths struct {
	role  Role
	to    gsi.Address // destination of the REQ, which identifies the peer
	via   gsi.Address // destination of messages if it differs from to; zero: to
	path  Path        // of the QP
	alt   mad.Path    // agreed alternate path
	asked mad.Path    // requested by the REQ, or the last LAP

	// OnMove, if set by the consumer, is called after the messages have taken
	// the alternate path, with the path that they have left.
	OnMove func(now clock.Instant, left Path)

	moved   bool // the QP has migrated, at least once
	strayed bool // the peer last sent over the alternate path
}

// Role returns the side of the connection.
func (p *paths) Role() Role { return p.role }

// Path returns the path of the QP to the peer.
func (p *paths) Path() Path { return p.path }

// Asked returns the alternate path in the last LAP of either side, or else in
// the REQ, as this side sees it.
func (p *paths) Asked() Path { return p.seen(&p.asked) }

// seen returns a path from a message as this side sees it, in the partition of
// the connection.
func (p *paths) seen(w *mad.Path) Path {
	to := Path{
		Local: w.LocalGID.Addr(), Remote: w.RemoteGID.Addr(),
		FlowLabel: w.FlowLabel, TClass: w.TrafficClass, HopLimit: w.HopLimit, SL: w.SL,
	}
	if p.role == Passive {
		to.Local, to.Remote = to.Remote, to.Local
	}
	return p.path.over(&to)
}

// over returns p with the addresses and routing fields of to.
func (p Path) over(to *Path) Path {
	p.Local, p.Remote = to.Local, to.Remote
	p.FlowLabel, p.TClass, p.HopLimit, p.SL = to.FlowLabel, to.TClass, to.HopLimit, to.SL
	return p
}

// alternate returns the alternate path if one was agreed on.
func (p *paths) alternate() (Path, bool) {
	if p.alt.RemoteGID.IsZero() {
		return Path{}, false
	}
	return p.seen(&p.alt), true
}

// way returns the destination of messages.
func (p *paths) way() gsi.Address {
	if p.via.Remote.IsValid() {
		return p.via
	}
	return p.to
}

// isPeer reports whether the peer sends from that address.
func (p *paths) isPeer(from *gsi.Address) bool {
	return from.Remote == p.to.Remote || from.Remote == p.path.Remote || p.overAlternate(from)
}

// overAlternate reports whether a message has come over the alternate path.
func (p *paths) overAlternate(from *gsi.Address) bool {
	alt, ok := p.alternate()
	return ok && from.Remote == alt.Remote && from.Local == alt.Local
}

// heard selects the path of later messages: the alternate path if the peer's
// message arrived there, otherwise that of the QP.
func (p *paths) heard(from *gsi.Address) {
	switch p.strayed = p.overAlternate(from); {
	case p.strayed:
		alt, _ := p.alternate()
		p.via = alt.address()
	case p.moved:
		p.via = p.path.address()
	default:
		p.via = gsi.Address{}
	}
}

// Strayed reports whether the last message of the peer came over the alternate
// path: its QP has migrated, and the local QP may not have noticed.
func (p *paths) Strayed() bool { return p.strayed }

// Migrated reports that the QP has moved to the alternate path: messages now
// take it, and no alternate path is left. If none was agreed on, it returns
// false and changes nothing.
func (p *paths) Migrated(now clock.Instant) bool {
	alt, ok := p.alternate()
	if !ok {
		return false
	}
	left := p.path
	p.follow(alt)
	if p.OnMove != nil {
		p.OnMove(now, left)
	}
	return true
}

// MigratedTo is Migrated for a report that names the path and may be late: another alternate
// path may have been agreed on since the QP migrated.
func (p *paths) MigratedTo(now clock.Instant, to Path) {
	alt, ok := p.alternate()
	switch {
	case !ok || to.Local == p.path.Local && to.Remote == p.path.Remote:
	case alt.Local == to.Local && alt.Remote == to.Remote:
		p.Migrated(now)
	default:
		left, agreed := p.path, p.alt
		p.follow(p.path.over(&to))
		p.alt = agreed
		if p.OnMove != nil {
			p.OnMove(now, left)
		}
	}
}

// follow makes messages take the connection's new path.
func (p *paths) follow(to Path) {
	p.path, p.alt, p.moved, p.strayed = to, mad.Path{}, true, false
	p.via = to.address()
}

// AltAttr returns the attributes, and their mask, that load the alternate path
// into the connection's QP and ask for REARM: the path of Alternate. EINVAL if
// there is none, EADDRNOTAVAIL if its source is not an address of the adapter.
func (c *Conn) AltAttr() (ib.QPAttr, ib.AttrMask, error) {
	w := c.Alternate()
	if c.state != Established || w.RemoteGID.IsZero() {
		return ib.QPAttr{}, 0, fmt.Errorf("attributes of an alternate path: none is agreed on in connection state %v: %w", c.state, ib.EINVAL)
	}
	p := c.seen(&w)
	av, err := c.m.cfg.av(&p)
	if err != nil {
		return ib.QPAttr{}, 0, err
	}
	a := ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltAV: av, AltPort: 1, AltPKeyIndex: pkeyIndexOf(c),
		AltTimeout: c.ep.timeout(w.LocalAckTimeout),
	}
	return a, ib.AttrState | ib.AttrAltPath | ib.AttrPathMigState, nil
}
