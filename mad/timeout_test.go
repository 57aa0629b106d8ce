package mad

import (
	"testing"
	"time"
)

func TestTimeout(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0:  4096 * time.Nanosecond,
		1:  8192 * time.Nanosecond,
		14: 67108864 * time.Nanosecond,
		20: 4294967296 * time.Nanosecond,
		31: 8796093022208 * time.Nanosecond,
		32: 4096 * time.Nanosecond, // five bits
	} {
		if got := Timeout(code); got != want {
			t.Errorf("code %d is %v, want %v", code, got, want)
		}
	}
}

// TestAckTimeout compares with what Linux computes, step by step.
func TestAckTimeout(t *testing.T) {
	linux := func(delay, life int) int {
		code := life + 1
		if code >= delay {
			if delay >= code-1 {
				code++
			}
		} else if code >= delay-1 {
			code = delay + 1
		} else {
			code = delay
		}
		return min(code, MaxTimeout)
	}
	for delay := range MaxTimeout + 1 {
		for life := range MaxTimeout + 1 {
			if got, want := AckTimeout(uint8(delay), uint8(life)), linux(delay, life); int(got) != want {
				t.Errorf("ACK delay %d and lifetime %d give the timeout %d, want %d", delay, life, got, want)
			}
		}
	}
	for _, c := range []struct{ delay, life, want uint8 }{
		{15, 18, 19}, // the REQs of Linux 6.1 (captures)
		{15, 16, 17},
		{255, 255, MaxTimeout},
	} {
		if got := AckTimeout(c.delay, c.life); got != c.want {
			t.Errorf("ACK delay %d and lifetime %d give the timeout %d, want %d", c.delay, c.life, got, c.want)
		}
	}
}
