package ib

// MTU is the code of a path MTU: the largest payload of one packet.
type MTU uint8

// The path MTUs, named by their size in bytes.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Valid reports whether m is one of the five codes.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the payload size in bytes, 0 for an invalid code.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// MTUFor returns the largest MTU whose payload is at most n bytes, and false
// when n is below 256.
func MTUFor(n int) (MTU, bool) {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m, true
		}
	}
	return 0, false
}
