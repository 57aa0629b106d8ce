package programs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/interop/frames"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

func TestCommandLines(t *testing.T) {
	dims := []matrix.Dim{matrix.Direction(), matrix.IP(), matrix.Transport()}
	cells := matrix.All(dims, nil)
	for _, c := range []struct {
		pr          program
		cell        int
		ours, guest string
	}{
		{rping, 0, "rping -s -a 10.77.0.1 -v -C 5 --transport udp", "exec rping -c -a 10.77.0.1 -v -V -C 5"},
		{rping, 6, "rping -c --addr fd00:77::1 -a fd00:77::2 -v -V -C 5 --transport udp", "exec rping -s -a ::0 -v -C 5"},
		{simple, 4, "rdma-client --addr 10.77.0.1 -s 10.77.0.2 -C 5 --transport udp", "exec rdma_server -C 5"},
		{simple, 7, "rdma-client --addr fd00:77::1 -s fd00:77::2 -C 5 --transport raw", "exec rdma_server -s fd00:77::2 -C 5"},
	} {
		p := c.pr.pair(&lab.Lab{}, cells[c.cell], "-C 5")
		if got := strings.Join(p.ours, " "); got != c.ours || p.guest != c.guest {
			t.Errorf("%v of %s:\n%s\n%s\nwant\n%s\n%s", cells[c.cell], c.pr.name, got, p.guest, c.ours, c.guest)
		}
	}
	p := pingpongPair(&lab.Lab{}, cells[2], "uc", "--iters 40", "-n 40")
	if got := strings.Join(p.ours, " "); got != "pingpong --type uc --addr fd00:77::1 --iters 40" || p.guest != "exec ibv_uc_pingpong -g 2 -n 40 10.77.0.1" {
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

// TestLeft: retries that were used up are no failure if the peer ended well
// and nothing more came of it, and are one if it went on or failed itself.
func TestLeft(t *testing.T) {
	at := func(ms int, out bool) frames.Frame { return frames.Frame{Time: time.UnixMilli(int64(ms)), Out: out} }
	gone := []frames.Frame{at(0, true), at(1, false), at(2, true), at(540, true)}
	there := []frames.Frame{at(0, true), at(1, false), at(2, true), at(540, true), at(541, false)}
	ours := remote.Result{Exit: 1, Stderr: "softhca: pingpong: wr_id 0x1: RETRY_EXC_ERR after 9 messages"}
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
	}
	if len(all) < 1000 || len(short) < 50 || len(short) > 100 {
		t.Errorf("%d cases in all, %d in a short run", len(all), len(short))
	}
	for key := range defects {
		name, role, _ := strings.Cut(key, "/")
		if !slices.ContainsFunc(all, func(c suite.Case) bool { return c.Cell.Is("lost", name) && c.Cell.Is("dir", role) }) {
			t.Errorf("no case is the known defect %s", key)
		}
	}
}

func TestSpoiledNeedsASender(t *testing.T) {
	if m := received.FindStringSubmatch("softhca: mckey: 1 of 50 messages received: wait"); m == nil || m[1] != "1" || m[2] != "50" {
		t.Errorf("%q", m)
	}
}
