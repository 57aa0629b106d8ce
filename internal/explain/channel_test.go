package explain

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
)

// channel is the EE contexts between the two sides of a play of RD.
type channel [2]*qp.EEC

// newChannel joins the sides of a play by EE contexts, and gives each a queue pair of RD in
// place of its own.
func newChannel(p *play) (c channel) {
	for i, s := range p.rig.Sides {
		rdd, err := s.HCA.AllocRDD()
		rig.Must(p.t, err)
		c[i], err = s.HCA.CreateEEC(rdd)
		rig.Must(p.t, err)
		s.QP, err = s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RD, SendCQ: s.CQ, RecvCQ: s.CQ, RDD: rdd, Cap: playCap, SigAll: true})
		rig.Must(p.t, err)
	}
	for i, s := range p.rig.Sides {
		a := p.attrs(i)
		for st := ib.INIT; st <= ib.RTS; st++ {
			a.State = st
			rig.Must(p.t, s.QP.Modify(p.rig.Now, &a, rig.WalkMask(ib.RD, st)))
		}
		a.DestQPN = ib.QPN(c[1-i].Num())
		for st := ib.INIT; st <= ib.RTS; st++ {
			a.State = st
			rig.Must(p.t, c[i].Modify(p.rig.Now, &a, rig.WalkMask(ib.EEC, st)))
		}
	}
	return c
}

// ofRD returns the play of a seed over EE contexts, and false if it is of another service.
func ofRD(seed uint64) (playConfig, bool) {
	c := drawn(seed)
	if c.typ != ib.RC {
		return c, false
	}
	c.typ = ib.RD
	return c, true
}

// TestRDVerdictsAgreeWithCompletions is TestVerdictsAgreeWithCompletions over EE contexts: a
// conversation is of two of them, and the statuses are those of the queue pairs that use them.
func TestRDVerdictsAgreeWithCompletions(t *testing.T) {
	a := agreement{byStatus: map[ib.WCStatus]int{}}
	for i := range *agreeRuns {
		if c, ok := ofRD(*agreeSeed + uint64(i)); ok {
			a.play(t, *agreeSeed+uint64(i), c)
		}
	}
	a.check(t)
}
