package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// paths is a connection's ways to its peer. Its messages take the path of its QP.
// When that migrates to the alternate path that the two sides have agreed on, the
// old one is most likely lost, and with it would be the DREQ. One side may know
// before the other: what comes over the alternate path is answered there.
type paths struct {
	role  Role
	to    gsi.Address // of the REQ; the peer is known by it
	via   gsi.Address // where messages go in place of to; zero: to
	path  Path        // of the QP
	alt   mad.Path    // agreed on
	asked mad.Path    // by the REQ, or the last LAP

	moved   bool // the QP has migrated, once at least
	strayed bool // the peer was last heard over the alternate path
}

// Role returns which side this is.
func (p *paths) Role() Role { return p.role }

// Path returns the way to the peer, on which the QP is.
func (p *paths) Path() Path { return p.path }

// Asked returns the path that the peer's LAP asks for, or that ours does, as
// this side sees it; of a REQ the one that came with it.
func (p *paths) Asked() Path { return p.seen(&p.asked) }

// seen returns a path of the wire as this side sees it, in the partition of the
// connection.
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

// over returns the path with another way in the network.
func (p Path) over(to *Path) Path {
	p.Local, p.Remote = to.Local, to.Remote
	p.FlowLabel, p.TClass, p.HopLimit, p.SL = to.FlowLabel, to.TClass, to.HopLimit, to.SL
	return p
}

// alternate returns the alternate path that was agreed on, and whether there is
// one.
func (p *paths) alternate() (Path, bool) {
	if p.alt.RemoteGID.IsZero() {
		return Path{}, false
	}
	return p.seen(&p.alt), true
}

// way returns where messages go.
func (p *paths) way() gsi.Address {
	if p.via.Remote.IsValid() {
		return p.via
	}
	return p.to
}

// isPeer reports whether the peer sends from there.
func (p *paths) isPeer(from *gsi.Address) bool {
	return from.Remote == p.to.Remote || from.Remote == p.path.Remote || p.overAlternate(from)
}

// overAlternate reports whether a message has come over the alternate path.
func (p *paths) overAlternate(from *gsi.Address) bool {
	alt, ok := p.alternate()
	return ok && from.Remote == alt.Remote && from.Local == alt.Local
}

// heard has messages go over the alternate path when the peer was heard there,
// and otherwise over the path of the QP.
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
// path: its QP has migrated, and ours may not have heard of it.
func (p *paths) Strayed() bool { return p.strayed }

// Migrated says that the QP has moved to the alternate path: messages follow,
// and there is no alternate path any more. It reports false if the two sides
// had agreed on none, and changes nothing then.
func (p *paths) Migrated() bool {
	alt, ok := p.alternate()
	if !ok {
		return false
	}
	p.follow(alt)
	return true
}

// follow has messages take the path that the connection is on now.
func (p *paths) follow(to Path) {
	p.path, p.alt, p.moved, p.strayed = to, mad.Path{}, true, false
	p.via = to.address()
}

// AltAttr returns the attributes, and their mask, that load the alternate path
// into the connection's QP and ask for REARM: the path of Alternate. EINVAL if
// there is none, EADDRNOTAVAIL if it does not begin at an address of the adapter.
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
