package roce

import "testing"

func TestAtomicETH(t *testing.T) {
	wire := [28]byte{
		1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14,
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
		0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
	}
	want := AtomicETH{VA: 0x0102030405060708, RKey: 0x11121314, SwapAdd: 0x2122232425262728, Compare: 0x3132333435363738}
	var got AtomicETH
	got.decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	keepsEveryBit(t, func(b *[28]byte) {
		var h AtomicETH
		h.decode(b)
		*b = [28]byte{}
		h.put(b)
	})
}
