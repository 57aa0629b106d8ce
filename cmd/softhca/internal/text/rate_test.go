package text

import "testing"

func TestRate(t *testing.T) {
	for _, c := range []struct {
		n    float64
		unit string
		want string
	}{
		{22.884e9, "b/s", "22.88 Gb/s"}, {9.998e6, "b/s", "10.00 Mb/s"}, {2560, "b/s", "2.56 kb/s"}, {0, "b/s", "0 b/s"},
		{1693000, " messages/s", "1.69 M messages/s"}, {313.4, " messages/s", "313 messages/s"}, {43700, " messages/s", "43.70 k messages/s"},
	} {
		if got := Rate(c.n, c.unit); got != c.want {
			t.Errorf("%v%s is %q, want %q", c.n, c.unit, got, c.want)
		}
	}
}
