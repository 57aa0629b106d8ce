package hca_test

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

// TestFullAdapter makes objects of each kind up to the adapter's limit: the
// next is refused, until one of them has gone.
func TestFullAdapter(t *testing.T) {
	const most = 3 // the side of a rig has one of some
	limits := hca.DefaultLimits()
	limits.MaxCQ, limits.MaxSRQ, limits.MaxPD, limits.MaxMR, limits.MaxAH = most, most, most, most, most
	limits.MaxQP, limits.MaxRDD, limits.MaxEEC, limits.MaxMW, limits.MaxXRCD = most, most, most, most, most
	s := rig.Config{Type: ib.RC, Cap: rig.Cap, Bytes: 64, HCA: hca.Config{Limits: limits}}.NewSide(t, 1)
	var rdd *qp.RDD // the last that was made
	for _, kind := range []struct {
		name string
		have int
		make func() (end func() error, err error)
	}{
		{"CQ", 1, func() (func() error, error) {
			c, err := s.HCA.CreateCQ(1, nil)
			return func() error { return s.HCA.CQs().Destroy(c) }, err
		}},
		{"SRQ", 0, func() (func() error, error) {
			q, err := s.PD.CreateSRQ(1, 1, 0)
			return func() error { return s.PD.DestroySRQ(q) }, err
		}},
		{"PD", 1, func() (func() error, error) {
			p, err := s.HCA.AllocPD()
			return func() error { return p.Dealloc() }, err
		}},
		{"MR", 1, func() (func() error, error) {
			r, err := s.PD.RegMR(memory.RegionConfig{Buf: s.Buf})
			return func() error { return s.PD.DeregMR(r) }, err
		}},
		{"AH", 0, func() (func() error, error) {
			a, err := s.PD.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(s.Addr), HopLimit: 64, Port: 1})
			return func() error { return s.PD.DestroyAH(a) }, err
		}},
		{"QP", 1, func() (func() error, error) {
			q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.UD, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: rig.Cap})
			return func() error { s.HCA.DestroyQP(s.PD, q); return nil }, err
		}},
		{"MW", 0, func() (func() error, error) {
			w, err := s.PD.AllocMW(ib.MWType2)
			return func() error { return s.PD.DeallocMW(w) }, err
		}},
		{"XRCD", 0, func() (func() error, error) {
			d, err := s.HCA.OpenXRCD()
			return func() error { return s.HCA.CloseXRCD(d) }, err
		}},
		{"RDD", 0, func() (func() error, error) {
			d, err := s.HCA.AllocRDD()
			rdd = d
			return func() error { return s.HCA.DeallocRDD(d) }, err
		}},
		{"EEC", 0, func() (func() error, error) {
			e, err := s.HCA.CreateEEC(rdd)
			return func() error { s.HCA.DestroyEEC(0, e); return nil }, err
		}},
	} {
		var end func() error
		var err error
		for range most - kind.have {
			end, err = kind.make()
			rig.Must(t, err)
		}
		if _, err := kind.make(); !errors.Is(err, ib.ENOMEM) {
			t.Errorf("%s %d of %d: %v, want ENOMEM", kind.name, most+1, most, err)
		}
		rig.Must(t, end())
		if _, err := kind.make(); err != nil {
			t.Errorf("%s after one has gone: %v", kind.name, err)
		}
	}
}
