package perf

import "testing"

func TestPattern(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 4096} {
		b := make([]byte, n)
		newPattern(5, 1).fill(b)
		if err := newPattern(5, 1).check(b); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		for _, at := range []int{0, n / 2, n - 1} {
			b[at] ^= 1
			if newPattern(5, 1).check(b) == nil {
				t.Errorf("%d bytes: a change of byte %d is not found", n, at)
			}
			b[at] ^= 1
		}
	}
	b := make([]byte, 64)
	newPattern(5, 1).fill(b)
	if newPattern(5, 2).check(b) == nil || newPattern(6, 1).check(b) == nil {
		t.Error("the message of one queue pair or measurement passes for another's")
	}
}
