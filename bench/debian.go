package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Programs of Debian's packages, with or without our libraries for C programs.

// Settings that both sides of a comparison share, where their defaults differ.
const (
	sameMTU   = "4096"
	sameDepth = "128"
)

// over returns a subject: a program on our libraries, rate iterations per second.
func over(rate int, reads func(string) (float64, error), args ...string) subject {
	return subject{run: runOver, args: args, reads: reads, rate: rate}
}

// ibvPingpong is ibv_rc_pingpong; its references are softhca perf --latency and UDP with
// segments as long.
func ibvPingpong(rate, size int, args ...string) subject {
	return over(rate, tripTime, append([]string{"ibv_rc_pingpong", "-g", "0", "-s", strconv.Itoa(size), "-m", sameMTU}, args...)...)
}

func goReference(size int, args ...string) subject {
	return pingpong(append([]string{"--size", strconv.Itoa(size), "--mtu", sameMTU}, args...)...).as("softhca perf")
}

func udpReference(rate, size int, args ...string) subject {
	s := baseline(meanTrip, append([]string{"-pingpong", "-payload", strconv.Itoa(size), "-overhead", "16"}, args...)...)
	s.rate = rate
	return s
}

// perftest is a program of perftest; column is the column of the figure in its
// table.
func perftest(rate int, column, program string, args ...string) subject {
	return over(rate, func(out string) (float64, error) { return columnOf(out, column) },
		append([]string{program, "-F", "-x", "0", "-m", sameMTU}, args...)...)
}

// The columns with the figures.
const (
	bandwidthColumn = "BW average[Gb/sec]"
	rateColumn      = "MsgRate[Mpps]"
	halfTripColumn  = "t_avg[usec]"
	typicalColumn   = "t_typical[usec]"
)

// writeBW is ib_write_bw, which posts one request at a time. sendBW and readBW are its siblings.
func writeBW(rate int, column string, size int, args ...string) subject {
	return stream(rate, column, "ib_write_bw", size, append([]string{"-t", sameDepth}, args...)...)
}

func sendBW(rate int, column string, size int, args ...string) subject {
	return stream(rate, column, "ib_send_bw", size, append([]string{"-t", sameDepth}, args...)...)
}

func readBW(rate int, column string, size int, args ...string) subject {
	return stream(rate, column, "ib_read_bw", size, args...)
}

func stream(rate int, column, program string, size int, args ...string) subject {
	return perftest(rate, column, program, append([]string{"-s", strconv.Itoa(size), "--report_gbits", "-N"}, args...)...)
}

// perfReference is its reference: softhca perf write with as many requests per post
// and the same queue depth.
func perfReference(of func(*outcome) float64, size int) subject {
	return perf(of, "write", "--size", strconv.Itoa(size), "--mtu", sameMTU, "--depth", sameDepth, "--post-list", "1").as("softhca perf")
}

func sendLat(rate, size int, args ...string) subject {
	return perftest(rate, halfTripColumn, "ib_send_lat", append([]string{"-s", strconv.Itoa(size)}, args...)...)
}

// writeLat is ib_write_lat: both programs spin on their memory until the peer's WRITE is there.
// The figure is the median. Its reference is softhca perf write --latency, which polls.
func writeLat(rate, size int) subject {
	return perftest(rate, typicalColumn, "ib_write_lat", "-s", strconv.Itoa(size))
}

func perfHalfTrip(r *outcome) float64 { return r.Latency.P50 }

// putLat is UCX's put test over our libraries: it spins on its memory, too.
func putLat(rate, size int) subject {
	return over(rate, ucxHalfTrip, "env", "UCX_TLS=rc_v,self", "UCX_NET_DEVICES=softhca0:1",
		"ucx_perftest", "-t", "ucp_put_lat", "-f", "-s", strconv.Itoa(size))
}

// connects is Debian's cmtime, and connectReference ours: all connections of a round go
// through each step together, and the figure is the time of the connect step.
func connects(rate int) subject {
	s := over(rate, connectTime, "cmtime")
	s.serves = true
	return s
}

