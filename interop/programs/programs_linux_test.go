package programs

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/interop/frames"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

func TestCommandLines(t *testing.T) {
	cells := matrix.All([]matrix.Dim{matrix.Direction(), matrix.IP()}, nil)
	for _, c := range []struct {
		pr          program
		cell        int
		ours, guest string
	}{
		{rping, 0, "rping -s -a 10.77.0.1 -v -C 5", "exec rping -c -a 10.77.0.1 -v -V -C 5"},
		{rping, 3, "rping -c -a fd00:77::2 -v -V -C 5", "exec rping -s -a fd00:77::2 -v -C 5"},
		{simple, 2, "rdma_client -s 10.77.0.2 -C 5", "exec rdma_server -C 5"},
		{simple, 1, "rdma_server -s fd00:77::1 -C 5", "exec rdma_client -s fd00:77::1 -C 5"},
		{cmtime, 1, "cmtime -b fd00:77::1 -C 5", "exec cmtime -s fd00:77::1 -c 100 -C 5"},
		{cmtime, 2, "cmtime -s 10.77.0.2 -c 100 -C 5", "exec cmtime -b 10.77.0.2 -C 5"},
	} {
		p := c.pr.pair(&lab.Lab{}, cells[c.cell], "-C 5")
		if got := strings.Join(p.ours, " "); got != c.ours || p.guest != c.guest {
			t.Errorf("%v of %s:\n%s\n%s\nwant\n%s\n%s", cells[c.cell], c.pr.name, got, p.guest, c.ours, c.guest)
		}
	}
	p := rcPingpong(&lab.Lab{}, cells[1], 64, 40)
	const line = "ibv_rc_pingpong -s 64 -n 40 -m 1024 -e -c -g "
	if got := strings.Join(p.ours, " "); got != line+"0" || p.guest != "exec "+line+"2 10.77.0.1" {
		t.Errorf("%s\n%s", got, p.guest)
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		e    ending
		r    remote.Result
		good bool
	}{
		{ending{ok: true}, remote.Result{}, true},
		{ending{ok: true}, remote.Result{Exit: 1}, false},
		{ending{}, remote.Result{Exit: 1}, true},
		{ending{}, remote.Result{}, false},
		{ending{any: true, says: rejected8}, remote.Result{Stderr: "x RDMA_CM_EVENT_REJECTED, error 8\n"}, true},
		{ending{any: true, says: rejected8}, remote.Result{Stdout: "RDMA_CM_EVENT_REJECTED, error: 8"}, true},
		{ending{any: true, says: rejected8}, remote.Result{Stdout: "RDMA_CM_EVENT_REJECTED, error 28"}, false},
	} {
		if text := c.e.check("it", c.r); (text == "") != c.good {
			t.Errorf("%+v of %+v: %q", c.e, c.r, text)
		}
	}
}

