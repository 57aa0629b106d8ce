package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestDETH(t *testing.T) {
	wire := [8]byte{0x80, 0x01, 0, 0, 0xaa, 0, 0, 1}
	want := DETH{QKey: 0x80010000, Resv: 0xaa, SrcQP: ib.QPNGSI}
	var got DETH
	got.decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	keepsEveryBit(t, func(b *[8]byte) {
		var h DETH
		h.decode(b)
		*b = [8]byte{}
		h.put(b)
	})
}
