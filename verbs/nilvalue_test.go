package verbs

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestNilValues checks that methods that cannot fail return the zero value on nil, so
// that a program that prints it after an error is not misled.
func TestNilValues(t *testing.T) {
	var (
		q *QP
		s *SRQ
		c *CQ
		d *Context
		m *MR
		w *MW
	)
	for what, v := range map[string]bool{
		"QP.QPN": q.QPN() == 0, "QP.Type": q.Type() == 0, "QP.State": q.State() == ib.RESET, "CQ.Cap": c.Cap() == 0,
		"SRQ.Query": s.Query() == SRQInitAttr{}, "Context.QueryPKey": d.QueryPKey(0) == 0,
		"MW.RKey": w.RKey() == 0, "MW.Type": w.Type() == 0,
		"MR.LKey": m.LKey() == 0, "MR.RKey": m.RKey() == 0, "MR.Addr": m.Addr() == 0, "MR.Len": m.Len() == 0,
	} {
		if !v {
			t.Errorf("%s of nil is not the zero value", what)
		}
	}
}
