package clocks

import (
	"cmp"
	"time"
)

// maxCaptures is the maximum number of captures whose clocks are compared, each with each.
const maxCaptures = 32

// Clock is what is known about the clock of a capture.
type Clock struct {
	Reference int           // index of the capture with the clock that it is compared with; its own without any
	Method    Method        // how; the worst if other captures are between the two
	Offset    time.Duration // this clock minus that of the reference, at the first packet that is in another capture
	Last      time.Duration // the same at the last such packet
	Error     time.Duration // how much Offset may be wrong; 0 if Method is OneDirection, which does not show it
	Span      time.Duration // between these two packets
	Packets   int           // that are in another capture, and were compared
	chain     []curve
}

// Correct returns the time by the clock of the reference.
func (c *Clock) Correct(at time.Time) time.Time {
	for i := range c.chain {
		at = at.Add(-time.Duration(c.chain[i].off(at.UnixNano())))
	}
	return at
}

// link is the estimate for a capture that is compared with one whose clock is known.
type link struct {
	estimate
	to int
}

// better reports whether a link is more exact than another one.
func (l *link) better(other *link) bool {
	one, two := l.method >= Same, other.method >= Same
	switch {
	case one != two:
		return one
	case l.method == None || other.method == None:
		return l.method > other.method
	default:
		return cmp.Or(cmp.Compare(l.err, other.err), -cmp.Compare(l.matches, other.matches)) < 0
	}
}

// Compare compares the clocks of captures. The reference of each is the first capture with which it has
// packets in common, or which other captures connect with it.
func Compare(captures []*Samples) []Clock {
	all := make([]Clock, len(captures))
	for i := range all {
		all[i].Reference = i
	}
	n := min(len(captures), maxCaptures)
	links, known := make([]link, n), make([]bool, n)
	for range n {
		next := -1
		for i := range n {
			if !known[i] && (next < 0 || links[i].better(&links[next])) {
				next = i
			}
		}
		known[next] = true
		if l := &links[next]; l.method != None {
			all[next] = l.clock(&all[l.to])
		}
		for i := range n {
			if !known[i] {
				l := link{estimateOf(matches(captures[next], captures[i])), next}
				if l.better(&links[i]) {
					links[i] = l
				}
			}
		}
	}
	return all
}

// clock returns the clock of a capture that is compared with one whose clock is to.
func (l *link) clock(to *Clock) Clock {
	c := Clock{Reference: to.Reference, Method: l.method, Packets: l.matches, Span: time.Duration(l.last - l.first)}
	if len(l.curve.knots) > 0 {
		c.chain = append(c.chain, l.curve)
	}
	c.chain = append(c.chain, to.chain...)
	if reference := to.Method == None; !reference && (to.Method == OneDirection || c.Method == Same) {
		c.Method = to.Method
	}
	if c.Method != OneDirection {
		c.Error = time.Duration(l.err) + to.Error
	}
	c.Offset, c.Last = c.ahead(l.first), c.ahead(l.last)
	return c
}

// ahead returns how much the clock is ahead at a time that it shows.
func (c *Clock) ahead(at int64) time.Duration {
	t := time.Unix(0, at)
	return t.Sub(c.Correct(t))
}
