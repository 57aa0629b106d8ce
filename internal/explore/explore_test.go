package explore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
	"github.com/softhca/softhca/internal/must"
)

// recorded is what a server and a client did in a first run.
func recorded() []sites.Process {
	var reads []sites.Count
	for _, st := range []ib.WCStatus{ib.WCLocLenErr, ib.WCLocQPOpErr, ib.WCLocProtErr, ib.WCRemAccessErr, ib.WCRetryExcErr} {
		reads = append(reads, sites.Count{What: "RDMA_READ", Status: st, N: 2})
	}
	all := []sites.Process{
		{Name: "client.1", Calls: []sites.Count{{What: "RegMR", N: 1}, {What: "PostSend", N: 4}}, Requests: reads, Timeout: 67 * time.Millisecond, Retries: 7},
		{Name: "server.1", Calls: []sites.Count{{What: "DestroyQP", N: 7}}},
	}
	all[0].Packets[sites.Sent] = []sites.Count{{What: "RC_SEND_ONLY", N: 2}, {What: "UD_SEND_ONLY", N: 1}, {What: "REQ", N: 1}}
	all[1].Packets[sites.Received] = []sites.Count{{What: "RC_SEND_ONLY", N: 2}}
	all[1].Packets[sites.Taken] = []sites.Count{{What: "RC_SEND_ONLY", N: 2}, {What: "REQ", N: 1}}
	return all
}

// TestPlan plans the faults of a run: first, middle and last, or all, and some kinds only.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		s    Selection
		want []string
	}{
		{Selection{Kinds: []string{KindCall}}, []string{
			"fail errno=ENOMEM nth=1 op=RegMR process=client.1", "fail errno=ENOMEM nth=1 op=PostSend process=client.1", "fail errno=EBUSY nth=1 op=DestroyQP process=server.1",
			"fail errno=ENOMEM nth=4 op=PostSend process=client.1", "fail errno=EBUSY nth=7 op=DestroyQP process=server.1",
			"fail errno=ENOMEM nth=3 op=PostSend process=client.1", "fail errno=EBUSY nth=4 op=DestroyQP process=server.1",
		}},
		{Selection{Kinds: []string{KindWC}}, []string{
			"wc LOC_LEN_ERR nth=1 op=RDMA_READ process=client.1", "wc LOC_QP_OP_ERR nth=1 op=RDMA_READ process=client.1", "wc LOC_PROT_ERR nth=1 op=RDMA_READ process=client.1",
			"wc REM_ACCESS_ERR nth=1 op=RDMA_READ process=client.1", "wc RETRY_EXC_ERR nth=1 op=RDMA_READ process=client.1",
			"wc LOC_LEN_ERR nth=2 op=RDMA_READ process=client.1", "wc LOC_QP_OP_ERR nth=2 op=RDMA_READ process=client.1", "wc LOC_PROT_ERR nth=2 op=RDMA_READ process=client.1",
			"wc REM_ACCESS_ERR nth=2 op=RDMA_READ process=client.1", "wc RETRY_EXC_ERR nth=2 op=RDMA_READ process=client.1",
		}},
		{Selection{Kinds: []string{KindPacket}}, []string{
			"drop nth=1 op=RC_SEND_ONLY dir=out process=client.1", "drop nth=1 every=1 op=RC_SEND_ONLY dir=out process=client.1",
			"dup nth=1 op=RC_SEND_ONLY dir=out process=client.1", "delay 101ms nth=1 op=RC_SEND_ONLY dir=out process=client.1",
			"drop nth=2 op=RC_SEND_ONLY dir=out process=client.1", "drop nth=2 every=1 op=RC_SEND_ONLY dir=out process=client.1",
			"dup nth=2 op=RC_SEND_ONLY dir=out process=client.1", "delay 101ms nth=2 op=RC_SEND_ONLY dir=out process=client.1",
		}},
		{Selection{Kinds: []string{KindCM}}, []string{
			"drop nth=1 op=REQ dir=out process=client.1", "drop nth=1 every=1 op=REQ dir=out process=client.1",
			"dup nth=1 op=REQ dir=out process=client.1", "delay 5s nth=1 op=REQ dir=out process=client.1",
			"reject CONSUMER nth=1 process=server.1", "reject INVALID_SERVICE_ID nth=1 process=server.1",
			"reject NO_RESOURCES nth=1 process=server.1", "reject STALE_CONNECTION nth=1 process=server.1",
		}},
		{Selection{Kinds: []string{KindRNR}}, []string{
			"rnr nth=1 op=RC_SEND_ONLY process=server.1", "rnr nth=1 every=1 count=8 op=RC_SEND_ONLY process=server.1",
			"rnr nth=2 op=RC_SEND_ONLY process=server.1", "rnr nth=2 every=1 count=8 op=RC_SEND_ONLY process=server.1",
		}},
		{Selection{Kinds: []string{KindProcess}}, []string{
			"kill nth=1 op=RC_SEND_ONLY dir=out process=client.1", "stop nth=1 op=RC_SEND_ONLY dir=out process=client.1",
			"kill nth=1 op=REQ dir=out process=client.1", "stop nth=1 op=REQ dir=out process=client.1",
			"kill nth=1 op=RC_SEND_ONLY dir=in process=server.1",
			"kill nth=2 op=RC_SEND_ONLY dir=out process=client.1", "stop nth=2 op=RC_SEND_ONLY dir=out process=client.1",
			"kill nth=2 op=RC_SEND_ONLY dir=in process=server.1",
		}},
		{Selection{Kinds: []string{KindEvent}}, []string{
			"gone nth=1 op=RC_SEND_ONLY dir=out process=client.1", "gone nth=1 op=REQ dir=out process=client.1",
			"qp to=ERR nth=1 op=PostSend process=client.1", "fillcq nth=1 op=PostSend process=client.1",
			"event PORT_ERR nth=1 op=PostSend process=client.1", "event GID_CHANGE nth=1 op=PostSend process=client.1",
			"gone nth=2 op=RC_SEND_ONLY dir=out process=client.1",
			"qp to=ERR nth=4 op=PostSend process=client.1", "fillcq nth=4 op=PostSend process=client.1",
			"event PORT_ERR nth=4 op=PostSend process=client.1", "event GID_CHANGE nth=4 op=PostSend process=client.1",
			"qp to=ERR nth=3 op=PostSend process=client.1", "fillcq nth=3 op=PostSend process=client.1",
			"event PORT_ERR nth=3 op=PostSend process=client.1", "event GID_CHANGE nth=3 op=PostSend process=client.1",
		}},
	} {
		faults, cut := Plan(recorded(), c.s)
		var rules []string
		for i := range faults {
			rules = append(rules, faults[i].Rule)
		}
		if !slices.Equal(rules, c.want) || cut != 0 {
			t.Errorf("%+v: %d more, and\n%s\nwant\n%s", c.s, cut, strings.Join(rules, "\n"), strings.Join(c.want, "\n"))
		}
	}
	all, _ := Plan(recorded(), Selection{Kinds: []string{KindCall, KindWC}, All: true})
	if len(all) != 1+4+7+10 {
		t.Errorf("with all there are %d faults", len(all))
	}
}

