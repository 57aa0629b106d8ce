package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestFlowLabelAndSourcePort(t *testing.T) {
	for _, c := range []struct {
		a, b  ib.QPN
		label uint32
		port  uint16
	}{
		{0x11, 0x12, 0x00132, 0xc132},
		{0xabcdef, 0x123456, 0xac3e3, 0xc3c8},
	} {
		if got := FlowLabel(c.a, c.b); got != c.label {
			t.Errorf("flow label of %v and %v is %#05x, want %#05x", c.a, c.b, got, c.label)
		}
		if FlowLabel(c.a, c.b) != FlowLabel(c.b, c.a) {
			t.Errorf("flow label of %v and %v depends on the end", c.a, c.b)
		}
		if got := SourcePort(c.label); got != c.port {
			t.Errorf("source port of flow label %#05x is %#04x, want %#04x", c.label, got, c.port)
		}
	}
	// Seen on the wire between Linux peers, and garbage above the 20 bits.
	for label, want := range map[uint32]uint16{0x259d5: 0xd9dc, 0x6f4ce: 0xf4d5, 0xfff259d5: 0xd9dc, 0: 0xc000} {
		if got := SourcePort(label); got != want {
			t.Errorf("source port of flow label %#05x is %#04x, want %#04x", label, got, want)
		}
	}
}

func TestSourcePortOfQPN(t *testing.T) {
	if got := SourcePortOfQPN(ib.QPNGSI); got != 0xd872 {
		t.Errorf("source port of QP1 is %#04x, want the 0xd872 that Linux uses", got)
	}
	for q := ib.QPN(0); q < 1<<16; q++ {
		if got := SourcePortOfQPN(q); got < 0xc000 {
			t.Fatalf("source port of %v is %#04x, outside of the range", q, got)
		}
	}
}
