package roce

import "hash/crc32"

// The CRC register is a polynomial over GF(2) modulo that of the CRC, with
// the coefficient of x^0 in bit 31 and of x^31 in bit 0. One more zero bit of
// input multiplies it by x. So the effect that a changed byte has on the CRC
// is a product with a power of x, which says how many bytes follow.

// polyOne is the polynomial 1.
const polyOne uint32 = 1 << 31

// polyMul returns the product of two polynomials.
func polyMul(a, b uint32) uint32 {
	product := carrylessMul(a, b) << 1 // now bit 63 is the coefficient of x^0
	return uint32(product>>32) ^ step4(uint32(product), 0)
}

// carrylessMul multiplies without carries. Integer products do it when every
// fourth bit only is in use: the up to eight ones that meet at a place are a
// sum below 16, of which the lowest bit is wanted and the others spill only
// into places that are masked out.
func carrylessMul(a, b uint32) uint64 {
	const m = 0x11111111
	a0, a1, a2, a3 := uint64(a&m), uint64(a&(m<<1)), uint64(a&(m<<2)), uint64(a&(m<<3))
	b0, b1, b2, b3 := uint64(b&m), uint64(b&(m<<1)), uint64(b&(m<<2)), uint64(b&(m<<3))
	const w = m<<32 | m
	return (a0*b0^a1*b3^a2*b2^a3*b1)&w |
		(a0*b1^a1*b0^a2*b3^a3*b2)&(w<<1) |
		(a0*b2^a1*b1^a2*b0^a3*b3)&(w<<2) |
		(a0*b3^a1*b2^a2*b1^a3*b0)&(w<<3)
}

// polyDivX returns c divided by x: the register one zero bit earlier.
func polyDivX(c uint32) uint32 {
	if c&polyOne != 0 {
		return (c^crc32.IEEE)<<1 | 1
	}
	return c << 1
}

const (
	powersLow  = 2048 // words of four bytes: 8 KiB, beyond any packet of a path MTU
	powersHigh = 8    // times powersLow: 64 KiB, beyond any UDP payload
)

// powers holds the powers of one unit polynomial: low those from 0, high
// every powersLow-th.
type powers struct {
	low  [powersLow]uint32
	high [powersHigh]uint32
}

// makePowers returns the powers of unit.
func makePowers(unit uint32) (p powers) {
	c := polyOne
	for i := range p.low {
		p.low[i] = c
		c = polyMul(c, unit)
	}
	p.high[0] = polyOne
	for i := 1; i < powersHigh; i++ {
		p.high[i] = polyMul(p.high[i-1], c)
	}
	return p
}

// scale returns v times the n-th power of the unit, for n below powersLow
// times powersHigh.
func (p *powers) scale(v uint32, n int) uint32 {
	v = polyMul(v, p.low[n%powersLow])
	if n >= powersLow {
		v = polyMul(v, p.high[n/powersLow])
	}
	return v
}

var (
	// later scales a register by words of input that follow: powers of x^32.
	later = makePowers(step4(polyOne, 0))
	// earlier undoes later: powers of x^-32.
	earlier = makePowers(xMinus32())
)

func xMinus32() uint32 {
	c := polyOne
	for range 32 {
		c = polyDivX(c)
	}
	return c
}
