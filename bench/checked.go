package main

import "fmt"

// The cost of softhca run --check: each measurement compares a program of Debian's perftest with itself without
// the option.

// timesSlower is the target of a rate: the program without the check is at most n times as fast.
func timesSlower(n float64) target {
	return target{fmt.Sprintf("at most %g times slower", n), func(r *result) bool { return n*r.Ratio.Median >= 1 }}
}

// checked returns a measurement of a program under the check.
func checked(name, unit string, s subject, wire string, t target) measurement {
	s.flags = []string{"--wire", wire}
	own, reference := s, s.as("without the check")
	own.flags = append([]string{"--check"}, s.flags...)
	return measurement{name: name, unit: unit, own: own, reference: reference, target: t}
}

// checkedMeasurements returns the measurements of the check, in the order of the table.
func checkedMeasurements() (list []measurement) {
	for _, w := range []struct {
		wire, name string
		large      target
	}{{"udp", "UDP", timesSlower(2)}, {"auto", "shared memory", timesSlower(2.5)}} {
		add := func(name, unit string, s subject, t target) {
			list = append(list, checked(fmt.Sprintf("check, %s, %s", w.name, name), unit, s, w.wire, t))
		}
		const small, spinning, asleep, huge = 500_000, 60_000, 20_000, 4_000
		add("ib_send_bw 64 B", "M/s", sendBW(small, rateColumn, 64), timesSlower(3))
		add("ib_send_bw 64 B, each signalled", "M/s", sendBW(small, rateColumn, 64, "-Q", "1"), timesSlower(3))
		add("ib_write_bw 64 B", "M/s", writeBW(small, rateColumn, 64), timesSlower(3))
		add("ib_write_bw 64 B, 16 a post", "M/s", writeBW(small, rateColumn, 64, "-l", "16"), timesSlower(3))
		add("ib_read_bw 64 B", "M/s", readBW(small, rateColumn, 64), timesSlower(3))
		add("ib_send_lat 64 B", microseconds, sendLat(spinning, 64), atMost(3))
		add("ib_send_lat -e 64 B", microseconds, sendLat(asleep, 64, "-e"), atMost(3))
		add("ib_write_lat 64 B", microseconds, writeLat(asleep, 64), atMost(3))
		add("ib_send_bw 1 MiB", "Gb/s", sendBW(huge, bandwidthColumn, 1<<20), w.large)
		add("ib_write_bw 1 MiB", "Gb/s", writeBW(huge, bandwidthColumn, 1<<20), w.large)
		add("ib_read_bw 1 MiB", "Gb/s", readBW(huge, bandwidthColumn, 1<<20), w.large)
	}
	return list
}
