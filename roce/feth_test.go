package roce

import "testing"

func TestFETH(t *testing.T) {
	wire := [4]byte{0, 0, 0, 0x53}
	want := FETH{Placement: PlacementGlobal | PlacementPersistence, Selectivity: SelectRegion, Resv: 1}
	var got FETH
	got.decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	keepsEveryBit(t, func(b *[4]byte) {
		var h FETH
		h.decode(b)
		*b = [4]byte{}
		h.put(b)
	})
}
