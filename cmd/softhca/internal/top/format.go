package top

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
)

// none stands for a value that is not known.
const none = "-"

// scaled returns a number with at most three digits before the point, and a unit prefix.
func scaled(v, step float64, prefixes string) string {
	i := -1
	for v >= 999.5 && i < len(prefixes)-1 {
		v /= step
		i++
	}
	digits := 0
	switch {
	case i < 0 && v == float64(int(v)):
	case v < 9.995:
		digits = 2
	case v < 99.95:
		digits = 1
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if i >= 0 {
		s += prefixes[i : i+1]
	}
	return s
}

// count returns a number of things in at most six characters.
func count(n uint64) string {
	if n < 100000 {
		return strconv.FormatUint(n, 10)
	}
	return scaled(float64(n), 1000, "kMGTPE")
}

// perSecond returns a rate in at most six characters.
func perSecond(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.01:
		return "<0.01"
	case f < 9.995:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return scaled(f, 1000, "kMGTPEZ")
}

// gigabits returns a rate in Gb/s in at most six characters, for rates below 10 Pb/s.
func gigabits(bits float64) string {
	g := bits / 1e9
	switch {
	case g == 0:
		return "0"
	case g < 0.0005:
		return "<0.001"
	case g < 9.9995:
		return strconv.FormatFloat(g, 'f', 3, 64)
	case g < 99.995:
		return strconv.FormatFloat(g, 'f', 2, 64)
	case g < 99999.5:
		return strconv.FormatFloat(g, 'f', 0, 64)
	}
	return scaled(g, 1000, "kMGTPEZ")
}

// size returns a number of bytes in at most six characters.
func size(n uint64) string {
	if n < 10000 {
		return strconv.FormatUint(n, 10)
	}
	return scaled(float64(n), 1024, "KMGTPE")
}

// period returns a time in at most six characters; d is not negative.
func period(d time.Duration) string {
	for _, u := range [...]struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.size {
			v, digits := float64(d)/float64(u.size), 0
			switch {
			case v < 99.95:
				digits = 1
			case v >= 9999.5 && u.size == time.Hour:
				return fmt.Sprintf("%dd", int64(d/(24*time.Hour)))
			}
			return strconv.FormatFloat(v, 'f', digits, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// nanoseconds returns a time that a table has as a number; none for 0.
func nanoseconds(n uint64) string {
	switch {
	case n == 0:
		return none
	case n > 1<<62:
		return "?"
	}
	return period(time.Duration(n))
}

// address returns an IP address; none for no address.
func address(a netip.Addr) string {
	if !a.IsValid() {
		return none
	}
	return a.String()
}

// endpoint returns an IP address with a port, or without for port 0.
func endpoint(a netip.AddrPort) string {
	switch {
	case !a.Addr().IsValid() && a.Port() == 0:
		return none
	case !a.Addr().IsValid():
		return "*:" + strconv.Itoa(int(a.Port()))
	case a.Port() == 0:
		return a.Addr().String()
	}
	return a.String()
}

// number returns the number of another object; none for 0.
func number(n uint32) string {
	if n == 0 {
		return none
	}
	return strconv.FormatUint(uint64(n), 10)
}

// queuePair returns the number of a queue pair; none for 0.
func queuePair(n ib.QPN) string {
	if n == 0 {
		return none
	}
	return n.String()
}

// cmState returns the name of a state of the connection manager, or its number if it has none.
func cmState(s cm.State) string {
	if s > cm.Unknown {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return s.String()
}
