package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/must"
)

// TestPrivilegedCommand starts a command with more rights than its user has. As set-user-ID
// it refuses to do anything; with capabilities it does what a user needs them for, but runs
// no program.
func TestPrivilegedCommand(t *testing.T) {
	dir := setid.Dir(t)
	self, err := os.ReadFile("/proc/self/exe")
	must.Do(t, err)
	for _, kind := range setid.Kinds() {
		command := filepath.Join(dir, "softhca")
		must.Do(t, errors.Join(os.RemoveAll(command), os.WriteFile(command, self, 0o755)))
		setid.Grant(t, kind, command)
		run := func(args ...string) string {
			cmd := setid.AsStranger(exec.Command(command, args...))
			out, _ := cmd.CombinedOutput() // which says what happened
			return string(out)
		}
		want, other := errSetID.Error(), errSetID.Error()
		if kind == setid.Capabilities {
			want, other = errRunPrivileged.Error(), "complete"
		}
		if out := run("run", "--", "id"); !strings.Contains(out, want) || strings.Contains(out, "uid=") {
			t.Errorf("%s, run: %q, want %q", kind, out, want)
		}
		if out := run("completion", "bash"); !strings.Contains(out, other) {
			t.Errorf("%s, completion: %.200q, want %q", kind, out, other)
		}
	}
}
