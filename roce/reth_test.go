package roce

import "testing"

func TestRETH(t *testing.T) {
	wire := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24}
	want := RETH{VA: 0x0102030405060708, RKey: 0x11121314, Length: 0x21222324}
	exact(t, wire, want)
}
