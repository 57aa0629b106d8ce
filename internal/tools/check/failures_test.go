package main

import (
	"strings"
	"testing"
)

// TestFailures checks that the result has the output of a failed test, and of a
// test that was running when go test killed its package.
func TestFailures(t *testing.T) {
	const events = `{"Action":"output","Package":"p","Test":"TestGood","Output":"good\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"bad\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestHangs","Output":"=== RUN TestHangs\n"}
{"Action":"output","Package":"p","Output":"FAIL p 360s\n"}
{"Action":"fail","Package":"p"}
`
	got, err := failures(strings.NewReader(events))
	if want := "bad\nFAIL p 360s\n=== RUN TestHangs\n"; got != want || err != nil {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
}
