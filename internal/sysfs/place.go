//go:build linux

package sysfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
)

// Picture is a picture that is in use.
type Picture struct {
	Root string
	// Lock says that it is in use, as long as the file is open here or wherever it
	// was inherited.
	Lock *os.File
}

// keep is how long a picture stays that nobody seems to use: a program may have
// closed the file of the lock, like all that it did not open.
const keep = 24 * time.Hour

// Show makes the picture of some adapters, or finds the one that others use. If
// nobody does, its counters begin at 0. It removes pictures that nobody has used
// for a day.
func Show(ds ...Description) (*Picture, error) {
	for i := range ds {
		if err := ds[i].Check(); err != nil {
			return nil, err
		}
	}
	base, err := home()
	if err != nil {
		return nil, err
	}
	p, err := show(base, ds, time.Now())
	if err != nil {
		return nil, fmt.Errorf("the picture of /sys in %s: %w; TMPDIR names another place", base, err)
	}
	return p, nil
}

// home returns the directory of the user's pictures, to which no other user has access.
// It is XDG_RUNTIME_DIR/softhca, or softhca-UID in the directory for temporary files.
// Anybody can create the latter first, or root may have before the process entered a
// user namespace in which it is root too: then it is softhca-UID-NUMBER.
func home() (string, error) {
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" && private(run) == nil {
		if dir := filepath.Join(run, "softhca"); ours(dir) == nil {
			return filepath.EvalSymlinks(dir)
		}
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("softhca-%d", os.Geteuid()))
	err := ours(dir)
	if errors.Is(err, errNotPrivate) {
		dir, err = another(dir + "-")
	}
	if err != nil {
		return "", fmt.Errorf("a directory for the picture of /sys: %w; TMPDIR names another place", err)
	}
	// Programs see paths without symbolic links, which must begin like this.
	return filepath.EvalSymlinks(dir)
}

// ours makes a directory unless it exists, and returns an error unless it is private.
func ours(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return private(dir)
}

// maxSquatted bounds the names that are tried before a random one.
const maxSquatted = 100

// another returns the first private directory of those named prefix and a number, and
// makes it if nothing has its name. The user's processes agree because they all try
// the same names. If other users have all of these, the directory has a random name.
func another(prefix string) (string, error) {
	for i := range maxSquatted {
		dir := prefix + strconv.Itoa(i)
		if err := ours(dir); !errors.Is(err, errNotPrivate) {
			return dir, err
		}
	}
	return os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix)) // with mode 0700
}

// errNotPrivate is why a directory is not used.
var errNotPrivate = fmt.Errorf("it is not a directory of this user alone: %w", ib.EPERM)

// private returns an error unless dir is a directory, and not a symbolic link to one, that
// this user owns and only this user may use. A user namespace shows all users that it
// does not have as one, so the owner's number alone proves nothing: the process
// must have access too.
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

func show(base string, ds []Description, now time.Time) (*Picture, error) {
	setup, err := alone(filepath.Join(base, "setup"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = setup.Close() }() // which only unlocks it
	all := entries(ds)
	root := filepath.Join(base, ds[0].Name+"@"+hash(all))
	lock, err := os.OpenFile(root+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = claim(lock, root, all, len(ds)); err == nil {
		// From its age others see that it is in use.
		err = os.Chtimes(lock.Name(), now, now)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	sweep(base, now)
	return &Picture{root, lock}, nil
}

// hash returns a name for a picture: one that shows anything else has another.
func hash(all []entry) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%+v %d", all, layout()) // a hash takes everything
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// claim locks a picture as one of its users, and makes it unless others use it.
func claim(lock *os.File, root string, all []entry, adapters int) error {
	fd := int(lock.Fd())
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	if _, gone := os.Lstat(filepath.Join(root, boardName)); err == nil || gone != nil {
		if err := remake(root, all, adapters); err != nil {
			return err
		}
	}
	return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
}

// remake replaces a picture. Who has files of the old one open keeps them.
func remake(root string, all []entry, adapters int) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(root), "new-")
	if err != nil {
		return err
	}
	err = errors.Join(write(made, all), newBoards(made, adapters))
	if err == nil {
		err = os.Rename(made, root)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return nil
}

// patience bounds how long another process may take to set up a picture.
const patience = 10 * time.Second

// alone returns the file, locked against other processes that do the same.
func alone(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("lock %s, which another process has: %w", name, err), f.Close())
		}
	}
}

// sweep removes the pictures that nobody uses and nobody has begun to use for a
// while, and what an interrupted remake left. What cannot be removed stays: it
// does no harm.
func sweep(base string, now time.Time) {
	files, _ := os.ReadDir(base)
	for _, f := range files {
		name := filepath.Join(base, f.Name())
		switch root, ok := strings.CutSuffix(name, ".lock"); {
		case ok:
			discard(root, now)
		case strings.HasPrefix(f.Name(), "new-"): // nobody else makes one now
			_ = os.RemoveAll(name)
		}
	}
}

// discard removes a picture unless it is in use or was not long ago.
func discard(root string, now time.Time) {
	lock, err := os.OpenFile(root+".lock", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = lock.Close() }() // which only unlocks it
	info, err := lock.Stat()
	if err != nil || now.Sub(info.ModTime()) < keep || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	_ = os.RemoveAll(root)
	_ = os.Remove(lock.Name())
}
