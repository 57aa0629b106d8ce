package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGroupsHaveTests shows that each group names a package with tests that its pattern matches.
func TestGroupsHaveTests(t *testing.T) {
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, a := range attacks {
		root := filepath.Join("../../..", strings.TrimSuffix(a.pkg, "/..."))
		missing := parts(a.run)
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() && path != root && !strings.HasSuffix(a.pkg, "/...") {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range name.FindAllSubmatch(text, -1) {
				missing = slices.DeleteFunc(missing, func(part *regexp.Regexp) bool { return part.Match(m[1]) })
			}
			return err
		})
		if err != nil || len(missing) > 0 {
			t.Errorf("%q: no test of %s matches %q (%v)", a.what, a.pkg, missing, err)
		}
	}
}

// parts splits a pattern at each |, except for those in parentheses.
func parts(pattern string) (all []*regexp.Regexp) {
	depth, begin := 0, 0
	for i, r := range pattern + "|" {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == '|' && depth == 0:
			all = append(all, regexp.MustCompile(pattern[begin:i]))
			begin = i + 1
		}
	}
	return all
}

// TestOutcomes tells skipped tests from those that passed.
func TestOutcomes(t *testing.T) {
	const pass, skip = "--- PASS: TestA (0.00s)\n", "--- SKIP: TestB (0.00s)\n    b_test.go:1: not root\n"
	for _, c := range []struct{ out, want string }{
		{pass + "ok", "ok"}, {pass + skip + "    " + skip, "ok, 2 skipped (run as root)"}, {skip, "skipped (run as root)"},
	} {
		if got := outcome(c.out); got != c.want {
			t.Errorf("%q, want %q, of\n%s", got, c.want, c.out)
		}
	}
}

// TestFailuresCount runs a group that has no tests, and one that is interrupted.
func TestFailuresCount(t *testing.T) {
	t.Chdir("../../..")
	var out strings.Builder
	none := []attack{{"nothing", "./internal/clock", "NoSuchTest", nil}}
	if n := runAll(t.Context(), &out, none); n != 1 || !strings.Contains(out.String(), "no test of ./internal/clock matches") {
		t.Errorf("%d failed groups, and\n%s", n, out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n := runAll(ctx, &out, append(none, none...)); n != 2 {
		t.Errorf("after an interruption %d of 2 groups failed", n)
	}
}
