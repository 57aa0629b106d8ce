package roce

import "testing"

func TestRDETH(t *testing.T) {
	wire := [4]byte{0x12, 0x34, 0x56, 0x78}
	want := RDETH{Resv: 0x12, EEC: 0x345678}
	var got RDETH
	got.decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	keepsEveryBit(t, func(b *[4]byte) {
		var h RDETH
		h.decode(b)
		*b = [4]byte{}
		h.put(b)
	})
}
