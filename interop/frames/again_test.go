package frames_test

import (
	"testing"

	"github.com/softhca/softhca/interop/frames"
)

// A packet that is sent again is what it was, or the requester is lost.
func TestReshaped(t *testing.T) {
	const first, middle, only, readRequest, ack, ucFirst, ucOnly = 0x06, 0x07, 0x0A, 0x0C, 0x11, 0x26, 0x2A
	in := func(qp, psn uint32, opcode uint8) frames.Frame {
		return frames.Frame{DestQP: qp, PSN: psn, Opcode: opcode}
	}
	out := func(qp, psn uint32, opcode uint8) frames.Frame {
		f := in(qp, psn, opcode)
		f.Out = true
		return f
	}
	for name, c := range map[string]struct {
		fs  []frames.Frame
		bad bool
	}{
		"sent again":          {[]frames.Frame{in(7, 1, first), in(7, 2, middle), in(7, 1, first), in(7, 2, middle)}, false},
		"a READ's rest":       {[]frames.Frame{in(7, 1, readRequest), in(7, 3, readRequest), in(7, 1, readRequest)}, false},
		"another operation":   {[]frames.Frame{in(7, 1, first), in(7, 2, middle), in(7, 1, only)}, true},
		"of another QP":       {[]frames.Frame{in(7, 1, first), in(8, 1, only)}, false},
		"an answer":           {[]frames.Frame{in(7, 1, first), in(7, 1, ack)}, false},
		"ours":                {[]frames.Frame{out(7, 1, first), out(7, 1, only)}, false},
		"UC, never the same":  {[]frames.Frame{in(7, 1, ucFirst), in(7, 1, ucOnly)}, false},
		"two real peers, all": {parse(t, "loss_read_rsp_middle.client", server4), false},
	} {
		if f := frames.Reshaped(c.fs); (f != nil) != c.bad {
			t.Errorf("%s: %v", name, f)
		}
	}
}
