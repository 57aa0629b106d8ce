//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// TestRootsInUseStay: the roots of a suite that no process has locked are removed, as are unfinished
// ones of earlier runs.
func TestRootsInUseStay(t *testing.T) {
	in := t.TempDir()
	for _, dir := range []string{"trixie-old", "trixie-used", "trixie-mine", "trixie-x.part", "sid-other"} {
		must.Do(t, os.MkdirAll(filepath.Join(in, dir, "usr/bin"), 0o755))
	}
	for _, dir := range []string{"trixie-used", "trixie-mine"} {
		f, err := locked(filepath.Join(in, dir), unix.LOCK_SH)
		must.Do(t, err)
		defer f.Close()
	}
	must.Do(t, removeRoots(in, "trixie"))
	entries, err := os.ReadDir(in)
	must.Do(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"sid-other", "trixie-mine", "trixie-used"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}
