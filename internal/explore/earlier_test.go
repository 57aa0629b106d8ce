package explore

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
	"github.com/softhca/softhca/internal/must"
)

// judged returns a report whose faults, in the order of the letters, have verdicts: an upper-case letter is a finding, and a blank is no result.
func judged(letters string) *Report {
	r := &Report{Version: Version, Program: []string{"p"}, Counts: map[Verdict]int{}, Results: []Result{}}
	all := map[rune]Verdict{'C': Crashed, 'H': Hung, 'L': Lost, 'B': Broke, 'r': Reported, 'a': Absorbed, 'u': Unreached}
	for i, letter := range letters {
		if v, ok := all[letter]; ok {
			f := Fault{Process: "p.1", Kind: KindCall, What: "RegMR", Nth: uint64(i + 1), Of: 9, Error: "ENOMEM", Rule: "fail nth=" + strconv.Itoa(i+1) + " op=RegMR"}
			r.keep(&Result{Fault: f, Verdict: v, Why: "why", Output: "out \x1b]]>", Code: 1, Millis: 1500})
		}
	}
	return r
}

// TestCompare compares findings with those of a baseline.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		was, is    string
		text       string
		bad        int
		new, worse string // the letters of rules
		gone       string
	}{
		{"", "", "0 new, 0 worse, 0 the same, 0 gone\n", 0, "", "", ""},
		{"CHLB", "CHLB", "0 new, 0 worse, 4 the same, 0 gone\n", 0, "", "", ""},
		{"raur ", "CHLBC", "5 new, 0 worse, 0 the same, 0 gone\n", 5, "abcde", "", ""},
		{"HLBB", "CHLC", "0 new, 4 worse, 0 the same, 0 gone\n", 4, "", "abcd", ""},
		{"CHL", "HBB", "0 new, 0 worse, 3 the same, 0 gone\n", 0, "", "", ""},
		{"CHLBr", "rarra", "0 new, 0 worse, 0 the same, 4 gone\n", 0, "", "", "abcd"},
		{"CH", "u ", "0 new, 0 worse, 0 the same, 0 gone, 2 not tried again, or not reached\n", 0, "", "", ""},
	} {
		r := judged(c.is)
		r.Compare(judged(c.was), "old.json")
		var b strings.Builder
		r.Baseline.text(&b)
		letters := func(changes []Change) (s string) {
			for _, ch := range changes {
				s += string(rune('a' - 1 + ch.Rule[len("fail nth=")] - '0'))
			}
			return s
		}
		if x := r.Baseline; !strings.HasSuffix(b.String(), "findings compared with old.json: "+c.text) || x.Bad() != c.bad || letters(x.New) != c.new || letters(x.Worse) != c.worse || letters(x.Gone) != c.gone {
			t.Errorf("%q after %q: %+v\n%s", c.is, c.was, x, b.String())
		}
	}
	r := judged("C")
	r.Compare(judged("B"), "old.json")
	var b bytes.Buffer
	must.Do(t, r.Text(&b))
	if !strings.Contains(b.String(), "\nworse: p.1: call of RegMR 1 of 9 fails with ENOMEM: crashed, was broke\n") {
		t.Errorf("the text is\n%s", b.String())
	}
}

// TestPlacesStay gives the first, the last and the middle of a run the identity of those of a run with another number of things.
func TestPlacesStay(t *testing.T) {
	of := func(nth, of uint64) identity { return (&Fault{Process: "p.1", Nth: nth, Of: of}).identity() }
	if of(1, 9) != of(1, 12) || of(9, 9) != of(12, 12) || of(5, 9) != of(7, 12) || of(3, 9) != of(3, 12) {
		t.Error("the first, the last, the middle or the third of two runs differ")
	}
	if of(1, 9) == of(9, 9) || of(5, 9) == of(9, 9) || of(4, 9) == of(7, 12) || of(1, 1) != of(1, 5) {
		t.Error("different things of two runs are the same")
	}
}

// TestTake takes the results of an earlier report, and leaves the other faults.
func TestTake(t *testing.T) {
	var faults []Fault
	for _, f := range judged("aaaa").Results {
		faults = append(faults, f.Fault)
	}
	earlier := judged("rC  B")
	earlier.Results = append(earlier.Results, earlier.Results[0]) // twice, which counts once
	earlier.Millis = 77
	r := &Report{Program: []string{"p"}, Counts: map[Verdict]int{}}
	left, err := r.take(earlier, faults)
	must.Do(t, err)
	if len(left) != 2 || left[0].Nth != 3 || left[1].Nth != 4 || r.Tried != 3 || r.Planned != 5 || r.Counts[Crashed] != 1 || r.Millis != 77 {
		t.Errorf("%d faults are left, and the report is %+v", len(left), r)
	}
	r.Program = []string{"q"}
	if _, err := r.take(earlier, faults); !errors.Is(err, ErrOtherProgram) {
		t.Errorf("another program: %v", err)
	}
	if left, err := r.take(nil, faults); err != nil || len(left) != len(faults) {
		t.Errorf("without an earlier report %d faults are left, %v", len(left), err)
	}
}

