package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/suite"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // in what is printed; "" for a good line
	}{
		{"", ""},
		{"-kernel 6.12 -keep -run ^$", ""},
		{"-short -run rping", ""},
		{"-kernel 5.4", "want one of 6.1, 6.12, both"},
		{"-short -all", "want one of them"},
		{"-failed", ""},
		{"-failed -run rping", "want none of"},
		{"-failed -kernel 6.1", "want none of"},
		{"-keep", "say -kernel"},
		{"-run (", "missing closing"},
		{"rping", `no argument "rping"`},
		{"-nonsense", "not defined"},
	} {
		var out bytes.Buffer
		_, err := parse(strings.Fields(c.args), &out)
		if (err != nil) != (c.want != "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: %v\n%s", c.args, err, out.String())
		}
	}
	var help bytes.Buffer
	if _, err := parse([]string{"-h"}, &help); err == nil || !strings.Contains(help.String(), "Examples:") {
		t.Errorf("the help has no examples: %v", err)
	}
}

// The children of a run share its cases among them.
func TestChildrenShareTheCases(t *testing.T) {
	whole := order{Kernels: []string{"6.1", "6.12"}}
	all, err := whole.cases()
	must.Do(t, err)
	n := 0
	for _, k := range whole.Kernels {
		mine := whole
		mine.Kernel = k
		cases, err := mine.cases()
		if err != nil || len(cases) == 0 {
			t.Fatal(len(cases), err)
		}
		n += len(cases)
	}
	if n != len(all) || n < 150 {
		t.Errorf("%d of %d cases", n, len(all))
	}
	whole.Run = "("
	if _, err := whole.cases(); err == nil {
		t.Error("a wrong pattern is no error")
	}
}

func TestProgress(t *testing.T) {
	o := order{Kernels: []string{"6.1"}, Run: "^rdma_client/6.1/plain/server/"}
	cases, err := o.cases()
	if err != nil || len(cases) != 4 {
		t.Fatal(len(cases), err)
	}
	var out bytes.Buffer
	p := newProgress(&out, cases)
	p.again = " -cache /the/cache"
	r, w, err := os.Pipe()
	must.Do(t, err)
	told := make(chan error)
	go func() { told <- p.listen(r) }()
	enc := json.NewEncoder(w)
	for i, c := range cases[:3] {
		res := suite.Result{ID: c.ID(), Values: map[string]string{"kernel": "6.1"}, Verdict: suite.Pass, Sent: 2, Got: 3}
		if i == 1 {
			res.Verdict, res.Note, res.Dir = suite.Fail, "why", "/the/capture"
		}
		for _, e := range []event{{Begun: c.ID()}, {Ended: &res}} {
			must.Do(t, enc.Encode(e))
		}
	}
	must.Do(t, enc.Encode(event{Err: "the guest is gone\n"}))
	if _, err := io.WriteString(w, `{"Begun": "cut of`); err != nil { // the child was killed
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	if err := <-told; err == nil || err.Error() != "the guest is gone" {
		t.Errorf("the child's error is %v", err)
	}
	for _, want := range []string{"[1/4] pass", "[2/4] FAIL", ": why", "left", "again:   go run ./interop -cache /the/cache -kernel 6.1 -run '^" + cases[1].ID() + "$'", "capture: /the/capture"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if p.failed() != 1 || len(p.results()) != 3 {
		t.Errorf("%d failed, %d results", p.failed(), len(p.results()))
	}
	if s := p.summary(time.Minute); !strings.Contains(s, "2 passed") || !strings.Contains(s, "6 packets sent, 9 received") || !strings.Contains(s, "of 4") {
		t.Errorf("%s", s)
	}
}

// The documentation lists the packages that a run needs.
func TestPackagesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	must.Do(t, err)
	for pkg := range needed {
		if !strings.Contains(string(text), "`"+pkg+"`") {
			t.Errorf("CONTRIBUTING.md does not name the package %s", pkg)
		}
	}
}