// TestLeft shows that used-up retries are no failure if the peer has ended without an
// error and then sent nothing more. They are one if it continued or failed itself.
func TestLeft(t *testing.T) {
	at := func(ms int, out bool) frames.Frame { return frames.Frame{Time: time.UnixMilli(int64(ms)), Out: out} }
	gone := []frames.Frame{at(0, true), at(1, false), at(2, true), at(540, true)}
	there := []frames.Frame{at(0, true), at(1, false), at(2, true), at(540, true), at(541, false)}
	ours := remote.Result{Exit: 1, Stderr: "Failed status transport retry counter exceeded (12) for wr_id 1"}
	guest := remote.Result{Exit: 1, Stderr: "Failed status transport retry counter exceeded (12) for wr_id 2"}
	for name, c := range map[string]struct {
		e    ends
		fs   []frames.Frame
		want bool
	}{
		"the guest has ended":        {ends{ours: ours}, gone, true},
		"the guest answers":          {ends{ours: ours}, there, false},
		"the guest has failed":       {ends{ours: ours, guest: remote.Result{Exit: 1}}, gone, false},
		"another error":              {ends{ours: remote.Result{Exit: 1, Stderr: "REM_ACCESS_ERR"}}, gone, false},
		"the guest, which was alone": {ends{guest: guest}, gone, false},
		"we have ended":              {ends{guest: guest}, []frames.Frame{at(0, true), at(1, false), at(500, false)}, true},
	} {
		if got := c.e.left(c.fs); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLastLine(t *testing.T) {
	for want, r := range map[string]remote.Result{
		"":  {},
		"c": {Stdout: "a\nb\nc\n"},
		"e": {Stdout: "a\n", Stderr: "d\ne\n\n"},
	} {
		if got := lastLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if firstLine("a\nb") != "a" || firstLine("") != "" {
		t.Error("the first line is another")
	}
}

// Each family has cases, the short run has some of most, and the tables that
// cases are looked up in know all of their names.
func TestFamiliesAreComplete(t *testing.T) {
	all := suite.Selection{Kernels: []string{"6.1", "6.12"}, All: true}.Cases(Families())
	short := suite.Selection{Kernels: []string{"6.1", "6.12"}, Short: true}.Cases(Families())
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.ID()] {
			t.Errorf("two cases are called %s", c.ID())
		}
		seen[c.ID()] = true
		if c.About == "" || c.Run == nil {
			t.Errorf("%s says nothing or does nothing", c.Name)
		}
		if f := c.Cell.Get("fault"); f != "" && faultRules[f] == nil {
			t.Errorf("%s: no rules", c.ID())
		}
		if v := c.Cell.Get("program"); c.Name == "volume" && volumes[v] == nil {
			t.Errorf("%s: no transfer", c.ID())
		}
		if v := c.Cell.Get("program"); strings.HasPrefix(c.Name, "library-") && natives[v].says == nil && connectings[v].says == nil {
			t.Errorf("%s: no program", c.ID())
		}
	}
	if len(all) < 900 || len(short) < 50 || len(short) > 100 {
		t.Errorf("%d cases in all, %d in a short run", len(all), len(short))
	}
	for key := range defects {
		name, role, _ := strings.Cut(key, "/")
		if !slices.ContainsFunc(all, func(c suite.Case) bool { return c.Cell.Is("lost", name) && c.Cell.Is("dir", role) }) {
			t.Errorf("no case is the known defect %s", key)
		}
	}
}

func TestMulticasts(t *testing.T) {
	to := func(out bool, dst string) frames.Frame { return frames.Frame{Out: out, Dst: netip.MustParseAddr(dst)} }
	all := []frames.Frame{to(false, group), to(true, group), to(false, "10.77.0.1"), to(false, group)}
	if n := multicasts(all); n != 2 {
		t.Errorf("%d messages of the guest to groups, want 2", n)
	}
}

// Command lines of Debian's programs, in both roles.
func TestNativeCommandLines(t *testing.T) {
	cells := map[string]matrix.Cell{}
	for _, f := range library() {
		for _, c := range matrix.All(f.Dims, f.Skip) {
			cells[c.String()] = c
		}
	}
	for name, want := range map[string][2]string{
		"ibv_rc_pingpong/server/ipv6/4096/events": {"ibv_rc_pingpong -n 40 -s 8192 -c -m 4096 -e -g 0", "exec ibv_rc_pingpong -n 40 -s 8192 -c -m 4096 -e -g 2 10.77.0.1"},
		"ibv_ud_pingpong/client/ipv4/1024/poll":   {"ibv_ud_pingpong -n 40 -s 1024 -c -g 0 10.77.0.2", "exec ibv_ud_pingpong -n 40 -s 1024 -c -g 1"},
		"ib_read_bw/client/ipv6/1024/poll":        {"ib_read_bw -F -n 100 -s 65536 -m 1024 -x 0 10.77.0.2", "exec ib_read_bw -F -n 100 -s 65536 -m 1024 -x 2"},
	} {
		c, ok := cells[name]
		n := natives[c.Get("program")]
		p := n.pair(&lab.Lab{}, c)
		if got := strings.Join(p.ours, " "); !ok || got != want[0] || p.guest != want[1] || p.own != p.Own(c) {
			t.Errorf("%s, which is a case: %v: on %v\n%s\n%s\nwant\n%s\n%s", name, ok, p.own, got, p.guest, want[0], want[1])
		}
	}
	for _, name := range []string{"ib_write_bw/client/ipv4/1024/events", "ibv_ud_pingpong/client/ipv4/4096/poll"} {
		if _, ok := cells[name]; ok {
			t.Errorf("%s is a case, and the program has no such option", name)
		}
	}
}

// What Debian's programs that connect, in both roles.
func TestConnectingCommandLines(t *testing.T) {
	f := libraryCM()[0]
	for name, want := range map[string][2]string{
		"rping/server/ipv4": {
			"rping -s -a 10.77.0.1 -v -C 10 -S 3000",
			"exec rping -c -a 10.77.0.1 -v -V -C 10 -S 3000",
		},
		"rdma_client/client/ipv6": {"rdma_client -s fd00:77::2", "exec rdma_server -s fd00:77::2"},
		"rdma_client/client/ipv4": {"rdma_client -s 10.77.0.2", "exec rdma_server"},
	} {
		found := false
		for _, c := range matrix.All(f.Dims, f.Skip) {
			if c.String() != name {
				continue
			}
			found = true
			pr := connectings[c.Get("program")]
			p := pr.pair(&lab.Lab{}, c)
			if got := strings.Join(p.ours, " "); got != want[0] || p.guest != want[1] || p.own != p.Own(c) {
				t.Errorf("%s: on %v\n%s\n%s\nwant\n%s\n%s", name, p.own, got, p.guest, want[0], want[1])
			}
		}
		if !found {
			t.Errorf("%s is no case", name)
		}
	}
	for program, lines := range map[string][2]string{
		"rping":       {"server ping data: rdma-ping-0\n", "server ping data: rdma-ping-0\nserver ping data: rdma-ping-1\n"},
		"ucmatose":    {"test complete\nreturn status -1\n", "test complete\nreturn status 0\n"},
		"rdma_client": {"rdma_client: start\nrdma_client: end -1\n", "rdma_client: start\nrdma_client: end 0\n"},
	} {
		if says := connectings[program].says; says.MatchString(lines[0]) || !says.MatchString(lines[1]) {
			t.Errorf("%s: what it prints is not told apart by %v", program, says)
		}
	}
}

// The output of programs that exited with 0 can still be wrong.
func TestNativeOutput(t *testing.T) {
	const pinged = "655360 bytes in 0.05 seconds = 108.90 Mbit/sec\n40 iters in 0.05 seconds = 1203.60 usec/iter\n"
	const table = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      100              27.12              26.97  \t\t   0.000432\n"
	dims := []matrix.Dim{matrix.Direction()}
	client := matrix.All(dims, nil)[1]
	const clock = "Correlation coefficient r^2: 0.866065 < 0.9\n"
	zero := strings.ReplaceAll(strings.ReplaceAll(table, "26.97", "0.00"), "27.12", "0.00")
	for _, c := range []struct {
		n           native
		ours, guest string
		good        bool
	}{
		{natives["ibv_rc_pingpong"], pinged, pinged, true},
		{natives["ibv_rc_pingpong"], "invalid data in page 1\n" + pinged, pinged, false},
		{natives["ibv_rc_pingpong"], pinged, "invalid data in page 0\n" + pinged, false},
		{natives["ibv_rc_pingpong"], pinged, "", false},
		{natives["ib_send_bw"], table, strings.Replace(table, "27.12", "0.00", 1), true},
		{natives["ib_send_bw"], table, strings.Replace(table, "26.97", "0.00", 1), false},
		{natives["ib_send_bw"], strings.Replace(table, "100", "99", 1), table, false},
	} {
		e := ends{ours: remote.Result{Stdout: c.ours}, guest: remote.Result{Stdout: c.guest}}
		o := c.n.check(&e, client)
		if (o.Verdict == suite.Pass) != c.good || c.good && c.ours == table && o.Measured != "26.97 MB/s" {
			t.Errorf("%q, %q: %+v", c.ours, c.guest, o)
		}
	}
	n := natives["ib_read_bw"]
	for stderr, spoiled := range map[string]bool{clock: true, "": false} {
		e := ends{ours: remote.Result{Stdout: zero}, guest: remote.Result{Stdout: zero, Stderr: stderr}}
		if o := n.check(&e, client); o.Verdict != suite.Fail || o.Spoiled != spoiled {
			t.Errorf("rates of 0, and %q: %+v", stderr, o)
		}
	}
}

// Where nothing is lost, packets are sent again for a reason.
func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		own      lab.Counters
		verdict  suite.Verdict
		measured string
	}{
		{lab.Counters{}, suite.Pass, "9 MB/s"},
		{lab.Counters{"retrans_pkts": 2}, suite.Fail, ""},
		{lab.Counters{"retrans_pkts": 2, "probes": 1}, suite.Pass, "9 MB/s; 2 packets sent again: probes 1"},
	} {
		if o := repeated(suite.Passed("").With("9 MB/s"), c.own); o.Verdict != c.verdict || o.Measured != c.measured {
			t.Errorf("%v: %+v", c.own, o)
		}
	}
}

