//go:build linux

package userdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/userns"
)

// Home returns the directory, which it creates if necessary. It is
// XDG_RUNTIME_DIR/softhca, or softhca-UID in the directory for temporary files. If the latter
// belongs to another user, or to root outside of this process's user namespace, it is
// softhca-UID-N.
func Home() (string, error) {
	if run := environ.Getenv("XDG_RUNTIME_DIR"); run != "" && private(run) == nil {
		if dir := filepath.Join(run, "softhca"); ours(dir) == nil {
			return filepath.EvalSymlinks(dir)
		}
	}
	temp := environ.TempDir()
	if err := safe(temp); err != nil {
		return "", fmt.Errorf("create a directory for what adapters share in %s: %w; set TMPDIR to use another one", temp, err)
	}
	dir := filepath.Join(temp, fmt.Sprintf("softhca-%d", os.Geteuid()))
	err := ours(dir)
	if errors.Is(err, errNotPrivate) {
		dir, err = another(dir + "-")
	}
	if err != nil {
		return "", fmt.Errorf("create a directory for what adapters share: %w; set TMPDIR to use another one", err)
	}
	// Programs see paths without symbolic links, which must begin like this.
	return filepath.EvalSymlinks(dir)
}

// ours creates a directory if it does not exist, and returns an error if it is not private.
func ours(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := private(dir)
	if errors.Is(err, fs.ErrNotExist) { // another user has just removed what had the name
		return fmt.Errorf("%s: %w", dir, errNotPrivate)
	}
	return err
}

// maxSquatted is how many names are tried before a random one.
const maxSquatted = 100

// another returns the first directory, of those named prefix and a number from 0, that is
// private or that it can create. The user's processes agree, because all try the same names
// in the same order. If other users have all of them, the name is random, and each run makes
// a new directory.
func another(prefix string) (string, error) {
	for i := range maxSquatted {
		dir := prefix + strconv.Itoa(i)
		if err := ours(dir); !errors.Is(err, errNotPrivate) {
			return dir, err
		}
	}
	return os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix)) // with mode 0700
}

// errNotPrivate is the error of a directory that others may use.
var errNotPrivate = fmt.Errorf("the directory is not private to this user: %w", ib.EPERM)

// private returns an error unless dir is a directory, and not a symbolic link to one, that
// this user owns and only this user may use. A user namespace shows all users outside of it
// as the same UID, so the owner is not enough: the process must have access too.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 ||
		unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		return fmt.Errorf("%s: %w", dir, errNotPrivate)
	}
	return nil
}

// errUnsafe is the error of a directory in which another user may replace this user's.
var errUnsafe = fmt.Errorf("another user can replace directories in it: %w", ib.EPERM)

// safe returns an error if another user could replace a directory of this user in dir: if the
// other owns dir or a directory above it, or may write there and no sticky bit protects what
// is this user's. Groups are trusted, since many systems give each user one.
func safe(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		open := info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0
		if !ok || open || !trusted(int(stat.Uid)) {
			return fmt.Errorf("%s: %w", dir, errUnsafe)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// trusted reports whether a user is this one or root. In a user namespace, root of the host
// appears as the user whom the kernel shows for all that the namespace does not map.
func trusted(uid int) bool {
	return uid == 0 || uid == os.Geteuid() || userns.Ambiguous(uid)
}
