package identity

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/internal/must"
)

// TestSharedSecrets offers secrets that others know or can replace, and files that block or
// have no end. None is used, and none is replaced.
func TestSharedSecrets(t *testing.T) {
	for what, spoil := range map[string]func(name string) error{
		"others can read":  func(name string) error { return os.Chmod(name, 0o644) },
		"others can write": func(name string) error { return os.Chmod(name, 0o622) },
		"a pipe":           func(name string) error { return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)) },
		"an endless file":  func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/dev/zero", name)) },
	} {
		dir := t.TempDir()
		if _, err := load(dir); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "secret")
		must.Do(t, spoil(name))
		if _, err := load(dir); !errors.Is(err, errShared) {
			t.Errorf("%s: the secret is used (%v)", what, err)
		}
	}
}

// TestSecretOfAnotherUser has root run with the HOME of a user, as sudo may: the user's secret
// is not root's, and root leaves none in the user's directory.
func TestSecretOfAnotherUser(t *testing.T) {
	top := setid.Dir(t)
	dir, empty := filepath.Join(top, "full"), filepath.Join(top, "empty")
	if _, err := load(dir); err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(os.Chown(filepath.Join(dir, "secret"), setid.Stranger, -1), os.Mkdir(empty, 0o700), os.Chown(empty, setid.Stranger, -1)))
	for _, d := range []string{dir, empty, filepath.Join(empty, "softhca"), filepath.Join(empty, ".config", "softhca")} {
		if _, err := load(d); !errors.Is(err, errShared) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) != 0 {
		t.Errorf("root leaves %v in the directory of a user (%v)", files, err)
	}
}
