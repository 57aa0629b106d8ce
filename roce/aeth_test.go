package roce

import "testing"

func TestAETH(t *testing.T) {
	wire := [4]byte{0x62, 0xff, 0xff, 0xfe}
	want := AETH{Syndrome: NAKRemoteAccess, MSN: 0xfffffe}
	var got AETH
	got.decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	keepsEveryBit(t, func(b *[4]byte) {
		var h AETH
		h.decode(b)
		*b = [4]byte{}
		h.put(b)
	})
}