// TestFaultsInWords checks what people read about faults, and how long their runs may take.
func TestFaultsInWords(t *testing.T) {
	all, _ := Plan(recorded(), Selection{})
	got := map[string]string{}
	for i := range all {
		f := &all[i]
		got[f.Rule] = f.String()
		stops := strings.HasPrefix(f.Rule, "stop")
		steady := strings.HasPrefix(f.Rule, "delay") || stops
		if long := f.longer > 0; long != (steady || f.Kind == KindRNR) || f.steady != steady || f.stops != stops {
			t.Errorf("%s: %v longer, timers as usual: %t", f.Rule, f.longer, f.steady)
		}
	}
	for rule, want := range map[string]string{
		"fail errno=ENOMEM nth=4 op=PostSend process=client.1":       "client.1: call of PostSend 4 of 4 fails with ENOMEM",
		"wc RETRY_EXC_ERR nth=2 op=RDMA_READ process=client.1":       "client.1: RDMA_READ 2 of 2 fails with RETRY_EXC_ERR",
		"drop nth=1 op=RC_SEND_ONLY dir=out process=client.1":        "client.1: RC_SEND_ONLY 1 of 2 is lost",
		"drop nth=1 every=1 op=REQ dir=out process=client.1":         "client.1: REQ 1 of 1 is lost, and so are later ones",
		"dup nth=1 op=REQ dir=out process=client.1":                  "client.1: REQ 1 of 1 is doubled",
		"delay 5s nth=1 op=REQ dir=out process=client.1":             "client.1: REQ 1 of 1 is late by 5s",
		"reject CONSUMER nth=1 process=server.1":                     "server.1: REQ 1 of 1 is rejected: consumer reject",
		"rnr nth=1 op=RC_SEND_ONLY process=server.1":                 "server.1: RC_SEND_ONLY 1 of 2 is refused with an RNR NAK",
		"rnr nth=1 every=1 count=8 op=RC_SEND_ONLY process=server.1": "server.1: RC_SEND_ONLY 1 of 2 is refused with an RNR NAK 8 times",
		"gone nth=1 op=REQ dir=out process=client.1":                 "client.1: DEVICE_FATAL at REQ sent 1 of 1",
		"qp to=ERR nth=1 op=PostSend process=client.1":               "client.1: QP_FATAL at PostSend 1 of 4",
		"fillcq nth=1 op=PostSend process=client.1":                  "client.1: CQ_ERR at PostSend 1 of 4",
		"event PORT_ERR nth=1 op=PostSend process=client.1":          "client.1: PORT_ERR at PostSend 1 of 4",
		"kill nth=1 op=RC_SEND_ONLY dir=in process=server.1":         "server.1 is killed at RC_SEND_ONLY received 1 of 2",
		"stop nth=2 op=RC_SEND_ONLY dir=out process=client.1":        "client.1 is stopped for 5s at RC_SEND_ONLY sent 2 of 2",
	} {
		if got[rule] != want {
			t.Errorf("%s is %q, want %q", rule, got[rule], want)
		}
	}
}

