package roce

import "testing"

func TestXRCETH(t *testing.T) {
	wire := [4]byte{0x12, 0x34, 0x56, 0x78}
	want := XRCETH{Resv: 0x12, SRQN: 0x345678}
	exact(t, wire, want)
}
