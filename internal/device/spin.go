package device

import "time"

// spin waits without giving the processor away: times of microseconds, during which another
// thread of the program reads its memory.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
