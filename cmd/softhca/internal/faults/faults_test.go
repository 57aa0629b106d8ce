package faults

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
)

// TestList checks that the list explains every fault, argument and selector, in
// lines that fit a terminal.
func TestList(t *testing.T) {
	var b strings.Builder
	must.Do(t, List(&b))
	text := b.String()
	for a := range fault.NumActions {
		if !strings.Contains(text, "\n  "+a.Usage()+"\n") || !strings.Contains(text, "Example: "+a.Example()+"\n") {
			t.Errorf("the list does not explain %v", a)
		}
	}
	for p := range fault.NumParams {
		if !strings.Contains(text, "\n      "+p.String()+" ") {
			t.Errorf("the list does not explain %v", p)
		}
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 101 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestListJSON(t *testing.T) {
	var b strings.Builder
	must.Do(t, ListJSON(&b))
	var all []entry
	if err := json.Unmarshal([]byte(b.String()), &all); err != nil || len(all) != int(fault.NumActions) {
		t.Fatalf("%d faults, %v", len(all), err)
	}
	for _, e := range all {
		if e.Explained == "" || e.Text == "" || len(e.Selectors) == 0 {
			t.Errorf("%s is not explained: %+v", e.Fault, e)
		}
	}
}

func TestExplain(t *testing.T) {
	for rule, want := range map[string]string{
		"drop":                         "loses each outgoing packet",
		"drop nth=101 every=12":        "loses the 101st, and from there every 12th, outgoing packet",
		"drop op=ACK,SEND count=3":     "loses each packet in either direction with opcode ACK or SEND, at most 3 times",
		"drop op=REP nth=1":            "loses the 1st packet in either direction with the CM message REP",
		"drop op=REQ,REP dir=in":       "loses each incoming packet with the CM message REQ or REP",
		"dup op=CM":                    "delivers each packet in either direction with a CM message twice",
		"delay 1s op=ACK,SIDR":         "delivers each packet in either direction with opcode or CM message ACK or SIDR 1s late",
		"truncate 40 reseal nth=2":     "cuts the 2nd outgoing packet to 40 bytes with a right ICRC",
		"corrupt":                      "changes a random bit of each outgoing packet (the receiver drops it)",
		"qp to=SQE qpn=17 after=1s":    "moves queue pair 0x000011 to SQE, 1s after the adapter opened",
		"qp to=ERR op=ModifyQP":        "moves the queue pair of the 1st call of ModifyQP to ERR",
		"fillcq after=1s qpn=17":       "overflows the send completion queue of queue pair 0x000011, 1s after the adapter opened",
		"event CQ_ERR qpn=17 after=1s": "raises CQ_ERR about queue pair 0x000011, 1s after the adapter opened",
		"fillcq after=1s":              "overflows every completion queue, 1s after the adapter opened",
		"event PORT_ERR":               "raises PORT_ERR at the 1st work request of PostSend",
		"fail op=RegMR errno=EBUSY":    "makes each call of RegMR fail with EBUSY",
		"rnr for=1s":                   "answers each request that needs a receive with an RNR NAK, for 1s",
		"nak SEQUENCE after=1s nth=2":  "answers the 2nd incoming request with NAK SEQUENCE instead of executing it, from 1s after the adapter opened",
	} {
		rules, err := Explain(rule)
		if err != nil || len(rules) != 1 || rules[0].Does != want {
			t.Errorf("%s: %+v, %v, want %q", rule, rules, err, want)
		}
	}
}
