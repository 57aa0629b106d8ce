package roce

import "testing"

func TestRDETH(t *testing.T) {
	wire := [4]byte{0x12, 0x34, 0x56, 0x78}
	want := RDETH{Resv: 0x12, EEC: 0x345678}
	exact(t, wire, want)
}
