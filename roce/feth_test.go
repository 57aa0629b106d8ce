package roce

import "testing"

func TestFETH(t *testing.T) {
	wire := [4]byte{0, 0, 0, 0x53}
	want := FETH{Placement: PlacementGlobal | PlacementPersistence, Selectivity: SelectRegion, Resv: 1}
	exact(t, wire, want)
}
