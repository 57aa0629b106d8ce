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
//
// Other users can pass through that of root in the directory for temporary files: programs that root
// starts may become other users, as with setpriv, and must still find their image of /sys. They can
// neither list nor write it, and each file and directory in it has a mode of its own.
func Home() (string, error) {
	if run := environ.Getenv("XDG_RUNTIME_DIR"); run != "" && private(run) == nil {
		if dir := filepath.Join(run, "softhca"); ours(dir, privateMode) == nil {
			return filepath.EvalSymlinks(dir)
		}
	}
	temp := environ.TempDir()
	if err := safe(temp); err != nil {
		return "", fmt.Errorf("create a directory for what adapters share in %s: %w; set TMPDIR to use another one", temp, err)
	}
	dir := filepath.Join(temp, fmt.Sprintf("softhca-%d", os.Geteuid()))
	mode := temporaryMode()
	err := ours(dir, mode)
	if errors.Is(err, errNotPrivate) {
		dir, err = another(dir+"-", mode)
	}
	if err != nil {
		return "", fmt.Errorf("create a directory for what adapters share: %w; set TMPDIR to use another one", err)
	}
	// Programs see paths without symbolic links, which must begin like this.
	return filepath.EvalSymlinks(dir)
}

// The modes of directories: other users have no access, or can pass through.
const (
	privateMode  fs.FileMode = 0o700
	passableMode fs.FileMode = 0o711
)

// temporaryMode returns the mode of a home in the directory for temporary files.
func temporaryMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return passableMode
	}
	return privateMode
}

// ours creates a directory with a mode if it does not exist. It returns an error if the directory is
// not this user's, or its mode gives others more rights.
func ours(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, privateMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := only(dir, mode)
	if errors.Is(err, fs.ErrNotExist) { // another user has just removed what had the name
		return fmt.Errorf("%s: %w", dir, errNotPrivate)
	}
	if err == nil && mode != privateMode {
		err = os.Chmod(dir, mode)
	}
	return err
}

// maxSquatted is how many names are tried before a random one.
const maxSquatted = 100

// another returns the first directory, of those named prefix and a number from 0, that is
// private or that it can create. The user's processes agree, because all try the same names
// in the same order. If other users have all of them, the name is random, and each run makes
// a new directory.
func another(prefix string, mode fs.FileMode) (string, error) {
	for i := range maxSquatted {
		dir := prefix + strconv.Itoa(i)
		if err := ours(dir, mode); !errors.Is(err, errNotPrivate) {
			return dir, err
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix))
	if err == nil {
		err = os.Chmod(dir, mode)
	}
	return dir, err
}

// errNotPrivate is the error of a directory that others may use.
var errNotPrivate = fmt.Errorf("the directory is not private to this user: %w", ib.EPERM)

// private returns an error unless dir is a directory that this user owns and only this user may use.
func private(dir string) error { return only(dir, privateMode) }

// only returns an error unless dir is a directory, and not a symbolic link to one, that this user
// owns and that gives others no right beyond those of a mode. A user namespace shows all users
// outside of it as the same UID, so the owner is not enough: the process must have access too.
func only(dir string, mode fs.FileMode) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077&^mode != 0 ||
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
