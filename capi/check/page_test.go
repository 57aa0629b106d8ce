//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// TestPages: each page has one row for each case of its suite, no others, and the reasons why unit tests
// skip themselves. -rewrite writes everything except the rows, which come from runs.
func TestPages(t *testing.T) {
	for _, suite := range []string{host, "trixie", "sid"} {
		page := filepath.Join("../..", pageOf(suite))
		text, err := os.ReadFile(page)
		must.Do(t, err)
		all := names(t, suite)
		var rows []string
		for _, m := range rowsOf(string(text)) {
			rows = append(rows, m[1])
		}
		for _, name := range all {
			if !slices.Contains(rows, name) {
				t.Errorf("%s has no row of %q: run it with go run ./capi/check -root %s -write -run", pageOf(suite), name, suite)
			}
		}
		want, err := pageText(suite, merged(all, nil, string(text)), skippedIn(t, suite))
		must.Do(t, err)
		golden.Check(t, page, want)
	}
}

// TestMerged: a page has the cases in the order of the list. Cases that did not run keep their rows;
// rows of cases that are not in the list are removed.
func TestMerged(t *testing.T) {
	const old = "# Programs\n\n| package | program | outcome |\n|---|---|---|\n| p | `a -x` | ok |\n| p | `gone` | ok |\n| q | `b` | FAILED |\n" +
		skipsTitle + "| q | `new` | not a case |\n"
	rows := map[string]string{"b": "| q | `b` | ok |\n", "c": "| r | `c` | skipped: why |\n", "other": "| r | `other` | ok |\n"}
	got := merged([]string{"c", "a -x", "b", "new"}, rows, old)
	if want := "| r | `c` | skipped: why |\n| p | `a -x` | ok |\n| q | `b` | ok |\n"; got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}
