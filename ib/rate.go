package ib

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rate is the code of a static rate (InterPacketDelay on the wire): the most
// that the packets of an address vector may fill of the link, as enum ibv_rate.
// The zero value is RateMax.
type Rate uint8

// RateMax is no limit but the port's own rate.
const RateMax Rate = 0

// linkRate is a rate that links have.
type linkRate struct {
	code Rate
	mbps uint32
	name string // in Gb/s
}

// rates holds them in ascending order.
var rates = [...]linkRate{
	{2, 2_500, "2.5"}, {5, 5_000, "5"}, {3, 10_000, "10"}, {11, 14_062, "14"}, {6, 20_000, "20"}, {15, 25_781, "25"},
	{19, 28_125, "28"}, {4, 30_000, "30"}, {7, 40_000, "40"}, {20, 53_125, "50"}, {12, 56_250, "56"}, {8, 60_000, "60"},
	{9, 80_000, "80"}, {16, 103_125, "100"}, {13, 112_500, "112"}, {10, 120_000, "120"}, {14, 168_750, "168"},
	{17, 206_250, "200"}, {18, 309_375, "300"}, {21, 425_000, "400"}, {22, 637_500, "600"},
}

// Valid reports whether the code is one that adapters know.
func (r Rate) Valid() bool { return r == RateMax || r.Mbps() != 0 }

// Mbps returns the rate in Mb/s (10⁶ bits per second); 0 for RateMax and for a
// code that does not exist.
func (r Rate) Mbps() uint32 {
	for i := range rates {
		if rates[i].code == r {
			return rates[i].mbps
		}
	}
	return 0
}

// String returns the rate in Gb/s, such as "2.5", or "max".
func (r Rate) String() string {
	if r == RateMax {
		return "max"
	}
	for i := range rates {
		if rates[i].code == r {
			return rates[i].name
		}
	}
	return fmt.Sprintf("Rate(%d)", uint8(r))
}

// ParseRate returns the code of a rate in Gb/s: "max", or one of those that
// exist, such as "2.5".
func ParseRate(s string) (Rate, error) {
	if s == RateMax.String() {
		return RateMax, nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		name := strconv.FormatFloat(v, 'f', -1, 64)
		if i := slices.IndexFunc(rates[:], func(r linkRate) bool { return r.name == name }); i >= 0 {
			return rates[i].code, nil
		}
	}
	names := make([]string, len(rates))
	for i := range rates {
		names[i] = rates[i].name
	}
	return 0, fmt.Errorf("no static rate of %q Gb/s; the rates are max, %s", s, strings.Join(names, ", "))
}
