package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// programsAre puts scripts in the place of programs.
func programsAre(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// The error of an archive that cannot be reached says what to do, unless the lists of
// an earlier run are there.
func TestNoNetwork(t *testing.T) {
	programsAre(t, map[string]string{"apt-get": `echo "Temporary failure resolving"; exit 100`, "apt-cache": "exit 0"})
	a := &Archive{Dir: t.TempDir(), Sources: Main("bookworm"), Say: t.Logf, Advice: "Look elsewhere"}
	err := a.Update(t.Context())
	for _, want := range []string{"Temporary failure resolving", "http://deb.debian.org", "http_proxy", "Look elsewhere"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without a network, update does not say %q: %v", want, err)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(a.Dir, "state/lists/x_Packages"), nil, 0o600))
	if err := a.Update(t.Context()); err != nil {
		t.Errorf("the lists of an earlier run are not used: %v", err)
	}
	programsAre(t, map[string]string{"apt-get": `case "$*" in *print-uris*) echo "'http://x/a.deb' a.deb 1 SHA256:0";; *) echo "404 Not Found"; exit 100;; esac`})
	must.Do(t, os.MkdirAll(filepath.Join(a.Dir, "cache/archives"), 0o700))
	if _, err := a.Download(t.Context(), "", "a"); err == nil || !strings.Contains(err.Error(), "404 Not Found") || !strings.Contains(err.Error(), "check that this machine reaches it") {
		t.Errorf("a package cannot be fetched: %v", err)
	}
}

func TestWhatAptPrints(t *testing.T) {
	const uris = "Reading...\n'http://x/a/libc6_2.36-9+deb12u14_amd64.deb' libc6_2.36-9+deb12u14_amd64.deb 2748 SHA256:00\n"
	if m := uri.FindStringSubmatch(uris); m == nil || m[1] != "libc6_2.36-9+deb12u14_amd64.deb" {
		t.Errorf("%q", m)
	}
}