// TestLimit derives how long a run may take from the first run, from its timers, and from the fault.
func TestLimit(t *testing.T) {
	quick := &Run{Duration: time.Second}
	slow := &Run{Duration: time.Minute}
	patient := &Run{Duration: time.Second, Processes: []sites.Process{{Timeout: 17 * time.Second, Retries: 7}, {Timeout: time.Second}}}
	connects := &Run{Duration: 100 * time.Millisecond, Processes: recorded()}
	forever := &Run{Processes: []sites.Process{{Timeout: 2 * time.Hour}}}
	for _, c := range []struct {
		why   string
		f     Fault
		first *Run
		o     Options
		want  time.Duration
	}{
		{"ten times the first", Fault{}, quick, Options{}, 10 * time.Second},
		{"at least 5 s", Fault{}, &Run{}, Options{}, 5 * time.Second},
		{"a long run", Fault{}, slow, Options{}, 10 * time.Minute},
		{"as asked", Fault{longer: time.Minute}, slow, Options{Limit: 3 * time.Second}, 3 * time.Second},
		{"timers, 50 times shorter", Fault{}, patient, Options{}, (17*time.Second + 7*340*time.Millisecond) * 3 / 2},
		{"timers as usual", Fault{steady: true, longer: 5 * time.Second}, patient, Options{}, mostTimers*3/2 + 5*time.Second},
		{"messages", Fault{}, connects, Options{}, (67*time.Millisecond + 7*20*time.Millisecond + cmTime) * 3 / 2},
		{"bounded", Fault{}, forever, Options{}, mostTimers * 3 / 2},
	} {
		if got := c.o.limit(&c.f, c.first); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

// TestPlanIsBounded plans more faults than a plan holds.
func TestPlanIsBounded(t *testing.T) {
	many := []sites.Process{{Name: "x.1", Calls: []sites.Count{{What: "PostSend", N: 1 << 40}, {What: "RegMR", N: 5}}}}
	all, cut := Plan(many, Selection{Kinds: []string{KindCall}, All: true})
	if len(all) != maxFaults || cut != 1<<40-maxFaults+5 {
		t.Errorf("%d faults, and %d more", len(all), cut)
	}
}

// TestEveryRuleIsValid plans a fault for each verb and request that processes count.
func TestEveryRuleIsValid(t *testing.T) {
	p := sites.Process{Name: "a-b_c.12"}
	for _, c := range fault.Calls() {
		p.Calls = append(p.Calls, sites.Count{What: c, N: 1})
	}
	for _, o := range fault.WorkRequests() {
		p.Requests = append(p.Requests, sites.Count{What: o.String(), Status: ib.WCLocQPOpErr, N: 1})
	}
	for _, c := range fault.Classes() {
		for u := range p.Packets {
			p.Packets[u] = append(p.Packets[u], sites.Count{What: c, N: 1})
		}
	}
	all, _ := Plan([]sites.Process{p}, Selection{})
	seen := make(map[string]bool)
	for i := range all {
		rules, err := fault.Parse(all[i].Rule)
		if err != nil || len(rules) != 1 || rules[0].Process() != p.Name || rules[0].String() != all[i].Rule {
			t.Errorf("%s: %v, %v", all[i].Rule, rules, err)
			continue
		}
		again := FaultOf(&rules[0])
		want := all[i]
		if want.Nth, want.Of = 0, 0; again != want {
			t.Errorf("%s is read as %+v", all[i].Rule, again)
		}
		seen[all[i].What] = true
	}
	for _, c := range append(append([]sites.Count{}, p.Calls...), p.Requests...) {
		if !seen[c.What] {
			t.Errorf("no fault befalls %s", c.What)
		}
	}
	for _, c := range []string{"RC_SEND_ONLY_WITH_IMM", "REQ", "RNR_NAK", "UD_SEND_ONLY_WITH_IMM", "XRC_ATOMIC_WRITE sent", "APR received"} {
		if !seen[c] {
			t.Errorf("no fault befalls %s", c)
		}
	}
}

// TestVerdicts judges runs.
func TestVerdicts(t *testing.T) {
	lost := Breach{Name: "error-never-polled", Text: "an error was not polled", key: "lost"}
	busy := Breach{Name: "destroy-refused", Text: "it is used", key: "busy"}
	remote := Breach{Name: "peer-access-refused", Text: "no such key", key: "remote"}
	overrun := Breach{Name: "cq-overrun", Text: "too many completions", key: "overrun"}
	call, destroy, wc := Fault{Kind: KindCall, Error: "ENOMEM"}, Fault{Kind: KindCall, Error: "EBUSY"}, Fault{Kind: KindWC}
	full, fatal := Fault{Kind: KindEvent, Error: "CQ_ERR"}, Fault{Kind: KindEvent, Error: "QP_FATAL"}
	gone := Fault{Kind: KindEvent, Error: "DEVICE_FATAL"}
	for _, c := range []struct {
		f     Fault
		r     Run
		first []Breach
		want  Verdict
		why   string
	}{
		{call, Run{}, nil, Unreached, ""},
		{call, Run{Code: 139}, nil, Unreached, ""},
		{call, Run{Acted: 1}, nil, Absorbed, ""},
		{call, Run{Acted: 1, Code: 3}, nil, Reported, "exit code 3"},
		{call, Run{Acted: 1, Code: 139}, nil, Crashed, "signal 11 (segmentation fault)"},
		{call, Run{Acted: 1, Code: 134}, nil, Crashed, "signal 6 (aborted)"},
		{call, Run{Acted: 1, Code: 143}, nil, Reported, "exit code 143"},
		{call, Run{Acted: 1, Code: 1, Output: "==1==ERROR: AddressSanitizer: heap-use-after-free"}, nil, Crashed, `its output has "ERROR: AddressSanitizer"`},
		{call, Run{Acted: 1, Output: "sh: 1: Segmentation fault"}, nil, Crashed, `its output has "Segmentation fault"`},
		{call, Run{Acted: 1, Code: 1, Output: "x\nAborted\ny"}, nil, Crashed, `its output has "Aborted"`},
		{call, Run{Acted: 1, Code: 1, Output: "x: line 1: 7 Aborted                 (core dumped) ./x"}, nil, Crashed, `its output has "Aborted"`},
		{call, Run{Acted: 1, Code: 1, Output: "a.c:12:3: runtime error: signed integer overflow"}, nil, Crashed, `its output has ":12:3: runtime error: "`},
		{call, Run{Acted: 1, Code: 1, Output: "runtime error: no memory; NotAborted"}, nil, Reported, "exit code 1"},
		{call, Run{Acted: 1, Code: 1, Output: "old crash: Segmentation fault"}, []Breach{}, Reported, "exit code 1"},
		{call, Run{Acted: 1, Code: 137, TimedOut: true, Duration: 5 * time.Second, Running: []string{"a", "b"}}, nil, Hung, "stopped after 5s; still running: a, b"},
		{call, Run{Acted: 1, Code: 137, TimedOut: true, Output: "Segmentation fault"}, nil, Hung, "stopped after 0s; still running: "},
		{wc, Run{Acted: 1, Breaches: []Breach{busy, lost}}, nil, Lost, "an error was not polled"},
		{wc, Run{Acted: 1, Code: 1, Breaches: []Breach{lost}}, nil, Broke, "error-never-polled: an error was not polled"},
		{wc, Run{Acted: 1, Breaches: []Breach{lost}}, []Breach{lost}, Absorbed, ""},
		{wc, Run{Acted: 1, Code: 1, Breaches: []Breach{remote}}, nil, Reported, "exit code 1"},
		{call, Run{Acted: 1, Breaches: []Breach{busy}}, nil, Broke, "destroy-refused: it is used"},
		{destroy, Run{Acted: 1, Breaches: []Breach{busy}}, nil, Absorbed, ""},
		{destroy, Run{Acted: 1, Breaches: []Breach{remote}}, nil, Broke, "peer-access-refused: no such key"},
		{full, Run{Acted: 1, Code: 1, Breaches: []Breach{overrun}}, nil, Reported, "exit code 1"},
		{full, Run{Acted: 1, Code: 1, Breaches: []Breach{overrun, busy}}, nil, Broke, "destroy-refused: it is used"},
		{gone, Run{Acted: 1, Code: 1, Breaches: []Breach{busy}}, nil, Reported, "exit code 1"},
		{gone, Run{Acted: 1, Code: 1, Breaches: []Breach{busy, overrun}}, nil, Broke, "cq-overrun: too many completions"},
		{fatal, Run{Acted: 1, Code: 1, Breaches: []Breach{overrun}}, nil, Broke, "cq-overrun: too many completions"},
	} {
		first := &Run{Breaches: c.first}
		if strings.HasPrefix(c.r.Output, "old crash") {
			first.Output = c.r.Output
		}
		v, why := judge(&c.f, &c.r, first)
		if v != c.want || why != c.why {
			t.Errorf("%+v: %s %q, want %s %q", c.r, v, why, c.want, c.why)
		}
	}
	for _, v := range Verdicts() {
		if v.Text() == "unknown" {
			t.Errorf("%s means nothing", v)
		}
	}
}

// TestReport prints a report, as text and as JSON.
func TestReport(t *testing.T) {
	p := &Program{Args: []string{"sh", "-c", "it's a test"}}
	first := &Run{Processes: recorded()}
	faults, _ := Plan(first.Processes, Selection{})
	r := newReport(p, first, faults, 3, Options{Limit: 20 * time.Second})
	r.add(&faults[0], &Run{Acted: 1, Code: 139, Output: strings.Repeat("line\n", 20) + "the \x1b[31mend\n"}, first)
	r.add(&faults[1], &Run{Acted: 1, Output: "not shown"}, first)
	r.add(&faults[2], &Run{Acted: 1, Code: 137, TimedOut: true, Running: []string{"server"}}, first)
	r.Millis = 1500
	var b bytes.Buffer
	must.Do(t, r.Text(&b))
	want := `crashed: client.1: call of RegMR 1 of 1 fails with ENOMEM
  signal 11 (segmentation fault)
  | line
  | line
  | line
  | line
  | line
  | the \x1b[31mend
  again: softhca explore --limit 20s --replay 'fail errno=ENOMEM nth=1 op=RegMR process=client.1' -- sh -c 'it'\''s a test'

hung: client.1: RDMA_READ 1 of 2 fails with LOC_LEN_ERR
  stopped after 0s; still running: server
  again: softhca explore --limit 20s --replay 'wc LOC_LEN_ERR nth=1 op=RDMA_READ process=client.1' -- sh -c 'it'\''s a test'

3 of ` + fmt.Sprint(len(faults)) + ` faults tried in 1.5 s, in client.1, server.1
     1 crashed    a signal or a sanitizer ended a process
     1 hung       the program did not end in its time
     1 absorbed   the program ended well
3 more faults are beyond the bound of a plan: choose some with --only
`
	if b.String() != want {
		t.Errorf("the report is\n%s\nwant\n%s", b.String(), want)
	}
	if r.Findings() != 2 {
		t.Errorf("%d findings", r.Findings())
	}
	b.Reset()
	must.Do(t, r.JSON(&b))
	var back Report
	must.Do(t, json.Unmarshal(b.Bytes(), &back))
	if back.Version != Version || back.Tried != 3 || back.Counts[Crashed] != 1 || len(back.Results) != 3 || back.Results[0].What != "RegMR" ||
		back.Results[0].Verdict != Crashed || back.Results[1].Output != "" || back.Planned != len(faults) || back.Cut != 3 {
		t.Errorf("read back: %+v", back)
	}
}

// TestTail keeps the end of an output.
func TestTail(t *testing.T) {
	w := new(tail)
	for i := range maxOutput {
		fmt.Fprintf(w, "%d\n", i)
	}
	if s := string(w.kept); len(s) != maxOutput || !strings.HasSuffix(s, fmt.Sprintf("\n%d\n", maxOutput-1)) {
		t.Errorf("%d bytes are kept, and end with %q", len(s), s[len(s)-20:])
	}
	if s := lastLines(strings.Repeat("x", 10*shownBytes)); len(s) != shownBytes {
		t.Errorf("%d bytes of a long line are shown", len(s))
	}
}
