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

// mover is what has a path: a QP, or an EE context.
type mover interface {
	Query() ib.QPAttr
	Modify(now clock.Instant, a *ib.QPAttr, mask ib.AttrMask) error
}

// moverOf returns what the paths of a connection are loaded into: its QP, of RD
// the EE context of its channel, which has them for all.
func moverOf(c *cm.Conn, q *qp.QP) (mover, *qp.End) {
	if k := c.Channel(); k != nil {
		if e := contextOf(k); e != nil {
			return e, &e.End
		}
	}
	return q, &q.End
}

// LoadAlternate loads the alternate path that a connection's sides agree on, or
// the peer's LAP asks for, into its QP, or the EE context of its channel, and arms
// it (C10, V15). One that is armed has its path replaced.
func (h *HCA) LoadAlternate(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	a, mask, err := c.AltAttr()
	if err != nil {
		return err
	}
	m, end := moverOf(c, q)
	if m.Query().PathMigState == ib.ARMED {
		mask &^= ib.AttrPathMigState
	}
	defer h.shard.timers.arm(end)
	if err := m.Modify(now, &a, mask); err != nil {
		return fmt.Errorf("connection %#08x: load the alternate path: %w", c.LocalID(), err)
	}
	return nil
}

// AnswerLAP loads the path that the peer's LAP asks for and returns what APR is
// to say. A peer that asks, over the alternate path, for the path on which the
// QP, or EE context, is has migrated, and then so does that: what said so on its
// own way may be lost.
func (h *HCA) AnswerLAP(now clock.Instant, c *cm.Conn, q *qp.QP) mad.APRStatus {
	asked := c.Asked()
	if m, end := moverOf(c, q); c.Strayed() && same(asked, c.Path()) && m.Query().PathMigState == ib.ARMED {
		a := ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}
		_ = m.Modify(now, &a, ib.AttrState|ib.AttrPathMigState) // allowed while it is armed in RTS
		h.shard.timers.arm(end)
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

// same reports whether two paths have the same ends.
func same(a, b cm.Path) bool { return a.Local == b.Local && a.Remote == b.Remote }
