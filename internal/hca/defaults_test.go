package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
)

// TestDefaultLimits checks the default limits of an adapter, which programs see
// in QueryDevice: they must not become lower.
func TestDefaultLimits(t *testing.T) {
	want := hca.Limits{
		MaxQP: 60000, MaxQPWR: 32768, MaxSGE: 32, MaxInlineData: 512, MaxCQ: 65536, MaxCQE: 4194303,
		MaxSRQ: 65536, MaxSRQWR: 32768, MaxMR: 524288, MaxMW: 524288, MaxPD: 65536, MaxAH: 65536, MaxDMSize: 1 << 20, MaxRDAtomic: 128, MaxRDD: 4096, MaxEEC: 4096,
		MaxXRCD:     4096,
		MaxMcastGrp: fabric.MaxGroups, MaxMcastQPAttach: 64, MaxTotalMcastQPAttach: 64 * fabric.MaxGroups,
	}
	have := rig.Config{Type: ib.RC}.NewSide(t, 1).HCA.Limits()
	if have != want {
		t.Errorf("the limits of an adapter that sets none:\n%+v, want\n%+v", have, want)
	}
}
