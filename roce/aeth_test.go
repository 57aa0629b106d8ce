package roce

import "testing"

func TestAETH(t *testing.T) {
	wire := [4]byte{0x62, 0xff, 0xff, 0xfe}
	want := AETH{Syndrome: NAKRemoteAccess, MSN: 0xfffffe}
	exact(t, wire, want)
}
