package clocks

import (
	"math"
	"slices"
	"time"
)

const (
	window     = int64(10 * time.Second)       // the best measurement of each is used
	narrowest  = int64(100 * time.Millisecond) // window in short captures
	windows    = 16                            // in captures shorter than that many of window
	resolution = int64(time.Microsecond)       // of timestamps in many captures
	apart      = 2                             // nanoseconds that the fastest packets take at least
	driftLimit = 10000                         // clocks drift by less than one part in that many: 100 ppm
	poor       = 4                             // measurements with that many times the error of the best are not used
	rounds     = 16                            // in which estimates are adapted to packets that contradict them
	outliers   = 1000                          // one match in that many may be wrong
)

// Method says what is known about a clock.
type Method uint8

// The methods.
const (
	None         Method = iota // no packet is in both captures
	OneDirection               // packets in both went in one direction only: the fastest is taken to need no time
	Same                       // the clocks agree within the error
	Both                       // packets went in both directions
)

// estimate is the difference of the clocks of two captures.
type estimate struct {
	method      Method
	curve       curve // empty if the clocks need no correction
	err         int64
	matches     int
	first, last int64 // times of matches, by the second clock
}

// estimateOf compares the clocks of two captures.
func estimateOf(list []match) (e estimate) {
	e.matches = len(list)
	if len(list) == 0 {
		return e
	}
	e.first, e.last = list[0].at, list[len(list)-1].at
	from := list[0].from
	if !slices.ContainsFunc(list, func(m match) bool { return m.from != from }) {
		e.oneWay(list)
		return e
	}
	knots := best(list)
	if len(knots) == 0 { // measurements that contradict each other
		return estimate{matches: len(list)}
	}
	e.method, e.err = Both, resolution
	for _, k := range knots {
		e.err = max(e.err, k.err)
	}
	if agree(knots, list) {
		e.method = Same
		return e
	}
	e.curve.knots = knots
	begin, end := knots[0], knots[len(knots)-1]
	if d := end.off - begin.off; max(d, -d) > begin.err+end.err && end.at > begin.at {
		e.curve.slope = steepness(begin, end)
	}
	e.repair(list)
	return e
}

// oneWay takes the smallest delays for none.
func (e *estimate) oneWay(list []match) {
	e.method = OneDirection
	points, toFirst := make([]knot, len(list)), list[0].from == second
	for i, m := range list {
		points[i] = knot{at: m.at, off: m.diff - apart}
		if toFirst {
			points[i].off = -(m.diff + apart)
		}
	}
	e.curve = below(points)
	if e.curve.trim(); toFirst {
		e.curve.negate()
	}
}

// agree reports whether the clocks do not differ, as far as the matches show.
func agree(knots []knot, list []match) bool {
	if slices.ContainsFunc(knots, func(k knot) bool { return max(k.off, -k.off) > k.err+resolution }) {
		return false
	}
	wrong := 0
	for i := range list {
		if list[i].excess(0) > resolution {
			wrong++
		}
	}
	return wrong <= len(list)/outliers
}

// bound is a limit of the difference of two clocks, from the smallest recent delay in one direction.
type bound struct {
	known   bool
	off, at int64
}

// after returns the allowance for the drift since the bound was measured.
func (b *bound) after(at int64) int64 { return (at - b.at) / driftLimit }

// best returns the most exact measurement of each window, except poor ones. A measurement takes the smallest
// delay in each direction. Delays grow with their age by the limit of the drift.
func best(list []match) (knots []knot) {
	var upper, lower bound
	width := min(max((list[len(list)-1].at-list[0].at)/windows, narrowest), window)
	begin, have, top := list[0].at, false, knot{}
	for i := range list {
		m := &list[i]
		if m.from == first && (!upper.known || m.diff < upper.off+upper.after(m.at)) {
			upper = bound{true, m.diff, m.at}
		} else if m.from == second && (!lower.known || m.diff > lower.off-lower.after(m.at)) {
			lower = bound{true, m.diff, m.at}
		}
		if !upper.known || !lower.known {
			continue
		}
		most, least := upper.off+upper.after(m.at), lower.off-lower.after(m.at)
		if least > most+resolution { // a clock was set, or packets were matched wrongly
			upper.known, lower.known = upper.at > lower.at, lower.at >= upper.at
			continue
		}
		if have && m.at-begin >= width {
			knots, have = append(knots, top), false
			begin += (m.at - begin) / width * width
		}
		if k := (knot{at: m.at, off: least + (most-least)/2, err: max((most-least)/2, 0)}); !have || k.err < top.err {
			have, top = true, k
		}
	}
	if have {
		knots = append(knots, top)
	}
	return withoutPoor(knots)
}

// withoutPoor removes the measurements whose error is much greater than that of the best.
func withoutPoor(knots []knot) []knot {
	least := int64(math.MaxInt64)
	for _, k := range knots {
		least = min(least, k.err)
	}
	knots = slices.DeleteFunc(knots, func(k knot) bool { return k.err/poor > least+resolution/poor })
	return slices.CompactFunc(knots, func(a, b knot) bool { return a.at == b.at })
}

// repair bends the curve until no packet arrives before it was sent, except for packets that were matched
// wrongly.
func (e *estimate) repair(list []match) {
	for range rounds {
		var more []knot
		segment, worst := -1, int64(0)
		for i, k := 0, 0; i < len(list); i++ {
			m := &list[i]
			for k < len(e.curve.knots) && e.curve.knots[k].at <= m.at {
				k++
			}
			over := m.excess(e.curve.off(m.at)) + apart
			if over <= 0 || over > 2*e.err+resolution {
				continue
			}
			bend := knot{at: m.at, off: m.diff - apart, err: e.err}
			if m.from == second {
				bend.off = m.diff + apart
			}
			switch {
			case k != segment:
				segment, worst, more = k, over, append(more, bend)
			case over > worst:
				worst, more[len(more)-1] = over, bend
			}
		}
		if len(more) == 0 {
			return
		}
		e.curve.put(more)
	}
}
