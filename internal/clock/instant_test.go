package clock

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		why  string
		at   Instant
		d    time.Duration
		want Instant
	}{
		{"forward", 5, 3, 8},
		{"backward", 5, -7, -2},
		{"never and later", Never, time.Hour, Never},
		{"never and earlier", Never, -time.Hour, Never},
		{"to the brink", Never - 10, 10, Never},
		{"over the brink", Never - 10, 11, Never},
		{"far over the brink", Never - 1, math.MaxInt64, Never},
		{"before the brink", Never - 10, 9, Never - 1},
	} {
		if got := c.at.Add(c.d); got != c.want {
			t.Errorf("%s: %d + %d = %d, want %d", c.why, c.at, c.d, got, c.want)
		}
	}
}

// TestAddOrders shows that a longer wait never ends earlier.
func TestAddOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := Instant(rapid.Int64Range(0, math.MaxInt64).Draw(t, "at"))
		a := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "a"))
		b := time.Duration(rapid.Int64Range(int64(a), math.MaxInt64).Draw(t, "b"))
		if at.Add(a) < at || at.Add(b) < at.Add(a) {
			t.Fatalf("%d + %v = %d, + %v = %d", at, a, at.Add(a), b, at.Add(b))
		}
		if sum := at.Add(a); sum != Never && sum.Sub(at) != a {
			t.Fatalf("%d.Sub(%d) = %v, want %v", sum, at, sum.Sub(at), a)
		}
	})
}

func TestSpeedUp(t *testing.T) {
	for _, c := range []struct {
		d     time.Duration
		times int
		want  time.Duration
	}{
		{time.Second, 0, time.Second}, {time.Second, 1, time.Second}, {time.Second, 2, 500 * time.Millisecond},
		{time.Second, 50, 20 * time.Millisecond}, {time.Second, 1000, 20 * time.Millisecond}, {5 * time.Millisecond, 50, 5 * time.Millisecond}, {0, 50, 0},
	} {
		if got := SpeedUp(c.d, c.times); got != c.want {
			t.Errorf("%v, %d times shorter, is %v, want %v", c.d, c.times, got, c.want)
		}
	}
}