func connectReference(rate int) subject {
	return subject{name: "softhca perf cm", run: runConnect, reads: ownConnectTime, rate: rate, serves: true}
}

// overTCP is UCX's own test program over TCP, and fabric libfabric's over its UDP
// provider.
func overTCP(rate, size int, args ...string) subject {
	all := []string{"env", "UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "ucx_perftest", "-t", "tag_lat", "-f", "-s", strconv.Itoa(size)}
	return subject{name: "UCX over TCP", run: runPlain, args: append(all, args...), reads: ucxHalfTrip, rate: rate}
}

func fabric(name, endpoint string, rate, size int) subject {
	return subject{
		name: name, run: runFabric, rate: rate, reads: fabricHalfTrip,
		args: []string{"fi_pingpong", "-p", "udp", "-e", endpoint, "-S", strconv.Itoa(size)},
	}
}

// within20 is the target of programs that spin on their memory, whatever the reference.
var within20 = target{"<= 20 µs", func(r *result) bool { return r.Softhca.Median <= 20 }}

// programMeasurements returns the measurements of programs on our libraries, in the
// order of the table.
func programMeasurements() []measurement {
	var list []measurement
	add := func(name, unit string, own, reference subject, t target) {
		list = append(list, measurement{name: name + ", against " + reference.name, unit: unit, own: own, reference: reference, target: t})
	}
	const spinning, asleep, connections = 60_000, 20_000, 500
	for _, size := range []int{64, 4096} {
		name, own := fmt.Sprintf("ibv_rc_pingpong %s", sizeName(size)), ibvPingpong(spinning, size)
		add(name, microseconds, own, goReference(size), atMost(1.15))
		add(name, microseconds, own, udpReference(spinning, size), only(size == 64, atMost(2.2)))
	}
	name, own := "ibv_rc_pingpong -e 64 B", ibvPingpong(asleep, 64, "-e")
	add(name, microseconds, own, goReference(64, "--events"), target{})
	add(name, microseconds, own, udpReference(asleep, 64, "-sleep"), atMost(2))
	for _, w := range []struct{ size, rate int }{{64 << 10, 60_000}, {256 << 10, 15_000}, {1 << 20, 4_000}} {
		add("ib_write_bw "+sizeName(w.size), "Gb/s", writeBW(w.rate, bandwidthColumn, w.size), perfReference(gbps, w.size), atLeast(0.85))
	}
	add("ib_write_bw 64 B", "M/s", writeBW(1_000_000, rateColumn, 64), perfReference(mpps, 64), atLeast(0.6))
	add("ib_write_bw 64 B, each signalled", "M/s", writeBW(1_000_000, rateColumn, 64, "-Q", "1"), perfReference(mpps, 64), atLeast(0.6))
	for _, size := range []int{64, 4096} {
		name, own := "ib_send_lat "+sizeName(size), sendLat(spinning, size)
		add(name, microseconds, own, overTCP(spinning, size), target{})
		add(name, microseconds, own, fabric("libfabric udp;ofi_rxd", "rdm", spinning, size), atMost(1))
	}
	add("ib_send_lat -c UD 64 B", microseconds, sendLat(spinning, 64, "-c", "UD"), fabric("libfabric udp", "dgram", spinning, 64), target{})
	for _, size := range []int{64, 4096} {
		add("ib_send_lat -e "+sizeName(size), microseconds, sendLat(asleep, size, "-e"), overTCP(asleep, size, "-E", "sleep", "-I"), target{})
	}
	spins := perf(perfHalfTrip, "write", "--latency", "--size", "8").as("softhca perf")
	add("ib_write_lat 8 B", microseconds, writeLat(asleep, 8), spins, within20)
	add("UCX put 8 B", microseconds, putLat(asleep, 8), spins, within20)
	add("cmtime, a connection", microseconds, connects(connections), connectReference(connections), target{})
	return list
}

// only returns the target if is is set, else none.
func only(is bool, t target) target {
	if is {
		return t
	}
	return target{}
}

// sizeName returns a size with a unit, such as 64 KiB.
func sizeName(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	default:
		return fmt.Sprintf("%d B", bytes)
	}
}

