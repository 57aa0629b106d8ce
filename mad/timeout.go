package mad

import "time"

// MaxTimeout is the largest code of a time.
const MaxTimeout = 31

// Timeout returns the time of a code of 5 bits, 4.096 µs · 2^code, between
// 4.096 µs and 2 h 26 min; bits above the fifth are dropped.
func Timeout(code uint8) time.Duration { return 4096 << (code & MaxTimeout) }

// AckTimeout returns the code of the local ACK timeout of a path: about twice
// the packet lifetime plus the delay of the peer's acknowledge, all of them
// codes. Powers of two add up to the next one when they are equal or
// neighbours; otherwise the greater stands for the sum, as with Linux.
func AckTimeout(ackDelay, lifetime uint8) uint8 {
	roundTrip := min(lifetime, MaxTimeout) + 1
	delay := min(ackDelay, MaxTimeout)
	code := max(roundTrip, delay)
	if code-min(roundTrip, delay) <= 1 {
		code++
	}
	return min(code, MaxTimeout)
}
