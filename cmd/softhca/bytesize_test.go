package main

import "testing"

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "4096": 4096, "64K": 64 << 10, "1m": 1 << 20, "1G": 1 << 30, "2147483647": 1<<31 - 1,
	} {
		n := -1
		if err := (byteSize{&n}).Set(text); err != nil || n != want {
			t.Errorf("%q is %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1.5M", "1MB", "2G", "2147483648", "9223372036854775807K", "1 K"} {
		n := 7
		if err := (byteSize{&n}).Set(text); err == nil || n != 7 {
			t.Errorf("%q was taken as %d", text, n)
		}
	}
}
