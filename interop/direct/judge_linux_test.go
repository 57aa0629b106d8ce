package direct

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/judge"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/interop/image"
)

// There is a report of each kernel, with every script that the cases play.
func TestReportsAreThere(t *testing.T) {
	for _, kernel := range image.Kernels() {
		r, err := judge.ReadFile(filepath.Join("..", "..", judged(kernel)))
		must.Do(t, err)
		if !strings.HasPrefix(r.Adapter.Kernel, kernel+".") {
			t.Errorf("the report of kernel %s is of %s", kernel, r.Adapter.Kernel)
		}
		there := map[string]bool{}
		for _, one := range r.Results {
			there[one.Script] = true
		}
		n := 0
		for _, name := range script.Names() {
			if strings.HasPrefix(name, "p") {
				n++
				if !there[name] {
					t.Errorf("the report of kernel %s has no %s", kernel, name)
				}
			}
		}
		if n < 30 {
			t.Errorf("only %d scripts are played", n)
		}
	}
}

func TestCompare(t *testing.T) {
	report := func(results ...*judge.Result) *judge.Report { return &judge.Report{Results: results} }
	agrees := func(name string) *judge.Result { return &judge.Result{Script: name, Verdict: judge.Agrees} }
	differs := &judge.Result{Script: "p02", Verdict: judge.Differs, Differences: []judge.Difference{{Line: 7, Want: "ACK", Got: "nothing"}}}
	want := report(agrees("e01"), agrees("p01"), agrees("p02"))
	for _, c := range []struct {
		got  *judge.Report
		says string // all that is said, in order; "" for the same
	}{
		{report(agrees("p01"), agrees("p02")), ""},
		{report(agrees("p01"), differs), "p02: differs (line 7: want ACK, got nothing), there agrees"},
		{report(agrees("p01"), &judge.Result{Script: "p02", Verdict: judge.NotJudged, Reason: "its 3 runs differ"}), "p02: not judged (its 3 runs differ), there agrees"},
		{report(agrees("p02")), "p01 was not judged to the end"},
		{report(agrees("p01"), agrees("p02"), agrees("p03")), "p03 is not there: run softhca judge anew, and keep its report"},
	} {
		if says := strings.Join(compare(want, c.got), "|"); says != c.says {
			t.Errorf("%q, want %q", says, c.says)
		}
	}
}
