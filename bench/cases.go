package main

// yardstick is a measurement of the baseline.
type yardstick struct {
	args []string
	unit string
	of   func(*baselineResult) float64
}

// The segments of the baseline are as long as those of the adapter: BTH and
// ICRC take 16 bytes, the RETH of an RDMA WRITE another 16.
var (
	bandwidth = yardstick{
		args: []string{"-payload", "4096", "-overhead", "16"}, unit: "Gb/s",
		of: func(r *baselineResult) float64 { return r.Gbps },
	}
	packetRate = yardstick{
		args: []string{"-payload", "64", "-overhead", "32"}, unit: "M/s",
		of: func(r *baselineResult) float64 { return r.Mpps },
	}
	roundTrip = yardstick{
		args: []string{"-pingpong", "-payload", "8", "-overhead", "32"}, unit: "µs",
		of: func(r *baselineResult) float64 { return r.P50 },
	}
	sleepingTrip = yardstick{
		args: []string{"-pingpong", "-sleep", "-payload", "64", "-overhead", "16"}, unit: "µs",
		of: func(r *baselineResult) float64 { return r.Mean },
	}
)

// target is what a case must reach.
type target struct {
	text string
	met  func(value, ratio float64) bool
}

// measurement is one thing that is measured beside a yardstick.
type measurement struct {
	name   string
	beside yardstick
	args   []string                  // of softhca perf
	of     func(*perfResult) float64 // nil: softhca pingpong --events is measured
	target target                    // zero: measured for the record
}

func gbps(r *perfResult) float64 { return r.Gbps }

func mpps(r *perfResult) float64 { return r.Mpps }

// wholeTrip undoes the halving that perf reports. Without latencies it is 0.
func wholeTrip(r *perfResult) float64 { return 2 * r.Latency.P50 }

var measurements = []measurement{
	{
		name: "WRITE 1 MiB, PMTU 4096, 1 QP", beside: bandwidth, of: gbps,
		args:   []string{"write", "--size", "1048576", "--mtu", "4096"},
		target: target{"ratio >= 0.6", func(_, ratio float64) bool { return ratio >= 0.6 }},
	},
	{
		name: "READ 1 MiB, PMTU 4096, 1 QP", beside: bandwidth, of: gbps,
		args: []string{"read", "--size", "1048576", "--mtu", "4096"},
	},
	{
		name: "SEND 1 MiB, PMTU 4096, 1 QP", beside: bandwidth, of: gbps,
		args: []string{"send", "--size", "1048576", "--mtu", "4096"},
	},
	{
		name: "WRITE 64 B, 1 QP", beside: packetRate, of: mpps,
		args:   []string{"write", "--size", "64"},
		target: target{"1 M/s or ratio >= 0.15", func(value, ratio float64) bool { return value >= 1 || ratio >= 0.15 }},
	},
	{
		name: "WRITE 64 B, 8 QPs", beside: packetRate, of: mpps,
		args: []string{"write", "--size", "64", "--qps", "8"},
	},
	{
		name: "FETCH&ADD, 1 QP", beside: packetRate, of: mpps,
		args: []string{"fetch-add"},
	},
	{
		name: "WRITE 8 B round trip", beside: roundTrip, of: wholeTrip,
		args:   []string{"write", "--latency", "--size", "8"},
		target: target{"ratio <= 2", func(_, ratio float64) bool { return ratio <= 2 }},
	},
	{
		name: "SEND 64 B round trip, both programs asleep", beside: sleepingTrip,
		target: target{"ratio <= 1.5", func(_, ratio float64) bool { return ratio <= 1.5 }},
	},
}