// program returns the program of others that a subject runs, and Debian's package that
// has it; "" if there is none.
func (s *subject) program() (name, pkg string) {
	switch s.run {
	case runPlain:
		return "ucx_perftest", "ucx-utils"
	case runFabric:
		return s.args[0], "libfabric-bin"
	case runOver:
		if strings.HasPrefix(s.args[0], "ibv_") {
			return s.args[0], "ibverbs-utils"
		}
		if slices.Contains(s.args, "ucx_perftest") {
			return "ucx_perftest", "ucx-utils"
		}
		if s.serves {
			return s.args[0], "rdmacm-utils"
		}
		return s.args[0], "perftest"
	default:
		return "", ""
	}
}

// programMissing returns why the program of a subject cannot be run here, empty if it
// can.
func (s *subject) programMissing() string {
	name, pkg := s.program()
	if name == "" {
		return ""
	}
	if runtime.GOOS != "linux" {
		return "needs Linux, and Debian's " + pkg
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Sprintf("needs the program %s: apt install %s", name, pkg)
	}
	return ""
}

// columnOf returns the value in a column of the table that perftest prints. Names of
// columns may have a blank, values have none.
func columnOf(out, column string) (float64, error) {
	lines := strings.Split(out, "\n")
	joined := func(s string) string { return strings.ReplaceAll(s, "BW ", "BW_") }
	for i, l := range lines[:len(lines)-1] {
		if !strings.HasPrefix(strings.TrimSpace(l), "#bytes") {
			continue
		}
		at := slices.Index(strings.Fields(joined(l)), joined(column))
		values := strings.Fields(lines[i+1])
		if at >= 0 && at < len(values) {
			return strconv.ParseFloat(values[at], 64)
		}
	}
	return 0, fmt.Errorf("perftest prints no %s: %q", column, lastLines(out))
}

// ucxHalfTrip returns the average of half a round trip in the last line that
// ucx_perftest prints: iterations, median, average, overall and more.
func ucxHalfTrip(out string) (float64, error) {
	const average = 2
	for _, l := range slices.Backward(strings.Split(out, "\n")) {
		words := strings.Fields(l)
		if len(words) < 8 {
			continue
		}
		if v, err := strconv.ParseFloat(words[average], 64); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("ucx_perftest prints no latency: %q", lastLines(out))
}

// fabricHalfTrip returns the time of a transfer, half a round trip, in the table that
// fi_pingpong prints.
func fabricHalfTrip(out string) (float64, error) {
	lines := strings.Split(out, "\n")
	for i, l := range lines[:len(lines)-1] {
		at := slices.Index(strings.Fields(l), "usec/xfer")
		if values := strings.Fields(lines[i+1]); at >= 0 && at < len(values) {
			return strconv.ParseFloat(values[at], 64)
		}
	}
	return 0, fmt.Errorf("fi_pingpong prints no latency: %q", lastLines(out))
}

// ownConnectTime returns the same as connectTime from the result of softhca perf cm.
func ownConnectTime(out string) (float64, error) {
	var sum struct {
		Steps []struct {
			Name string  `json:"name"`
			Us   float64 `json:"us_per_connection"`
		} `json:"steps"`
	}
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		return 0, err
	}
	for _, s := range sum.Steps {
		if s.Name == "connect" && s.Us > 0 {
			return s.Us, nil
		}
	}
	return 0, fmt.Errorf("perf cm tells of no step that connects: %q", lastLines(out))
}

// connectTime returns the microseconds that a connection took in the step of cmtime that
// connects them: the last column of its table.
func connectTime(out string) (float64, error) {
	const perConnection = 5 // after the name, its colon and three more
	for l := range strings.Lines(out) {
		if words := strings.Fields(l); len(words) > perConnection && words[0] == "connect" && words[1] == ":" {
			return strconv.ParseFloat(words[perConnection], 64)
		}
	}
	return 0, fmt.Errorf("cmtime prints no time of the step that connects: %q", lastLines(out))
}
