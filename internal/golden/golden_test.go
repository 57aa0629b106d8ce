package golden

import (
	"fmt"
	"testing"
)

// recorder is a test whose failures can be looked at.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func TestCompare(t *testing.T) {
	const accepts = " (go test -rewrite accepts it)"
	for got, failure := range map[string]string{
		"one\ntwo\n":        "",
		"one\nthree\nfour":  "file:2 differs" + accepts + "\n got three\nwant two",
		"one\ntwo\nthree\n": "file:3 differs" + accepts + "\n got three\nwant ",
		"one":               "file has 3 lines, and there are 1 now" + accepts,
	} {
		r := &recorder{}
		compare(r, "file", got, "one\ntwo\n")
		if fmt.Sprint(r.failures) != fmt.Sprint([]string{failure}) && (failure != "" || len(r.failures) > 0) {
			t.Errorf("%q: %q, want %q", got, r.failures, failure)
		}
	}
}
