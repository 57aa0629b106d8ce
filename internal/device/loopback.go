package device

import (
	"iter"
	"math/rand/v2"
	"net/netip"
)

// Number of loopback addresses that Loopbacks returns: in order, and then at random.
const (
	LoopbacksInOrder  = 1000
	loopbacksAtRandom = 1000
)

// FirstLoopback returns the first address of Loopbacks.
func FirstLoopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// Loopbacks returns addresses of 127.0.0.0/8 for an adapter that can use any of
// them. The first are 127.0.0.1 and its successors, which people expect. Another
// user could occupy as many of these as it has descriptors, but not most of 16
// million, so random ones follow.
func Loopbacks() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		a := FirstLoopback()
		for range LoopbacksInOrder {
			if !yield(a) {
				return
			}
			if a = a.Next(); a.As4()[3] == 255 {
				a = a.Next().Next() // skip the last address of a network, and the first of the next one
			}
		}
		for range loopbacksAtRandom {
			n := rand.Uint32()
			if !yield(netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(1 + n&0xff%254)})) {
				return
			}
		}
	}
}
