package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
)

// TestM1_M2_WindowsHoldTheirDomain shows that a protection domain stays while it has windows, and
// that a window stays in the table that has it.
func TestM1_M2_WindowsHoldTheirDomain(t *testing.T) {
	limits := hca.DefaultLimits()
	limits.MaxMW = 2
	s, o := rig.NewSolo(t, rig.SoloConfig{HCA: hca.Config{Limits: limits}}), rig.NewSolo(t, rig.SoloConfig{})
	pd, err := s.HCA.AllocPD()
	must.Do(t, err)
	var ws []*memory.Window
	for _, typ := range []ib.MWType{ib.MWType1, ib.MWType2} {
		w, err := pd.AllocMW(typ)
		must.Do(t, err)
		ws = append(ws, w)
	}
	_, err = pd.AllocMW(ib.MWType1)
	must.Fail(t, err, ib.ENOMEM, "a third of two windows")
	if n := s.HCA.Resources().MWs; n != 2 {
		t.Errorf("%d windows, want 2", n)
	}
	must.Fail(t, pd.Dealloc(), ib.EBUSY, "deallocate a domain with windows")
	must.Fail(t, o.PD.DeallocMW(ws[0]), ib.EINVAL, "deallocate a window of another adapter")
	for _, w := range ws {
		must.Do(t, pd.DeallocMW(w))
	}
	must.Fail(t, pd.DeallocMW(ws[0]), ib.EINVAL, "deallocate a window twice")
	must.Do(t, pd.Dealloc())
	_, err = pd.AllocMW(ib.MWType1)
	must.Fail(t, err, ib.EINVAL, "a window of a domain that is gone")
}