// TestReadReport reads reports, and refuses what is none.
func TestReadReport(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, judged("CHLBrau").JSON(&b))
	whole := b.String()
	r, err := ReadReport(&b)
	must.Do(t, err)
	if len(r.Results) != 7 || r.Results[1].identity() != judged("CH").Results[1].identity() {
		t.Errorf("read back: %+v", r)
	}
	for text, want := range map[string]string{
		"":   "not a report of softhca explore --json: EOF",
		"[]": "not a report",
		strings.Replace(whole, "fail nth=1 op=RegMR", "fail'; rm x; '", 1): "is not one rule",
		`{"version": 99}`:    "its version is 99, not 1",
		`{}`:                 "its version is 0",
		whole[:len(whole)/2]: "unexpected EOF",
		`{"version": 1, "results": [{"verdict": "odd\u001b"}]}`: `the verdict "odd\x1b" is unknown`,
	} {
		if _, err := ReadReport(strings.NewReader(text)); !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// FuzzReadReport reads any file, and writes, compares and continues the report that it has.
func FuzzReadReport(f *testing.F) {
	var b bytes.Buffer
	must.Do(f, judged("CHLBrau").JSON(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadReport(bytes.NewReader(b))
		if err != nil {
			return
		}
		r.Compare(judged("CHLBrau"), "old.json")
		if _, err := (&Report{Program: r.Program, Counts: map[Verdict]int{}}).take(r, nil); err != nil {
			t.Error(err)
		}
		if err := errors.Join(r.Text(io.Discard), r.JUnit(io.Discard)); err != nil {
			t.Error(err)
		}
	})
}

// TestJUnit writes test cases: findings have failed, and faults that did not happen are skipped.
func TestJUnit(t *testing.T) {
	r := judged("CrauH")
	r.Results[4].Process = "q.1"
	r.Results[4].Why = ""
	r.Millis = 2500
	var b bytes.Buffer
	must.Do(t, r.JUnit(&b))
	var suites junitSuites
	must.Do(t, xml.Unmarshal(b.Bytes(), &suites))
	if len(suites.Suites) != 2 || suites.Tests != 5 || suites.Failures != 2 || suites.Skipped != 1 || suites.Time != "2.500" {
		t.Fatalf("%+v\n%s", suites, b.String())
	}
	p, q := suites.Suites[0], suites.Suites[1]
	if p.Name != "p.1" || p.Tests != 4 || p.Failures != 1 || p.Skipped != 1 || p.Time != "6.000" || q.Name != "q.1" || q.Tests != 1 || q.Failures != 1 {
		t.Errorf("the suites are %+v and %+v", p, q)
	}
	c := p.Cases[0]
	if c.Class != "softhca.explore.p.1" || c.Name != "p.1: call of RegMR 1 of 9 fails with ENOMEM" || c.Time != "1.500" || c.Failure == nil || c.Failure.Type != "crashed" ||
		c.Failure.Message != "why" || !strings.Contains(c.Failure.Text, `out \x1b]]>`) || !strings.Contains(c.Failure.Text, "again: softhca explore --replay 'fail nth=1 op=RegMR' -- p") {
		t.Errorf("a finding is %+v", c)
	}
	if p.Cases[1].Out != "reported: why" || p.Cases[3].Skipped == nil || q.Cases[0].Failure.Message != Hung.Text() {
		t.Errorf("%+v, %+v", p, q)
	}
}

// TestSites counts the places at which faults of a plan can happen, each once.
func TestSites(t *testing.T) {
	faults := []Fault{{Process: "p", Kind: "wc", What: "SEND", Of: 4, Error: "A"}, {Process: "p", Kind: "wc", What: "SEND", Of: 6, Error: "B"}, {Process: "p", Kind: "call", What: "SEND", Of: 1}, {Process: "q", Kind: "wc", What: "SEND", Of: 2}}
	if n := sitesOf(faults); n != 9 {
		t.Errorf("%d places", n)
	}
}

// TestIdentities plans all faults of a run: those with different rules have different identities.
func TestIdentities(t *testing.T) {
	p := sites.Process{Name: "p.1"}
	for _, c := range fault.Calls() {
		p.Calls = append(p.Calls, sites.Count{What: c, N: 2})
	}
	for _, st := range fault.Statuses() {
		if _, err := fault.Parse("wc " + st.String() + " op=SEND"); err != nil {
			continue // a SEND cannot have this status
		}
		p.Requests = append(p.Requests, sites.Count{What: "SEND", Status: st, N: 2})
	}
	for use := range p.Packets {
		for _, c := range fault.Classes() {
			p.Packets[use] = append(p.Packets[use], sites.Count{What: c, N: 2})
		}
	}
	all, _ := Plan([]sites.Process{p}, Selection{All: true})
	seen := map[identity]string{}
	for i := range all {
		id := all[i].identity()
		if before, known := seen[id]; known && before != all[i].Rule {
			t.Errorf("%s and %s are the same fault: %+v", before, all[i].Rule, id)
		}
		seen[id] = all[i].Rule
	}
	if len(all) < len(p.Calls) {
		t.Errorf("there are %d faults", len(all))
	}
}
