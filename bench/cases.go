package main

import (
	"fmt"
	"slices"
)

// subject is one side of a comparison: a program, its arguments, and the
// function that reads its figure from the output.
type subject struct {
	name string // for the table, if it is the reference
	run  runner
	args []string
	of   func(*outcome) float64

	// For a server and a client that print text: the function that reads the figure,
	// and the number of round trips per second of measuring time.
	reads func(printed string) (float64, error)
	rate  int
	// The server runs until it is killed, and does not listen on a TCP port.
	serves bool
	wire   string   // of runEpoll
	flags  []string // of softhca run, for runOver

	env  []string // added to the environment
	read bool     // the tables of objects are read meanwhile
}

// runner says how to run a subject.
type runner uint8

const (
	runConstant runner = iota // runs nothing: the value is 1
	runBaseline               // bench/baseline, both sides on loopback
	runPerf                   // softhca perf, both sides on loopback
	runShared                 // the same on addresses that processes share
	runUser                   // the same as an unprivileged user, with small socket buffers
	runOver                   // a program over our libraries, both sides on loopback
	runPlain                  // ucx_perftest over TCP, both sides on loopback
	runFabric                 // fi_pingpong, both sides on loopback
	runConnect                // softhca perf cm, both sides on loopback
	runEpoll                  // bench/epoll over our libraries, both sides on loopback
	runEpollTCP               // bench/epoll over TCP, both sides on loopback
	runPathPerf               // softhca perf over a network that loses packets
	runPathTCP                // bench/baseline -tcp over the same
)

// The segments of the baseline are as long as those of the adapter: BTH and
// ICRC take 16 bytes, the RETH of an RDMA WRITE another 16.
var (
	bandwidth    = baseline(gbps, "-payload", "4096", "-overhead", "16")
	packetRate   = baseline(mpps, "-payload", "64", "-overhead", "32")
	roundTrip    = baseline(medianTrip, "-pingpong", "-payload", "8", "-overhead", "32")
	sleepingTrip = baseline(meanTrip, "-pingpong", "-sleep", "-payload", "64", "-overhead", "16")
	equalShares  = subject{name: "equal shares"}
)

// target is the figure that a case must reach.
type target struct {
	text string
	met  func(*result) bool
}

// atLeast and atMost are targets for the ratio to the reference.
func atLeast(ratio float64) target {
	return target{fmt.Sprintf("ratio >= %g", ratio), func(r *result) bool { return r.Ratio.Median >= ratio }}
}

func atMost(ratio float64) target {
	return target{fmt.Sprintf("ratio <= %g", ratio), func(r *result) bool { return r.Ratio.Median <= ratio }}
}

// or is met by at least this value, whatever the ratio, or by t.
func (t target) or(value float64, unit string) target {
	return target{fmt.Sprintf("%g %s or %s", value, unit, t.text), func(r *result) bool { return r.Softhca.Median >= value || t.met(r) }}
}

// measurement compares a subject with a reference.
type measurement struct {
	name      string
	unit      string
	own       subject
	reference subject
	target    target // zero: measured for the record
	few       bool   // a third of the rounds: the differences are large, or the runs long
	loss      loss
	group     string // of -tables
}

// microseconds is the unit of times: less is better.
const microseconds = "µs"

// loss is the place of a measurement in the plot of throughput against loss.
type loss struct {
	line  string  // empty: not in the plot
	other string  // the line of the reference; empty: the reference is line without loss
	share float64 // of packets lost each way
}

func gbps(r *outcome) float64 { return r.Gbps }

func mpps(r *outcome) float64 { return r.Mpps }

func medianTrip(r *outcome) float64 { return r.P50 }

func meanTrip(r *outcome) float64 { return r.Mean }

// wholeTrip doubles perf's latency, which is half a round trip. Without
// latencies it is 0.
func wholeTrip(r *outcome) float64 { return 2 * r.Latency.P50 }

// meanWholeTrip is the mean of the same.
func meanWholeTrip(r *outcome) float64 { return 2 * r.Latency.Mean }

// evenness is the smallest share of a queue pair divided by the largest.
func evenness(r *outcome) float64 { return float64(r.Least) / float64(r.Most) }

// perf returns a subject: softhca perf with arguments.
func perf(of func(*outcome) float64, args ...string) subject {
	return subject{run: runPerf, args: args, of: of}
}

// baseline returns a subject: UDP without RDMA.
func baseline(of func(*outcome) float64, args ...string) subject {
	return subject{name: "UDP", run: runBaseline, args: args, of: of}
}

// pingpong returns a subject: softhca perf send --latency with arguments.
func pingpong(args ...string) subject {
	return perf(meanWholeTrip, append([]string{"send", "--latency"}, args...)...)
}

// as returns the subject with a name, as a reference.
func (s subject) as(name string) subject {
	s.name = name
	return s
}

// by returns the subject run in another way.
func (s subject) by(r runner) subject {
	s.run = r
	return s
}

// with returns the subject with more arguments.
func (s subject) with(args ...string) subject {
	s.args = append(append([]string(nil), s.args...), args...)
	return s
}

// bulk returns a stream of large messages of an operation.
func bulk(op string) subject { return perf(gbps, op, "--size", "1048576", "--mtu", "4096") }

