package clocks

import (
	"cmp"
	"math"
	"slices"
)

// knot is a time and the difference of two clocks at it.
type knot struct {
	at  int64 // by the second clock
	off int64 // the second clock minus the first
	err int64 // how much off may be wrong
}

// curve is the difference of two clocks: straight between its knots, which are in the order of time.
type curve struct {
	knots []knot
	slope float64 // before the first knot and after the last
}

// off returns the difference at a time by the second clock.
func (c *curve) off(at int64) int64 {
	if len(c.knots) == 0 {
		return 0
	}
	i, found := slices.BinarySearchFunc(c.knots, at, func(k knot, at int64) int { return cmp.Compare(k.at, at) })
	if found {
		return c.knots[i].off
	}
	near, slope := c.knots[max(i, 1)-1], c.slope
	if 0 < i && i < len(c.knots) {
		slope = steepness(near, c.knots[i])
	}
	return near.off + int64(math.Round(slope*float64(at-near.at)))
}

// steepness returns the slope between two knots of different times.
func steepness(a, b knot) float64 { return float64(b.off-a.off) / float64(b.at-a.at) }

// put adds knots, except those at whose time the curve has one.
func (c *curve) put(knots []knot) {
	c.knots = append(c.knots, knots...)
	slices.SortStableFunc(c.knots, func(a, b knot) int { return cmp.Compare(a.at, b.at) })
	c.knots = slices.CompactFunc(c.knots, func(a, b knot) bool { return a.at == b.at })
}

// below returns the curve through the lowest of the points, which are in the order of time: none is below it,
// and it only bends upwards.
func below(points []knot) curve {
	var hull []knot
	for _, p := range points {
		if n := len(hull); n > 0 && hull[n-1].at == p.at {
			if hull[n-1].off <= p.off {
				continue
			}
			hull = hull[:n-1]
		}
		for n := len(hull); n > 1 && steepness(hull[n-2], hull[n-1]) >= steepness(hull[n-1], p); n-- {
			hull = hull[:n-1]
		}
		hull = append(hull, p)
	}
	return curve{knots: hull}
}

// trim removes knots at both ends from which the curve falls or to which it rises faster than clocks drift: the
// packets there were slow. The rest of the curve, which goes on with the slope 0, is below them.
func (c *curve) trim() {
	const steep = 1. / driftLimit
	for len(c.knots) > 1 && steepness(c.knots[0], c.knots[1]) < -steep {
		c.knots = c.knots[1:]
	}
	for n := len(c.knots); n > 1 && steepness(c.knots[n-2], c.knots[n-1]) > steep; n-- {
		c.knots = c.knots[:n-1]
	}
}

// negate changes the sign of the difference.
func (c *curve) negate() {
	for i := range c.knots {
		c.knots[i].off = -c.knots[i].off
	}
	c.slope = -c.slope
}
