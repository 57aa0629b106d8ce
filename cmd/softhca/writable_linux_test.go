package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestCheckCaptureChangesNothing checks captures that do not exist, and links to such.
func TestCheckCaptureChangesNothing(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.Mkdir(at("sub"), 0o700))
	links := map[string]string{"cap": at("sub/target"), "relative": "sub/target", "twice": "cap", "lost": at("none/target"), "loop": "loop"}
	for name, target := range links {
		must.Do(t, os.Symlink(target, at(name)))
	}
	for name, ok := range map[string]bool{
		"new": true, "sub/new": true, "cap": true, "relative": true, "twice": true, "lost": false, "none/new": false, "loop": false, "sub": false,
	} {
		if err := checkCapture("--capture", at(name)); (err == nil) != ok {
			t.Errorf("%s: %v, want it to be usable: %t", name, err, ok)
		}
	}
	for name, target := range links {
		if got, err := os.Readlink(at(name)); err != nil || got != target {
			t.Errorf("the link %s points to %q, %v: want %q", name, got, err, target)
		}
	}
	for _, c := range []struct {
		dir  string
		want int
	}{{dir, len(links) + 1}, {at("sub"), 0}} {
		if files, err := os.ReadDir(c.dir); err != nil || len(files) != c.want {
			t.Errorf("%s has %d files, %v: want %d", c.dir, len(files), err, c.want)
		}
	}
}
