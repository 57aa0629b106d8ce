package suite

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// Traffic is checked against the peer kernel's counters, as strictly as the
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
		{"and it had been sent twice", func(x *lab.Traffic) {
			x.Peer["rcvd_pkts"]--
			x.Own.Counters = lab.Counters{sentTwice: 1}
		}, nil},
		{"more were taken than sent", func(x *lab.Traffic) { x.Peer["rcvd_pkts"]++ }, []Loose{0, Gone, Damaging}},
		{"its own to a group", func(x *lab.Traffic) { x.Peer["rcvd_pkts"]++; x.InGroup = 1 }, nil},
		{"a wrong ICRC of ours", func(x *lab.Traffic) { x.BadOut++ }, []Loose{0, Gone, Within}},
		{"a wrong ICRC of the peer's", func(x *lab.Traffic) { x.BadIn++; x.In-- }, []Loose{0, Gone, Damaging, Hostile, Within}},
		{"frames missed", func(x *lab.Traffic) { x.Missed++ }, []Loose{0, Gone, Damaging, Hostile, Within}},
		{"the guest was restarted", func(x *lab.Traffic) { x.Reset = true; x.Peer["rcvd_pkts"] = -5 }, nil},
	} {
		for _, loose := range []Loose{0, Gone, Damaging, Hostile, Within} {
			if err := judge(good(c.change), loose); (err != nil) != slices.Contains(c.fails, loose) {
				t.Errorf("%s, family %b: %v", c.what, loose, err)
			}
		}
	}
}

// All packets that the peer's kernel counted as sent came, or the side at fault is
// known.
func TestUndelivered(t *testing.T) {
	for _, c := range []struct {
		what       string
		x          lab.Traffic
		loose      Loose
		ok, guests bool
	}{
		{"all came", lab.Traffic{Counts: frames.Counts{In: 20}, Peer: lab.Counters{"sent_pkts": 20}}, 0, true, false},
		{"one of them wrong", lab.Traffic{Counts: frames.Counts{In: 19, BadIn: 1}, Peer: lab.Counters{"sent_pkts": 20}}, 0, true, false},
		{"one did not leave", lab.Traffic{Counts: frames.Counts{In: 19}, Peer: lab.Counters{"sent_pkts": 20}}, Gone, false, true},
		{"or was not seen", lab.Traffic{Counts: frames.Counts{In: 19, Missed: 1}, Peer: lab.Counters{"sent_pkts": 20}}, 0, false, false},
		{"one more came", lab.Traffic{Counts: frames.Counts{In: 21}, Peer: lab.Counters{"sent_pkts": 20}}, Damaging, false, false},
		{"we are hostile", lab.Traffic{Counts: frames.Counts{In: 19}, Peer: lab.Counters{"sent_pkts": 20}}, Hostile, true, false},
		{"the guest was restarted", lab.Traffic{Counts: frames.Counts{In: 19}, Peer: lab.Counters{"sent_pkts": 20}, Reset: true}, 0, true, false},
	} {
		if guests, err := undelivered(&c.x, c.loose); (err == nil) != c.ok || guests != c.guests {
			t.Errorf("%s: %v, the guest's fault: %v", c.what, err, guests)
		}
	}
}

