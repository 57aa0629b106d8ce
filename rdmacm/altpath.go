package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// AltPath is an alternate path, as this side sees it: where its packets leave,
// and where they go.
type AltPath struct{ Local, Remote netip.Addr }

// AltPathPolicy is what an ID does about alternate paths of its connection.
type AltPathPolicy uint8

// The policies.
const (
	// NoAltPath refuses alternate paths: the answer to a peer that asks for one is
	// that they are not supported. It is the policy of a new ID.
	NoAltPath AltPathPolicy = iota
	// TellAltPath tells the program: ALT_PATH_REQUEST when the peer asks, which
	// AnswerAltPath answers, and ALT_PATH_LOADED when the peer has agreed. To
	// load the path into the queue pair, with the attributes of AltPathAttr, is
	// the program's part.
	TellAltPath
	// AutoAltPath loads what the two sides agree on into the QP of CreateQP, and
	// asks for REARM. After a migration the side that connected asks its peer for
	// the path that was left, so that the connection can go back to it. Without a
	// QP of CreateQP it is TellAltPath. Of RD, where the path is that of the EE
	// context of the channel, and so of all connections over it, only the program
	// asks for the path that was left.
	AutoAltPath
)

// SetAltPath chooses the policy. Both sides of a connection have one: what the
// one asks for the other may refuse. EINVAL for UD and an unknown policy.
func (id *ID) SetAltPath(p AltPathPolicy) error {
	if p > AutoAltPath {
		return fmt.Errorf("set alternate path policy: %d: %w", uint8(p), ib.EINVAL)
	}
	connects := func(idState) bool { return id.typ != ib.UD }
	return id.set("set alternate path policy", connects, func() { id.settings.altPath = p })
}

// LoadAltPath asks the peer for an alternate path, from one of the adapter's
// addresses to one of the peer's. Only the side that connected may ask.
// ALT_PATH_LOADED tells that both sides agree, ALT_PATH_ERROR that there is no
// such path; those there were before stay. EINVAL with NoAltPath, on the other
// side, for the path on which the connection is, without a connection and while
// another one is asked for; EADDRNOTAVAIL for an address that the adapter does
// not have.
func (id *ID) LoadAltPath(p AltPath) error {
	return id.start("load alternate path", func() error {
		if err := id.room(); err != nil {
			return err
		}
		return id.do(func(now clock.Instant) error { return id.askAltPath(now, p) })
	}, EventAltPathLoaded)
}

// askAltPath sends LAP.
func (id *ID) askAltPath(now clock.Instant, p AltPath) error {
	if id.state != stateConnect || id.conn == nil {
		return id.state.refuses()
	}
	if id.settings.altPath == NoAltPath {
		return fmt.Errorf("the ID has no alternate paths: SetAltPath first: %w", ib.EINVAL)
	}
	path := id.conn.Path()
	p = AltPath{p.Local.Unmap().WithZone(""), p.Remote.Unmap().WithZone("")}
	if path.Local == p.Local && path.Remote == p.Remote {
		return fmt.Errorf("the connection is on the path from %v to %v: %w", p.Local, p.Remote, ib.EINVAL)
	}
	path.Local, path.Remote = p.Local, p.Remote
	return id.conn.SendLAP(now, &path, nil)
}

// AltPathAttr returns the attributes, and their mask, that load the alternate
// path which both sides agree on, or the peer asks for, into a queue pair in RTS,
// and ask for REARM. A queue pair that is armed takes them without AttrPathMigState.
// EINVAL when there is none.
func (id *ID) AltPathAttr() (a ib.QPAttr, mask ib.AttrMask, err error) {
	err = id.runOn("alternate path attributes", func(clock.Instant) (err error) {
		if id.state != stateConnect || id.conn == nil {
			return id.state.refuses()
		}
		a, mask, err = id.conn.AltAttr()
		return err
	})
	return a, mask, err
}

// AnswerAltPath answers ALT_PATH_REQUEST: mad.APRAccepted after the program has
// loaded the path, or why it has not. EINVAL when there is nothing to answer.
func (id *ID) AnswerAltPath(status mad.APRStatus) error {
	return id.runOn("answer alternate path", func(now clock.Instant) error {
		if id.state != stateConnect || id.conn == nil {
			return id.state.refuses()
		}
		return id.conn.SendAPR(now, &cm.APRParams{Status: status})
	})
}

// altPathAsked does with the peer's LAP what the policy says. Events of which
// many wait are not added to: the peer could go on for ever.
func (id *ID) altPathAsked(now clock.Instant) {
	asked := id.conn.Asked()
	q := id.qp.engine()
	status := mad.APRUnsupported
	switch policy := id.settings.altPath; {
	case policy == NoAltPath:
	case policy == TellAltPath || q == nil:
		if id.postIfRoom(&Event{Type: EventAltPathRequest, AltPath: endsOf(asked)}) {
			return // the program answers
		}
		status = mad.APRRejected
	default:
		status = id.dev.hca.AnswerLAP(now, id.conn, q)
		if status == mad.APRAccepted {
			id.postIfRoom(&Event{Type: EventAltPathLoaded, AltPath: endsOf(asked)})
		}
	}
	_ = id.conn.SendAPR(now, &cm.APRParams{Status: status}) // allowed in this state
}

// altPathAnswered goes on after APR.
func (id *ID) altPathAnswered(now clock.Instant, apr *mad.APR) {
	asked := id.conn.Asked()
	if apr.Status != mad.APRAccepted {
		id.altPathFailed(asked, int(apr.Status), fmt.Errorf("the peer refuses the path: %v: %w", apr.Status, ib.ECONNREFUSED))
		return
	}
	if q := id.qp.engine(); id.settings.altPath == AutoAltPath && q != nil {
		if err := id.dev.hca.LoadAlternate(now, id.conn, q); err != nil {
			id.altPathFailed(asked, -int(ib.EINVAL), err)
			return
		}
	}
	id.postIfRoom(&Event{Type: EventAltPathLoaded, AltPath: endsOf(asked)})
}

// altPathFailed tells that there is no such path.
func (id *ID) altPathFailed(asked cm.Path, status int, err error) {
	id.postIfRoom(&Event{
		Type: EventAltPathError, AltPath: endsOf(asked), Status: status,
		Err: fmt.Errorf("alternate path from %v to %v: %w", asked.Local, asked.Remote, err),
	})
}

// migrated follows the queue pair to the alternate path, and reports false if
// the two sides had agreed on none. With AutoAltPath the side that connected asks
// for the path that was left.
func (id *ID) migrated(now clock.Instant, c *cm.Conn) bool {
	left := c.Path()
	if id.conn != c || !c.Migrated() {
		return false
	}
	id.path = c.Path()
	if id.settings.altPath != AutoAltPath || c.Role() != cm.Active || id.qp.engine() == nil {
		return true
	}
	if err := id.askAltPath(now, endsOf(left)); err != nil {
		id.altPathFailed(left, -int(ib.EINVAL), err)
	}
	return true
}

// endsOf returns the ends of a path.
func endsOf(p cm.Path) AltPath { return AltPath{p.Local, p.Remote} }

// postIfRoom posts an event unless too many wait.
func (id *ID) postIfRoom(e *Event) bool {
	if id.room() != nil {
		return false
	}
	id.post(e)
	return true
}
