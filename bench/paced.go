package main

import (
	"fmt"
	"strings"
)

// service is a stream that a rate limits.
type service struct {
	name string
	args []string
	// headers is the ratio of IP packets to payload, because a rate counts IP
	// packets.
	headers float64
}

// Path MTU 4096: IP, UDP, BTH and ICRC are 44 bytes in a packet. A RETH is in
// the first of 16 or of 256 packets, an AETH in the first and last; a DETH in
// each of UD, and with a RDETH in each of RD.
var services = []service{
	{"RC WRITE 64 KiB", []string{"write"}, 1 + (44+16/16.0)/4096},
	{"RC READ 64 KiB", []string{"read"}, 1 + (44+8/16.0)/4096},
	{"UC WRITE 64 KiB", []string{"write", "--type", "uc"}, 1 + (44+16/16.0)/4096},
	{"UD SEND 4 KiB", []string{"send", "--type", "ud", "--size", "4096"}, 1 + (44+8)/4096.0},
	{"RD WRITE 1 MiB", []string{"write", "--type", "rd", "--size", "1048576"}, 1 + (44+12+16/256.0)/4096},
}

// paced are streams with a static rate or a rate limit: the share of the rate
// that their IP packets use. It may be 2 % below the rate, and above it by one
// burst, 64 KiB in a second, and the clock error of the measurement.
func paced() []measurement {
	share := target{"0.98 <= ratio <= 1.005", func(r *result) bool { return r.Ratio.Median >= 0.98 && r.Ratio.Median <= 1.005 }}
	var list []measurement
	for _, s := range services {
		for _, l := range []struct {
			text, option, value string
			gbps                float64
		}{
			{"rate limit 1 Gb/s", "--rate-limit", "1G", 1},
			{"static rate 2.5 Gb/s", "--static-rate", "2.5", 2.5},
			{"static rate 5 Gb/s", "--static-rate", "5", 5},
			{"static rate 10 Gb/s", "--static-rate", "10", 10},
		} {
			if strings.HasPrefix(s.name, "RD") && l.option == "--rate-limit" {
				continue // an EE context has a static rate, but no limit of its own
			}
			list = append(list, measurement{
				name: fmt.Sprintf("%s, %s", s.name, l.text), unit: "",
				own:       perf(func(r *outcome) float64 { return r.Gbps * s.headers / l.gbps }, s.args...).with(l.option, l.value),
				reference: subject{name: "the rate"}, target: share,
			})
		}
	}
	return list
}