// A capture has what was on the wire, and nothing else.
func TestCompareCapture(t *testing.T) {
	own, peer := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")
	frame := func(out bool, psn byte) frames.Frame {
		ip := []byte{0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 17, 0, 0}
		src, dst := own, peer
		if !out {
			src, dst = peer, own
		}
		ip = append(append(ip, src.AsSlice()...), dst.AsSlice()...)
		ip = append(ip, 0xC0, 0, 4791>>8, 4791&0xFF, 0, 24, 0, 0)
		payload := []byte{4, 0, 0xFF, 0xFF, 0, 0, 0, 7, 0, 0, 0, psn, 1, 2, 3, 4}
		return frames.Frame{Out: out, Raw: slices.Concat(make([]byte, 12), []byte{8, 0}, ip, payload), Payload: payload}
	}
	all := []frames.Frame{frame(true, 1), frame(false, 1), frame(true, 2), frame(false, 2)}
	for name, c := range map[string]struct {
		captured []frames.Frame
		good     bool
	}{
		"all":                 {all, true},
		"without the last":    {all[:3], true},
		"one of ours less":    {all[1:], false},
		"one of ours twice":   {slices.Concat(all, all[:1]), false},
		"one that never came": {slices.Concat(all, []frames.Frame{frame(false, 3)}), false},
		"one the other way":   {slices.Concat(all[:3], []frames.Frame{frame(true, 3)}), false},
	} {
		file := filepath.Join(t.TempDir(), "x.pcap")
		must.Do(t, frames.WriteFile(file, c.captured))
		if err := compareCapture(file, own, all); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := compareCapture(filepath.Join(t.TempDir(), "none"), own, all); err == nil {
		t.Error("a capture that is not there is right")
	}
}
