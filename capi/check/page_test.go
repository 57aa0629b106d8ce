//go:build linux

package main

import "testing"

// TestMerged: a page has the cases of the list in its order. Those that did not run keep their rows,
// and those that the list lacks lose them.
func TestMerged(t *testing.T) {
	const old = "# Programs\n\n| package | program | outcome |\n|---|---|---|\n| p | `a -x` | ok |\n| p | `gone` | ok |\n| q | `b` | FAILED |\n" +
		skipsTitle + "| q | `new` | not a case |\n"
	rows := map[string]string{"b": "| q | `b` | ok |\n", "c": "| r | `c` | skipped: why |\n", "other": "| r | `other` | ok |\n"}
	got := merged([]string{"c", "a -x", "b", "new"}, rows, old)
	if want := "| r | `c` | skipped: why |\n| p | `a -x` | ok |\n| q | `b` | ok |\n"; got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}
