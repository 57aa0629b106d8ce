package text

import "testing"

func TestPeriod(t *testing.T) {
	for us, want := range map[float64]string{0: "0.00 µs", 3.14159: "3.14 µs", 999: "999.00 µs", 1000: "1.00 ms", 121962.49: "121.96 ms", 2e6: "2.00 s"} {
		if got := Period(us); got != want {
			t.Errorf("%v µs is %q, want %q", us, got, want)
		}
	}
}
