package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Outputs of the programs, without unused parts.
const (
	perftestBW = `
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      20000            0.00               29.82  		   0.056869
---------------------------------------------------------------------------------------
`
	perftestLat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      20000          5.16           66.40        5.92     	       6.94        	2.89   		20.39   		29.41
`
	ucxLat = `+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                       20000      4.749     4.722     4.733       12.93      12.93      211771      211771
`
	ucxSleepLat = `                       20000     40.813    37.964    34.377        1.61       1.78       26340       29089  flags:0x4001 send length 64
`
	fabricLat = `bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      10k     =10k     1.2m        0.15s      8.30       7.71       0.13
`
	cmtimeTable = `connecting
step              total ms     max ms     min us  us / conn
create qp    :       10.79       0.78       9.00      21.58
connect      :      118.73     112.09    6759.00     237.46
disconnect   :       30.52      20.75    3994.00      61.05
`
)

// TestReads finds what counts in what the programs print, and nothing in what they print
// when they fail.
func TestReads(t *testing.T) {
	column := func(name string) func(string) (float64, error) {
		return func(out string) (float64, error) { return columnOf(out, name) }
	}
	for _, c := range []struct {
		out   string
		reads func(string) (float64, error)
		want  float64
	}{
		{perftestBW, column(bandwidthColumn), 29.82},
		{perftestBW, column(rateColumn), 0.056869},
		{perftestLat, column(halfTripColumn), 6.94},
		{perftestLat, column(typicalColumn), 5.92},
		{ucxLat, ucxHalfTrip, 4.722},
		{ucxSleepLat, ucxHalfTrip, 37.964},
		{fabricLat, fabricHalfTrip, 7.71},
		{cmtimeTable, connectTime, 237.46},
		{`{"steps":[{"name":"create qp","us_per_connection":21.58},{"name":"connect","us_per_connection":237.46}]}`, ownConnectTime, 237.46},
	} {
		if got, err := c.reads(c.out); err != nil || got != c.want {
			t.Errorf("%v, %v of what has %v: %s", got, err, c.want, c.out)
		}
		for _, none := range []string{"", "Couldn't connect to 127.0.0.2:18515", " #bytes #iterations", "usec/xfer"} {
			if got, err := c.reads(none); err == nil {
				t.Errorf("%v is found in %q", got, none)
			}
		}
	}
	if got, err := columnOf(perftestLat, rateColumn); err == nil {
		t.Errorf("%v is in a column that is not there", got)
	}
}

// TestSides checks that each end of a pair has its own address, both use the same port,
// and only the client gets the server's address.
func TestSides(t *testing.T) {
	p := programs{baseline: "/x/baseline", softhca: "/x/softhca", seconds: 1}
	for _, m := range programMeasurements() {
		for _, s := range []subject{m.own, m.reference} {
			if s.reads == nil {
				continue
			}
			server, client := p.side(&s, true, "4711"), p.side(&s, false, "4711")
			for i, args := range [][]string{server, client} {
				if at := slices.Index(args, "4711"); at < 1 || !slices.Contains([]string{"-p", "-P", "-B", "--port"}, args[at-1]) {
					t.Errorf("%s: no port in %q", m.name, args)
				}
				told := slices.Contains(args, strconv.Itoa(s.rate))
				if !told && (i == 1 || s.run != runConnect) { // a server of perf cm serves any number
					t.Errorf("%s: a second is not %d iterations in %q", m.name, s.rate, args)
				}
			}
			if client[len(client)-1] != pairServer || server[len(server)-1] == pairServer {
				t.Errorf("%s: %q and %q", m.name, server, client)
			}
			if addressed := slices.Contains(server, "--addr"); addressed != (s.run == runOver || s.run == runConnect) ||
				addressed && !slices.Contains(client, pairClient) {
				t.Errorf("%s: the adapters are not on addresses of their own: %q and %q", m.name, server, client)
			}
		}
	}
}

// TestSameOnBothSides checks that both sides of a comparison make as many round trips,
// with messages of the same length.
func TestSameOnBothSides(t *testing.T) {
	for _, m := range programMeasurements() {
		if m.reference.rate != 0 && m.own.rate != m.reference.rate {
			t.Errorf("%s: %d round trips and %d", m.name, m.own.rate, m.reference.rate)
		}
		if m.own.serves {
			continue // connections have no messages
		}
		after := func(args []string, flags ...string) string {
			for i, a := range args[:len(args)-1] {
				if slices.Contains(flags, a) {
					return args[i+1]
				}
			}
			return ""
		}
		own, reference := after(m.own.args, "-s"), after(m.reference.args, "-s", "--size", "-payload", "-S")
		if own == "" || own != reference {
			t.Errorf("%s: messages of %q and %q bytes", m.name, own, reference)
		}
	}
}

// TestMissingProgram names what is to be installed.
func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for want, s := range map[string]subject{
		"ibverbs-utils": ibvPingpong(1, 64), "perftest": sendLat(1, 64), "ucx-utils": overTCP(1, 64), "libfabric-bin": fabric("", "rdm", 1, 64),
		"rdmacm-utils": connects(1),
	} {
		if got := s.missing(); !strings.Contains(got, want) {
			t.Errorf("without %s it is said that it %q", want, got)
		}
	}
}

// TestProgramTargets checks each target with figures that meet it and figures that
// miss it.
func TestProgramTargets(t *testing.T) {
	want := map[string][2]float64{
		"ibv_rc_pingpong 64 B, against softhca perf":             {1.15, 1.16},
		"ibv_rc_pingpong 4 KiB, against softhca perf":            {1.15, 1.16},
		"ibv_rc_pingpong 64 B, against UDP":                      {2.2, 2.21},
		"ibv_rc_pingpong -e 64 B, against UDP":                   {2, 2.01},
		"ib_write_bw 64 KiB, against softhca perf":               {0.85, 0.84},
		"ib_write_bw 256 KiB, against softhca perf":              {0.85, 0.84},
		"ib_write_bw 1 MiB, against softhca perf":                {0.85, 0.84},
		"ib_write_bw 64 B, against softhca perf":                 {0.6, 0.59},
		"ib_write_bw 64 B, each signalled, against softhca perf": {0.6, 0.59},
		"ib_send_lat 64 B, against libfabric udp;ofi_rxd":        {1, 1.01},
		"ib_send_lat 4 KiB, against libfabric udp;ofi_rxd":       {1, 1.01},
		"ib_write_lat 8 B, against softhca perf":                 {20, 20.1}, // µs
		"UCX put 8 B, against softhca perf":                      {20, 20.1},
	}
	found := 0
	for _, m := range programMeasurements() {
		w, ok := want[m.name]
		if ok != (m.target.met != nil) {
			t.Errorf("%s: has a target: %v, want %v", m.name, m.target.met != nil, ok)
		}
		if !ok || m.target.met == nil {
			continue
		}
		found++
		of := func(v float64) *result { return &result{Ratio: spread{Median: v}, Softhca: spread{Median: v}} }
		if !m.target.met(of(w[0])) || m.target.met(of(w[1])) {
			t.Errorf("%s: %q is not between %g and %g", m.name, m.target.text, w[0], w[1])
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d targets are there", found, len(want))
	}
}

// TestPage writes what was measured, and what was not, into a table, and the results into
// a file of their own.
func TestPage(t *testing.T) {
	x := result{Name: "A", Unit: "µs", Baseline: spread{20, 19, 21}, Softhca: spread{10, 9, 11}, Ratio: spread{0.5, 0.45, 0.55}}
	x.judge(atMost(0.4))
	r := report{Rounds: 3, Seconds: 1, kind: "programs", Results: []result{
		x, {Name: "B", Skipped: "needs a moon"}, {Name: "C", Failed: "it | fell\nover"},
	}}
	page := r.markdown()
	for _, part := range []string{
		"| A | 20 µs (19-21) | 10 µs (9-11) | 0.5 (0.45-0.55) | ratio <= 0.4 | MISSED |\n",
		"| B | | | not measured: it needs a moon | | |\n", "| C | | | failed: it / fell over | | |\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q:\n%s", part, page)
		}
	}
	names, err := r.write(t.TempDir(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "2026-03-01-0cores-programs.json" {
		t.Errorf("the results are in %s (%v)", names, err)
	}
	if _, err := os.Stat(names[0]); err != nil {
		t.Error(err)
	}
	for _, o := range []options{{path: -1, page: "x"}, {path: -1, page: "x", libraries: true, only: "A"}, {path: -1, libraries: true, epoll: true}} {
		if err := do(t.Context(), o, nil); err == nil {
			t.Errorf("%+v: a page of a part of it, or two tables", o)
		}
	}
}
