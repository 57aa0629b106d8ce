package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// AltPath is an alternate path, as this side sees it: its own address and the
// peer's.
type AltPath struct{ Local, Remote netip.Addr }

// AltPathPolicy is an ID's policy for alternate paths of its connection.
type AltPathPolicy uint8

// The policies.
const (
	// NoAltPath refuses alternate paths: it answers a peer's request that they are not
	// supported. It is the policy of a new ID.
	NoAltPath AltPathPolicy = iota
	// TellAltPath raises events: ALT_PATH_REQUEST when the peer requests a path,
	// which the program answers with AnswerAltPath, and ALT_PATH_LOADED when the peer
	// has agreed. The program loads the path into the queue pair, with the attributes
	// of AltPathAttr.
	TellAltPath
	// AutoAltPath loads the agreed path into the QP of CreateQP, and sets REARM. After
	// a migration the side that connected requests the previous path, so that the
	// connection can return to it. Without a QP of CreateQP it equals TellAltPath. With
	// RD the path belongs to the EE context of the channel, and so to all connections
	// over it: only the program requests the previous path.
	AutoAltPath
)

// SetAltPath sets the policy. Each side of a connection has its own: it may refuse
// what the other requests. EINVAL for UD and an unknown policy.
func (id *ID) SetAltPath(p AltPathPolicy) error {
	if p > AutoAltPath {
		return fmt.Errorf("set alternate path policy: %d: %w", uint8(p), ib.EINVAL)
	}
	connects := func(idState) bool { return id.at.typ != ib.UD }
	return id.set("set alternate path policy", connects, func() { id.link.settings.altPath = p })
}

// LoadAltPath requests an alternate path from the peer, from one of the adapter's
// addresses to one of the peer's. Only the side that connected may request one.
// ALT_PATH_LOADED reports that both sides agree, ALT_PATH_ERROR that they do not;
// then the paths are unchanged. EINVAL with NoAltPath, on the other side, for the
// path that the connection uses, without a connection, and while another request
// is pending; EADDRNOTAVAIL for an address that the adapter does not have.
func (id *ID) LoadAltPath(p AltPath) error {
	return id.start("load alternate path", func() error {
		return id.at.do(func(now clock.Instant) error { return id.link.askAltPath(now, p) })
	}, EventAltPathLoaded)
}

// connected returns an error unless there is a connection, established or not.
func (l *link) connected() error {
	if l.state != stateConnect || l.conn == nil {
		return l.state.refuses()
	}
	return nil
}

// askAltPath sends LAP.
func (l *link) askAltPath(now clock.Instant, p AltPath) error {
	if err := l.connected(); err != nil {
		return err
	}
	if l.settings.altPath == NoAltPath {
		return fmt.Errorf("the ID has no alternate paths: SetAltPath first: %w", ib.EINVAL)
	}
	path := l.conn.Path()
	p = AltPath{p.Local.Unmap().WithZone(""), p.Remote.Unmap().WithZone("")}
	if path.Local == p.Local && path.Remote == p.Remote {
		return fmt.Errorf("the connection already uses the path from %v to %v: %w", p.Local, p.Remote, ib.EINVAL)
	}
	path.Local, path.Remote = p.Local, p.Remote
	return l.conn.SendLAP(now, &path, nil)
}

// AltPathAttr returns attributes, with their mask, that load an alternate path into
// a queue pair in RTS and set REARM: the path that both sides agreed on, or that the
// peer requests. For an armed queue pair, leave out AttrPathMigState. EINVAL if there
// is no such path.
func (id *ID) AltPathAttr() (a ib.QPAttr, mask ib.AttrMask, err error) {
	err = id.runOn("alternate path attributes", func(clock.Instant) (err error) {
		if err := id.link.connected(); err != nil {
			return err
		}
		a, mask, err = id.link.conn.AltAttr()
		return err
	})
	return a, mask, err
}

// AnswerAltPath answers ALT_PATH_REQUEST: with mad.APRAccepted after the program has
// loaded the path, otherwise with the reason. EINVAL if there is nothing to answer.
func (id *ID) AnswerAltPath(status mad.APRStatus) error {
	return id.runOn("answer alternate path", func(now clock.Instant) error {
		if err := id.link.connected(); err != nil {
			return err
		}
		return id.link.conn.SendAPR(now, &cm.APRParams{Status: status})
	})
}

// altPathAsked answers the peer's LAP according to the policy. It raises no event if
// too many are pending: the peer could repeat LAP forever.
func (l *link) altPathAsked(now clock.Instant) {
	asked := l.conn.Asked()
	q := l.qp.engine()
	status := mad.APRUnsupported
	switch policy := l.settings.altPath; {
	case policy == NoAltPath:
	case policy == TellAltPath || q == nil:
		if l.inbox.postIfRoom(&Event{Type: EventAltPathRequest, AltPath: endsOf(asked)}) {
			return // the program answers
		}
		status = mad.APRRejected
	default:
		status = l.at.dev.hca.AnswerLAP(now, l.conn, q)
		if status == mad.APRAccepted {
			l.inbox.postIfRoom(&Event{Type: EventAltPathLoaded, AltPath: endsOf(asked)})
		}
	}
	_ = l.conn.SendAPR(now, &cm.APRParams{Status: status}) // allowed in this state
}

// altPathAnswered handles the peer's APR.
func (l *link) altPathAnswered(now clock.Instant, apr *mad.APR) {
	asked := l.conn.Asked()
	if apr.Status != mad.APRAccepted {
		l.altPathFailed(asked, int(apr.Status), fmt.Errorf("the peer refuses the path: %v: %w", apr.Status, ib.ECONNREFUSED))
		return
	}
	if q := l.qp.engine(); l.settings.altPath == AutoAltPath && q != nil {
		if err := l.at.dev.hca.LoadAlternate(now, l.conn, q); err != nil {
			l.altPathFailed(asked, -int(ib.EINVAL), err)
			return
		}
	}
	l.inbox.postIfRoom(&Event{Type: EventAltPathLoaded, AltPath: endsOf(asked)})
}

// altPathFailed reports that the requested path was not loaded.
func (l *link) altPathFailed(asked cm.Path, status int, err error) {
	l.inbox.postIfRoom(&Event{
		Type: EventAltPathError, AltPath: endsOf(asked), Status: status,
		Err: fmt.Errorf("alternate path from %v to %v: %w", asked.Local, asked.Remote, err),
	})
}

// migrated handles the migration of a connection's queue pair from a path. With
// AutoAltPath the side that connected requests that path again.
func (l *link) migrated(now clock.Instant, c *cm.Conn, left cm.Path) {
	if l.conn != c {
		return
	}
	l.path = c.Path()
	if l.settings.altPath != AutoAltPath || c.Role() != cm.Active || l.qp.engine() == nil {
		return
	}
	if err := l.askAltPath(now, endsOf(left)); err != nil {
		l.altPathFailed(left, -int(ib.EINVAL), err)
	}
}

// endsOf returns the ends of a path.
func endsOf(p cm.Path) AltPath { return AltPath{p.Local, p.Remote} }
