package rping

import (
	"bytes"
	"testing"
)

// TestC11_RpingText has the texts that rping sends.
func TestC11_RpingText(t *testing.T) {
	for _, c := range []struct {
		size, n int
		want    string
	}{
		{64, 0, "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr"},
		{64, 57, "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnop"},
		{64, 58, "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopq"},
		{minSize, 1<<31 - 1, "rdma-ping-2147483647: "},
		{minSize, 1<<62 + 1, "rdma-ping-461168601842"}, // cut, and not written past the end
	} {
		b := bytes.Repeat([]byte{0xff}, c.size)
		fill(b, c.n)
		if got := string(b); got != c.want+"\x00" {
			t.Errorf("text %d of %d bytes is %q, want %q", c.n, c.size, got, c.want)
		}
		if n := textLen(b); n != c.size {
			t.Errorf("text %d has %d bytes, not %d", c.n, n, c.size)
		}
	}
}

// TestPeersText prints what a terminal does not obey.
func TestPeersText(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[2Jab\x00cd": ".[2Jab", "without end": "without end", "": "", "\xff\x00": ".",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%q is printed as %q, want %q", in, got, want)
		}
	}
}
