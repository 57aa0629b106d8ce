package rping

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestC11_RpingMessage has the bytes that rping sends.
func TestC11_RpingMessage(t *testing.T) {
	var b [messageLen]byte
	m := message{0x56123cff4380, 0x5d2, 64}
	m.put(&b)
	want := [messageLen]byte{0, 0, 0x56, 0x12, 0x3c, 0xff, 0x43, 0x80, 0, 0, 5, 0xd2, 0, 0, 0, 64}
	if b != want {
		t.Errorf("% x, want % x", b, want)
	}
	for n := range messageLen {
		if got, err := parseMessage(b[:n]); err == nil {
			t.Errorf("%d bytes are %+v", n, got)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	var b [messageLen]byte
	message{1 << 63, ib.RKey(1 << 31), 1 << 31}.put(&b)
	f.Add(b[:])
	f.Add(b[1:])
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := parseMessage(in)
		if err != nil {
			return
		}
		if m.put(&b); string(b[:]) != string(in) {
			t.Errorf("% x comes back as % x", in, b)
		}
	})
}
