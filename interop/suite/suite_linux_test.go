package suite

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
)

func twoFamilies() []Family {
	run := func(context.Context, *lab.Lab, matrix.Cell) Outcome { return Passed("") }
	return []Family{
		{
			Name: "one", Dims: []matrix.Dim{matrix.Direction(), matrix.IP(), matrix.MTU(), matrix.Transport()}, Run: run,
			Short: func(c matrix.Cell) bool { return c.Is("ip", "ipv4") && c.Is("mtu", "1024") && c.Is("transport", "udp") },
		},
		{Name: "two", Dims: []matrix.Dim{matrix.Direction()}, Always: true, Run: run, Skip: func(c matrix.Cell) bool { return c.Is("kernel", "6.1") && c.Is("dir", "client") }},
	}
}

func TestSelection(t *testing.T) {
	both := []string{"6.1", "6.12"}
	for _, c := range []struct {
		s        Selection
		min, max int
		has      string
	}{
		{Selection{Kernels: both, All: true}, 35, 35, "one/6.12/client/ipv6/4096/raw"},
		{Selection{Kernels: both}, 9, 13, "two/6.12/client"},
		{Selection{Kernels: both, Short: true}, 4, 4, "one/6.1/server/ipv4/1024/udp"},
		{Selection{Kernels: []string{"6.1"}, Match: regexp.MustCompile("^one/.*raw$")}, 8, 8, "one/6.1/client/ipv6/4096/raw"},
		{Selection{Kernels: both, Match: regexp.MustCompile("three")}, 0, 0, ""},
	} {
		cases := c.s.Cases(twoFamilies())
		var ids []string
		for _, x := range cases {
			ids = append(ids, x.ID())
		}
		all := strings.Join(ids, "\n")
		if len(cases) < c.min || len(cases) > c.max || !strings.Contains(all, c.has) {
			t.Errorf("%+v selects %d cases, not %d to %d with %q:\n%s", c.s, len(cases), c.min, c.max, c.has, all)
		}
		if strings.Contains(all, "two/6.1/client") {
			t.Error("a cell that makes no sense is selected")
		}
	}
}

// What passed is held to what the peer's kernel counted, as strictly as the
// family allows.
func TestJudge(t *testing.T) {
	good := func(change func(*lab.Traffic)) *lab.Traffic {
		x := &lab.Traffic{Counts: frames.Counts{Out: 10, In: 20}, Peer: lab.Counters{"rcvd_pkts": 10, "sent_pkts": 20}}
		change(x)
		return x
	}
	for _, c := range []struct {
		what   string
		change func(*lab.Traffic)
		fails  []Loose // the families for which it fails, of those below
	}{
		{"all is well", func(*lab.Traffic) {}, nil},
		{"a packet of ours was not taken", func(x *lab.Traffic) { x.Peer["rcvd_pkts"]-- }, []Loose{0, Damaging}},
		{"more were taken than sent", func(x *lab.Traffic) { x.Peer["rcvd_pkts"]++ }, []Loose{0, Gone, Damaging}},
		{"its own to a group", func(x *lab.Traffic) { x.Peer["rcvd_pkts"]++; x.InGroup = 1 }, nil},
		{"a packet of the peer's did not come", func(x *lab.Traffic) { x.In-- }, []Loose{0, Gone, Damaging}},
		{"a wrong ICRC of ours", func(x *lab.Traffic) { x.BadOut++ }, []Loose{0, Gone}},
		{"a wrong ICRC of the peer's", func(x *lab.Traffic) { x.BadIn++; x.In-- }, []Loose{0, Gone, Damaging, Hostile}},
		{"frames missed", func(x *lab.Traffic) { x.Missed++ }, []Loose{0, Gone, Damaging, Hostile}},
		{"the guest was restarted", func(x *lab.Traffic) { x.Reset = true; x.Peer["rcvd_pkts"] = -5 }, nil},
	} {
		for _, loose := range []Loose{0, Gone, Damaging, Hostile} {
			want := false
			for _, f := range c.fails {
				want = want || f == loose
			}
			if err := judge(good(c.change), loose); (err != nil) != want {
				t.Errorf("%s, family %b: %v", c.what, loose, err)
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	for _, o := range []Outcome{Passed("n"), Failed("%s", "n"), Differs("%s", "n")} {
		if o = o.With("%d MB/s", 3); o.Note != "n" || o.Measured != "3 MB/s" || o.Verdict == "" {
			t.Errorf("%+v", o)
		}
	}
	if fmt.Sprintf("%s %s %s", Passed("").Verdict, Failed("").Verdict, Differs("").Verdict) != "pass FAIL expected" {
		t.Error("the verdicts have other names")
	}
}
