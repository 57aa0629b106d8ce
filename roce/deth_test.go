package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestDETH(t *testing.T) {
	wire := [8]byte{0x80, 0x01, 0, 0, 0xaa, 0, 0, 1}
	want := DETH{QKey: 0x80010000, Resv: 0xaa, SrcQP: ib.QPNGSI}
	exact(t, wire, want)
}
