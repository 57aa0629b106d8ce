package ib

import "testing"

func TestMTUBytes(t *testing.T) {
	want := map[MTU]int{1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
	for m := range 256 {
		code := MTU(m)
		if code.Bytes() != want[code] || code.Valid() != (want[code] != 0) {
			t.Errorf("MTU code %d: %d bytes, valid %v; want %d", m, code.Bytes(), code.Valid(), want[code])
		}
	}
}

func TestMTUFor(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  MTU
	}{
		{-1, 0}, {0, 0}, {255, 0}, {256, MTU256}, {511, MTU256}, {512, MTU512}, {1023, MTU512},
		{1024, MTU1024}, {1420, MTU1024}, {2048, MTU2048}, {4095, MTU2048}, {4096, MTU4096}, {1 << 30, MTU4096},
	} {
		got, ok := MTUFor(c.bytes)
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("the MTU for %d bytes is %d, %v; want %d", c.bytes, got, ok, c.want)
		}
	}
}