// measurements returns all measurements, in the order of the table.
func measurements() []measurement {
	list := []measurement{
		{name: "WRITE 1 MiB, PMTU 4096, 1 QP", unit: "Gb/s", own: bulk("write"), reference: bandwidth, target: atLeast(0.6)},
		{name: "READ 1 MiB, PMTU 4096, 1 QP", unit: "Gb/s", own: bulk("read"), reference: bandwidth},
		{name: "SEND 1 MiB, PMTU 4096, 1 QP", unit: "Gb/s", own: bulk("send"), reference: bandwidth},
		{
			name: "WRITE 64 B, 1 QP", unit: "M/s", own: perf(mpps, "write", "--size", "64"), reference: packetRate,
			target: atLeast(0.15).or(1, "M/s"),
		},
		{name: "WRITE 64 B, 8 QPs", unit: "M/s", own: perf(mpps, "write", "--size", "64", "--qps", "8"), reference: packetRate},
		{
			name: "WRITE 64 B, one a post", unit: "M/s", own: perf(mpps, "write", "--size", "64", "--post-list", "1"),
			reference: perf(mpps, "write", "--size", "64").as("lists"), target: atLeast(0.5).or(1.5, "M/s"),
		},
		{name: "READ 64 B, 1 QP", unit: "M/s", own: perf(mpps, "read", "--size", "64"), reference: packetRate},
		{name: "FETCH&ADD, 1 QP", unit: "M/s", own: perf(mpps, "fetch-add"), reference: packetRate},
		{
			name: "WRITE 8 B round trip", unit: microseconds, own: perf(wholeTrip, "write", "--latency", "--size", "8"),
			reference: roundTrip, target: atMost(2),
		},
		{
			name: "SEND 64 B round trip, both programs asleep", unit: microseconds, own: pingpong("--events", "--size", "64"),
			reference: sleepingTrip, target: atMost(1.5),
		},
		{
			name: "WRITE 64 KiB, 2 QPs, fairness", unit: "", own: perf(evenness, "write", "--qps", "2"), reference: equalShares,
			target: atLeast(0.8), few: true,
		},
		{
			name: "WRITE 4 KiB, 1000 QPs, receive buffer 208 KiB", unit: "Gb/s", few: true,
			own:       perf(gbps, "write", "--size", "4096", "--mtu", "4096", "--qps", "1000", "--depth", "1").by(runUser),
			reference: perf(gbps, "write", "--size", "4096", "--mtu", "4096").by(runUser).as("1 QP"),
			target:    target{"no timeout", func(r *result) bool { return r.Timeouts == 0 }},
		},
	}
	return slices.Concat(list, shared(), paced(), faulty(), overPaths())
}

// shared compares streams and round trips of processes that share their addresses
// with those of processes with their own.
func shared() []measurement {
	trip := perf(wholeTrip, "write", "--latency", "--size", "8")
	small := perf(mpps, "write", "--size", "64")
	return []measurement{
		{
			name: "WRITE 1 MiB, addresses shared", unit: "Gb/s", own: bulk("write").by(runShared),
			reference: bulk("write").as("alone"), target: atLeast(0.95),
		},
		{name: "WRITE 64 B, addresses shared", unit: "M/s", own: small.by(runShared), reference: small.as("alone"), target: atLeast(0.95)},
		{
			name: "WRITE 8 B round trip, addresses shared", unit: microseconds, own: trip.by(runShared),
			reference: trip.as("alone"), target: atMost(1.05),
		},
	}
}

// faulty compares streams with faults at the client's port with the same
// streams without.
func faulty() []measurement {
	var list []measurement
	for _, op := range []struct{ arg, name string }{{"write", "WRITE"}, {"send", "SEND"}, {"read", "READ"}} {
		clean := bulk(op.arg)
		for _, share := range []float64{0.001, 0.01, 0.05} {
			m := measurement{
				name: fmt.Sprintf("%s 1 MiB, %g %% lost each way", op.name, 100*share), unit: "Gb/s", few: true,
				own:       clean.with("--fault", fmt.Sprintf("drop p=%g dir=both", share)),
				reference: clean.as("no loss"), loss: loss{line: op.name, share: share},
			}
			switch share {
			case 0.001:
				m.target = atLeast(0.85)
			case 0.01:
				m.target = atLeast(0.5)
			}
			list = append(list, m)
		}
		list = append(list, measurement{
			name: op.name + " 1 MiB, 1 % reordered each way", unit: "Gb/s", few: true,
			own: clean.with("--fault", "reorder p=0.01 dir=both"), reference: clean.as("in order"),
		})
	}
	return list
}

// overPaths compares streams over a kernel network that drops packets with TCP
// over the same network.
func overPaths() []measurement {
	var list []measurement
	for _, share := range []float64{0, 0.001, 0.01, 0.05} {
		m := measurement{
			name: fmt.Sprintf("WRITE 1 MiB, veth, %g %% lost each way", 100*share), unit: "Gb/s", few: true,
			own: bulk("write").by(runPathPerf), reference: subject{name: "TCP", run: runPathTCP, of: gbps},
			loss: loss{line: "WRITE over veth", other: "TCP over veth", share: share},
		}
		if share > 0 {
			m.target = atLeast(0.9)
		}
		list = append(list, m)
	}
	return list
}
