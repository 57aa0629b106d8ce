package userdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/userns"
)

// squatEnv has the directory in which the test binary, run by a stranger, takes names.
const squatEnv = "SOFTHCA_TEST_SQUAT"

// TestHelperSquatter is the stranger: it makes and removes files, directories and links under
// the names of another user's directory, as fast as it can, until it is killed.
func TestHelperSquatter(t *testing.T) {
	dir := os.Getenv(squatEnv)
	if dir == "" {
		t.Skip("it is the other user of TestHomeUnderASquatter") // not a test by itself
	}
	fmt.Println("squatting")
	for i := 0; ; i++ {
		for _, suffix := range []string{"", "-0", "-1"} {
			name := filepath.Join(dir, "softhca-0"+suffix)
			switch i % 4 {
			case 0:
				_ = os.Mkdir(name, 0o700)
			case 1:
				_ = os.Mkdir(name, 0o777)
			case 2:
				_ = os.Symlink(dir, name)
			case 3:
				_ = os.WriteFile(name, nil, 0o600)
			}
			_ = os.Remove(name)
		}
	}
}

// TestHomeUnderASquatter has another user squat the names of the directory while root asks for
// it again and again, and makes images there. Root always has a directory of its own, where
// the squatter can neither look nor write.
func TestHomeUnderASquatter(t *testing.T) {
	dir := setid.Dir(t)
	must.Do(t, os.Chmod(dir, 0o777|os.ModeSticky))
	self, err := os.Open("/proc/self/exe") // whose directory is not the stranger's to enter
	must.Do(t, err)
	defer self.Close()
	cmd := setid.AsStranger(exec.Command("/proc/self/fd/3", "-test.run=^TestHelperSquatter$"))
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = []string{squatEnv + "=" + dir}
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }() // it runs until it is killed
	begun := make([]byte, 1)
	if _, err := out.Read(begun); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", dir)
	for range 2000 {
		got, err := Home()
		if err != nil {
			t.Fatalf("no home while another user squats its names: %v", err)
		}
		if err := only(got, temporaryMode()); err != nil || filepath.Dir(got) != dir || !strings.HasPrefix(filepath.Base(got), "softhca-0") {
			t.Fatalf("home is %s: %v", got, err)
		}
		must.Do(t, os.Remove(got)) // so that there is something to squat again
	}
}

// TestHomeInADirectoryOfOthers checks that no directory is used where another user may
// replace it after the check: in a parent that others may write and that is not sticky, or
// that a stranger owns.
func TestHomeInADirectoryOfOthers(t *testing.T) {
	top := setid.Dir(t)
	for what, spoil := range map[string]func(dir string) error{
		"everybody's, not sticky": func(dir string) error { return os.Chmod(dir, 0o777) },
		"a stranger's": func(dir string) error {
			return errors.Join(os.Chown(dir, setid.Stranger, -1), os.Chmod(dir, 0o777|os.ModeSticky))
		},
		"nobody's": func(dir string) error {
			const nobody = 65534
			if userns.Ambiguous(nobody) { // a user namespace shows root of the host as nobody
				return os.Chmod(dir, 0o777)
			}
			return os.Chown(dir, nobody, -1)
		},
		"below a stranger's": func(dir string) error {
			return os.Chown(filepath.Dir(dir), setid.Stranger, -1)
		},
		"a link": func(dir string) error {
			other := dir + "-other"
			return errors.Join(os.Mkdir(other, 0o700), os.Chown(other, setid.Stranger, -1), os.Remove(dir), os.Symlink(other, dir))
		},
	} {
		dir := filepath.Join(top, strings.ReplaceAll(what, " ", "-"), "tmp")
		must.Do(t, errors.Join(os.MkdirAll(dir, 0o700), spoil(dir)))
		t.Setenv("XDG_RUNTIME_DIR", "")
		t.Setenv("TMPDIR", dir)
		if got, err := Home(); !errors.Is(err, errUnsafe) || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("%s: home is %q, %v: want the advice to name another directory by TMPDIR", what, got, err)
		}
		// A directory of the user's own is always safe.
		run := filepath.Join(top, "run")
		if err := os.Mkdir(run, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", run)
		if got, err := Home(); err != nil || filepath.Dir(got) != run {
			t.Errorf("home is %q, %v, want it in %s", got, err, run)
		}
	}
}
