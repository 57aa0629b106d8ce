package text

import "fmt"

// Period returns a time of us microseconds in the unit that leaves few digits before
// the point, such as "3.14 µs" and "121.96 ms".
func Period(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.2f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1e3)
	default:
		return fmt.Sprintf("%.2f s", us/1e6)
	}
}
