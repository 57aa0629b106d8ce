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

// LoadAlternate loads the alternate path that a connection's sides agree on, or
// the peer's LAP asks for, into its QP, and arms it (C10, V15). One that is
// armed has its path replaced.
func (h *HCA) LoadAlternate(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	a, mask, err := c.AltAttr()
	if err != nil {
		return err
	}
	if q.Query().PathMigState == ib.ARMED {
		mask &^= ib.AttrPathMigState
	}
	if err := h.shard.modify(now, q, &a, mask); err != nil {
		return fmt.Errorf("connection %#08x: load the alternate path: %w", c.LocalID(), err)
	}
	return nil
}

// AnswerLAP loads the path that the peer's LAP asks for and returns what APR is
// to say. A peer that asks, over the alternate path, for the path on which the
// QP is has migrated, and then so does the QP: what said so on its own way may
// be lost.
func (h *HCA) AnswerLAP(now clock.Instant, c *cm.Conn, q *qp.QP) mad.APRStatus {
	asked := c.Asked()
	if c.Strayed() && same(asked, c.Path()) && q.Query().PathMigState == ib.ARMED {
		a := ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}
		_ = h.shard.modify(now, q, &a, ib.AttrState|ib.AttrPathMigState) // allowed while it is armed in RTS
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
