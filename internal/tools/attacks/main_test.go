package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGroupsHaveTests shows that each group names a package with tests that its pattern matches.
func TestGroupsHaveTests(t *testing.T) {
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, a := range attacks {
		root := filepath.Join("../../..", strings.TrimSuffix(a.pkg, "/..."))
		pattern := regexp.MustCompile(a.run)
		found := false
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() && path != root && !strings.HasSuffix(a.pkg, "/...") {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range name.FindAllSubmatch(text, -1) {
				found = found || pattern.Match(m[1])
			}
			return err
		})
		if err != nil || !found {
			t.Errorf("%q: no test of %s matches %q (%v)", a.what, a.pkg, a.run, err)
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
