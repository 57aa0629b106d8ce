//go:build linux

package debian

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestMissing finds programs in PATH and files by their path.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	must.Do(t, os.WriteFile(filepath.Join(dir, "there"), []byte("#!/bin/sh\n"), 0o755))
	got := Needed{"a": "there", "b": filepath.Join(dir, "there"), "d": "gone", "c": filepath.Join(dir, "gone")}.Missing()
	if want := []string{"c", "d"}; !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
}

// TestInstallSaysHow returns the command that installs the packages if it cannot run apt-get.
func TestInstallSaysHow(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	err := Needed{"some-package": "some-program"}.Install(context.Background(), &out)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends some-package`") {
		t.Errorf("got %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it wrote %q", out.String())
	}
}

// TestInstall runs apt-get with the missing packages only, shows its output, and reports its
// failure and packages without the file.
func TestInstall(t *testing.T) {
	if os.Geteuid() != 0 {
		// Others cannot install packages: TestInstallSaysHow is about them.
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "file")
	needed := Needed{"shell": "/bin/sh", "some-package": file}
	for _, c := range []struct{ name, script, fails, writes string }{
		{"it has the file", `echo "ran $*"; : >"` + file + `"`, "", "ran install -y --no-install-recommends some-package\n"},
		{"it lacks the file", `:`, "some-package", ""},
		{"no network", `echo failure resolving; exit 100`, "apt-get update: exit status 100", "failure resolving\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = os.Remove(file) // absent before the first case
			programsAre(t, map[string]string{"apt-get": c.script})
			var out strings.Builder
			err := needed.Install(context.Background(), &out)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("got the error %v, want %q", err, c.fails)
			}
			if !strings.Contains(out.String(), c.writes) {
				t.Errorf("it wrote %q", out.String())
			}
		})
	}
	if err := (Needed{"shell": "/bin/sh"}).Install(context.Background(), nil); err != nil {
		t.Errorf("nothing to install: %v", err)
	}
}
