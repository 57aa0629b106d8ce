package hca

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// mover is an object with a path: a QP or an EE context.
type mover interface {
	Query() ib.QPAttr
	Modify(now clock.Instant, a *ib.QPAttr, mask ib.AttrMask) error
	OnMigrate(f func(now clock.Instant))
}

// moverOf returns the object into which a connection's paths are loaded: its
// QP, or for RD the EE context of its channel, which all connections of the
// channel share.
func moverOf(c *cm.Conn, q *qp.QP) mover {
	if k := c.Channel(); k != nil {
		if e := contextOf(k); e != nil {
			return e
		}
	}
	return q
}

// LoadAlternate loads the alternate path that both sides agreed on, or that the
// peer's LAP requests, into the connection's QP or its channel's EE context, and
// arms it (C10, V15). It replaces an armed path.
func (h *connector) LoadAlternate(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	a, mask, err := c.AltAttr()
	if err != nil {
		return err
	}
	m := moverOf(c, q)
	err = h.Enter(func() error {
		if m.Query().PathMigState == ib.ARMED {
			mask &^= ib.AttrPathMigState
		}
		return m.Modify(now, &a, mask)
	})
	if err != nil {
		return fmt.Errorf("connection %#08x: load the alternate path: %w", c.LocalID(), err)
	}
	return nil
}

// AnswerLAP loads the path that the peer's LAP requests and returns the status
// for the APR. If the LAP arrived over the alternate path and requests the
// current path, the peer has migrated, and the QP or EE context does so too: the
// data packets that would show it may have been lost.
func (h *connector) AnswerLAP(now clock.Instant, c *cm.Conn, q *qp.QP) mad.APRStatus {
	asked := c.Asked()
	if c.Strayed() && same(asked, c.Path()) {
		h.migrate(now, c, moverOf(c, q))
	}
	if same(asked, c.Path()) {
		return mad.APRCurrentPath
	}
	err := h.LoadAlternate(now, c, q)
	switch {
	case errors.Is(err, ib.EADDRNOTAVAIL):
		return mad.APRInvalidGID
	case err != nil:
		return mad.APRRejected
	default:
		return mad.APRAccepted
	}
}

// migrate migrates an armed QP or EE context. The connection's path follows at once: it does
// not wait for the notice.
func (h *connector) migrate(now clock.Instant, c *cm.Conn, m mover) {
	armed, to := false, cm.Path{}
	h.look(func() {
		if armed = m.Query().PathMigState == ib.ARMED; armed {
			a := ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}
			_ = m.Modify(now, &a, ib.AttrState|ib.AttrPathMigState) // allowed while it is armed in RTS
			to = h.pathOf(m)
		}
	})
	switch k := c.Channel(); {
	case !armed:
	case k != nil && contextOf(k) != nil:
		migrated(k, to)
	default:
		c.MigratedTo(now, to)
	}
}

// same reports whether two paths have the same ends.
func same(a, b cm.Path) bool { return a.Local == b.Local && a.Remote == b.Remote }
