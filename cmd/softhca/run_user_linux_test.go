package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/must"
)

// TestRunAsAnotherUser has root run programs that become another user. They find the adapter in /sys
// and can write to its devices, and they can neither write nor list what root keeps, nor read the
// counters.
func TestRunAsAnotherUser(t *testing.T) {
	dir := setid.Dir(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("no setpriv: install util-linux") // the program that becomes another user
	}
	t.Setenv("TMPDIR", dir)
	i := install(t)
	must.Do(t, os.Chmod(filepath.Dir(filepath.Dir(filepath.Dir(i.command))), 0o755)) // the test's directory for temporary files
	t.Setenv("TMPDIR", dir)
	addr := loopback(62)
	user := fmt.Sprint(setid.Stranger)
	other := []string{"--addr", addr, "--", "setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "sh", "-c"}
	for script, want := range map[string]string{
		"id -u":          user + "\n",
		"ls " + sysClass: "softhca0\n",
		"cd " + sysClass + "/softhca0/ports/1 && cat gids/0 state hw_counters/sent_pkts":                                                              gidLine(addr) + "4: ACTIVE\n0\n",
		"cat " + sysClass + "_verbs/uverbs0/dev":                                                                                                      "231:192\n",
		"test -r /dev/infiniband/rdma_cm && test -w /dev/infiniband/rdma_cm && test -w /dev/infiniband/uverbs0 && stat -c %F /dev/infiniband/uverbs0": "character special file\n",
		`ls "$SOFTHCA_SYSFS/.." 2>/dev/null || echo no`:                                                                                               "no\n",
		`cat "$SOFTHCA_SYSFS/board" 2>/dev/null || echo no`:                                                                                           "no\n",
		`find "$SOFTHCA_SYSFS" \( -type f -o -type d \) -writable`:                                                                                    "",
	} {
		for _, umask := range []string{"022", "077"} {
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", "umask " + umask + ` && exec "$@"`, "sh", i.command, "run"}, append(other, script)...)...)
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s, with umask %s: %v, %q, want %q", script, umask, err, out, want)
			}
			must.Do(t, os.RemoveAll(filepath.Join(dir, "softhca-0"))) // so that the next run makes the image with its umask
		}
	}
	wantModes(t, i, other, dir)
}

// wantModes checks the modes of all that a run of root leaves: other users can write nothing.
func wantModes(t *testing.T, i installation, other []string, dir string) {
	t.Helper()
	state, _, errs := i.run(t, append(other, "true")...)
	if !state.Success() {
		t.Fatalf("%v: %s", state, errs)
	}
	n := 0
	must.Do(t, filepath.WalkDir(filepath.Join(dir, "softhca-0"), func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		n++
		inImage := strings.Contains(path, "/sys/") || strings.Contains(path, "/dev/")
		mode := info.Mode().Perm()
		if mode&0o022 != 0 || f.Type().IsRegular() && !inImage && mode&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	if n < 50 {
		t.Errorf("the image has %d files, want at least 50", n)
	}
}