// The peer's packets are checked against our adapters' counters.
func TestAccepted(t *testing.T) {
	own, peer, group := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("239.1.1.1")
	fs := []frames.Frame{{Src: peer, Dst: own}, {Src: peer, Dst: own}, {Out: true, Src: own, Dst: peer}, {Out: true, Src: own, Dst: group}, {Src: peer, Dst: own}}
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range fs {
		fs[i].Time = begin.Add(time.Duration(i) * time.Second)
	}
	good := func(change func(*lab.Traffic)) *lab.Traffic {
		x := &lab.Traffic{Counts: frames.Counts{Out: 2, In: 3}, Own: lab.Own{Counters: lab.Counters{"rcvd_pkts": 3}, Lives: []frames.Life{{Told: begin.Add(4 * time.Second), Passed: len(fs)}}}}
		change(x)
		return x
	}
	for _, c := range []struct {
		what   string
		change func(*lab.Traffic)
		fails  []Loose // the families for which it fails, of those below
		exact  bool
	}{
		{"all is well", func(*lab.Traffic) {}, nil, true},
		{"the last came when we had ended", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"] = 2 }, nil, true},
		{"one was not taken", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"] = 1 }, []Loose{0, Gone, Damaging}, true},
		{"one was lost by a fault", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"], x.Own.Faulty = 1, 1 }, nil, false},
		{"our own to a group", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"] = 4 }, nil, true},
		{"our own to a group, which another adapter of ours has not joined", func(x *lab.Traffic) { x.Own.Counters["drop_address"] = 1 }, nil, true},
		{"and two are refused", func(x *lab.Traffic) { x.Own.Counters["drop_address"] = 2 }, []Loose{0, Gone, Damaging}, true},
		{"more than came", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"] = 5 }, []Loose{0, Gone, Damaging}, true},
		{"one was for a queue pair that had ended", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"], x.Own.Counters["drop_no_qp"] = 2, 1 }, []Loose{0, Damaging}, true},
		{"and we had sent twice what it answers", func(x *lab.Traffic) {
			x.Own.Counters["rcvd_pkts"], x.Own.Counters["drop_no_qp"], x.Own.Counters[sentTwice] = 2, 1, 1
		}, nil, true},
		{"one was refused for its ICRC", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"], x.Own.Counters["drop_icrc_errors"] = 2, 1 }, []Loose{0, Gone, Damaging}, true},
		{"and a fault had damaged it", func(x *lab.Traffic) {
			x.Own.Counters["rcvd_pkts"], x.Own.Counters["drop_icrc_errors"], x.Own.Faulty = 2, 1, 1
		}, nil, false},
		{"our program was killed", func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"], x.Own.Silent = 0, 1 }, nil, false},
	} {
		for _, loose := range []Loose{0, Gone, Damaging, Hostile} {
			x := good(c.change)
			a := newAcceptance(x, fs)
			if err := a.check(x, loose, ""); (err != nil) != slices.Contains(c.fails, loose) {
				t.Errorf("%s, family %b: %v", c.what, loose, err)
			}
			if got := exact(x, loose); got != (c.exact && loose == 0) {
				t.Errorf("%s, family %b: exact %v", c.what, loose, got)
			}
		}
	}
	x := good(func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"], x.Own.Counters["drop_qkey_violations"] = 2, 1 })
	for refusal, refused := range map[string]bool{"": true, "drop_pkey_violations": true, "drop_qkey_violations": false} {
		a := newAcceptance(x, fs)
		if err := a.check(x, 0, refusal); (err != nil) != refused {
			t.Errorf("a wrong Q_Key in a case about %q: %v", refusal, err)
		}
	}
	if a := newAcceptance(good(func(x *lab.Traffic) { x.Own.Counters["rcvd_pkts"] = 4 }), fs); a.accepted != 3 || a.late != 1 {
		t.Errorf("%+v: want 3 accepted, our own to the group apart, and 1 late", a)
	}
}

// TestStarved: a case that failed is the guest's fault if the guest said nothing
// for as long as retries last, and then answered.
func TestStarved(t *testing.T) {
	at := func(ms int, out bool) frames.Frame { return frames.Frame{Time: time.UnixMilli(int64(ms)), Out: out} }
	late := []frames.Frame{at(0, true), at(1, false), at(2, true), at(540, true), at(1000, false)}
	for name, c := range map[string]struct {
		o    Outcome
		fs   []frames.Frame
		want Outcome
	}{
		"late":           {Failed("n"), late, Outcome{Verdict: Fail, Note: "n", Spoiled: true, Measured: "the guest was silent for 998ms and then answered"}},
		"never":          {Failed("n"), late[:4], Failed("n")},
		"in time":        {Failed("n"), late[:2], Failed("n")},
		"spoiled before": {Outcome{Verdict: Fail, Spoiled: true}, late, Outcome{Verdict: Fail, Spoiled: true}},
	} {
		if got := starved(c.o, c.fs); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
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
