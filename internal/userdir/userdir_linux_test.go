//go:build linux

package userdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// stranger is a user ID that is neither root's nor that of the tests.
const stranger = 23456

// TestHomeOfASquattedName checks that the user gets a directory of its own, always
// the same, if the first name is taken.
func TestHomeOfASquattedName(t *testing.T) {
	for what, squat := range map[string]func(name string) error{
		"a file":             func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"a link to a place":  func(name string) error { return os.Symlink(t.TempDir(), name) },
		"a link to nothing":  func(name string) error { return os.Symlink("/nonexistent", name) },
		"an open directory":  func(name string) error { return errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, 0o777)) },
		"another user's":     func(name string) error { return errors.Join(os.Mkdir(name, 0o700), os.Chown(name, stranger, stranger)) },
		"another user's own": func(name string) error { return errors.Join(os.Mkdir(name, 0o777), os.Chown(name, stranger, stranger)) },
	} {
		t.Run(what, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.HasPrefix(what, "another") {
				// Changing an owner is root's right.
				t.Skip("only root can make a directory of another user")
			}
			dir := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", dir)
			first := filepath.Join(dir, fmt.Sprintf("softhca-%d", os.Geteuid()))
			// The name that is tried first, and a stranger's directory in its place.
			must.Do(t, errors.Join(squat(first), squat(first+"-0")))
			got, err := Home()
			must.Do(t, err)
			if err := only(got, temporaryMode()); err != nil || got == first || got == first+"-0" || filepath.Dir(got) != dir {
				t.Errorf("home is %s, %v: want a private directory of another name in %s", got, err, dir)
			}
			if again, err := Home(); err != nil || again != got {
				t.Errorf("home is %s and then %s, %v: processes of one user would not agree", got, again, err)
			}
		})
	}
}

// TestHomesMadeAtOnce has several callers make the directory at the same time.
func TestHomesMadeAtOnce(t *testing.T) {
	const callers, rounds = 8, 50
	for range rounds {
		prefix := filepath.Join(t.TempDir(), "softhca-1-")
		start, got := make(chan struct{}), make(chan string)
		for range callers {
			go func() {
				<-start
				dir, err := another(prefix, privateMode)
				if err != nil {
					dir = err.Error()
				}
				got <- dir
			}()
		}
		close(start)
		first := <-got
		for range callers - 1 {
			if dir := <-got; dir != first {
				t.Errorf("one caller uses %s and another %s", first, dir)
			}
		}
		if left, err := filepath.Glob(prefix + "*"); err != nil || len(left) != 1 || left[0] != first {
			t.Fatalf("%q, %v is left: want %s alone", left, err, first)
		}
	}
}

// TestAllNamesSquatted has others take every name that is tried, and then leave one.
func TestAllNamesSquatted(t *testing.T) {
	base := t.TempDir()
	prefix := filepath.Join(base, "softhca-1-")
	for i := range maxSquatted {
		must.Do(t, os.WriteFile(prefix+strconv.Itoa(i), nil, 0o600))
	}
	dir, err := another(prefix, privateMode)
	if err != nil || filepath.Dir(dir) != base || private(dir) != nil || dir == prefix+strconv.Itoa(maxSquatted) {
		t.Errorf("with %d names taken the directory is %s, %v; want one with a random name", maxSquatted, dir, err)
	}
	last := prefix + strconv.Itoa(maxSquatted-1)
	must.Do(t, os.Remove(last))
	if dir, err := another(prefix, privateMode); err != nil || dir != last {
		t.Errorf("with one name free the directory is %s, %v; want %s", dir, err, last)
	}
}

// TestHomeWithoutARuntimeDirectoryOfOurs falls back on the directory for temporary files.
func TestHomeWithoutARuntimeDirectoryOfOurs(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	must.Do(t, errors.Join(os.Mkdir(run, 0o700), os.WriteFile(filepath.Join(run, "softhca"), nil, 0o600)))
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("TMPDIR", dir)
	if got, err := Home(); err != nil || filepath.Dir(got) != dir {
		t.Errorf("home is %s, %v: want it in %s", got, err, dir)
	}
}

// homeEnv in its environment makes the test binary print its home.
const homeEnv = "SOFTHCA_TEST_HOME"

// TestHomeInAUserNamespace has processes ask for their home in a user namespace in which
// they are root, as after unshare -rU, and one in which they are the user as whom
// those appear that the namespace does not have. Root of the host has its directory.
func TestHomeInAUserNamespace(t *testing.T) {
	if os.Getenv(homeEnv) != "" {
		got, err := Home()
		fmt.Printf("home %s, %v\n", got, err)
		return
	}
	if os.Geteuid() != 0 {
		// Root maps another user than itself.
		t.Skip("only root can start processes of another user")
	}
	self, err := os.Open("/proc/self/exe") // whose directory is not the stranger's to enter
	must.Do(t, err)
	defer self.Close()
	for _, uid := range []int{0, 65534} {
		dir, err := os.MkdirTemp("/tmp", "softhca-test-") // whose parents everybody can enter
		if err == nil {
			err = os.Chmod(dir, 0o777|os.ModeSticky)
		}
		must.Do(t, err)
		defer os.RemoveAll(dir)
		roots := filepath.Join(dir, fmt.Sprintf("softhca-%d", uid))
		must.Do(t, os.Mkdir(roots, 0o700))
		cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestHomeInAUserNamespace$")
		cmd.ExtraFiles = []*os.File{self}
		cmd.Dir, cmd.Env = "/", []string{homeEnv + "=1", "TMPDIR=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: stranger, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: stranger, Size: 1}},
			Credential:  &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true},
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			// Some systems forbid them, or have none left.
			t.Skipf("no user namespaces here: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "home "+roots+"-") || !strings.Contains(string(out), ", <nil>") {
			t.Errorf("as user %d of a namespace: %v, %s: want a home %s-...", uid, err, out, roots)
		}
	}
}

// TestPrivate refuses places where others could write or read.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(os.Mkdir(open, 0o700), os.Symlink(open, link)))
	if err := private(open); err != nil {
		t.Error(err)
	}
	if private(link) == nil {
		t.Error("a symbolic link is private")
	}
	must.Do(t, os.Chmod(open, 0o750))
	if private(open) == nil {
		t.Error("a directory that others may read is private")
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", dir)
	if got, err := Home(); err != nil || filepath.Dir(got) != dir {
		t.Errorf("home is %s, %v", got, err)
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	if got, err := Home(); err != nil || got != filepath.Join(dir, "run", "softhca") {
		t.Errorf("with a runtime directory home is %s, %v", got, err)
	}
}
