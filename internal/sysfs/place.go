//go:build linux

package sysfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/userdir"
)

// Image is an image that is in use.
type Image struct {
	Root string
	// Lock keeps the image in use while the file is open, here or in a process that
	// inherited it.
	Lock *os.File
}

// keep is how long an unlocked image stays: a program may have closed the file of the lock,
// with all other files that it did not open.
const keep = 24 * time.Hour

// Show makes the image of some adapters, or joins the users of an existing one. The counters
// of an image without users begin at 0. Show removes images that were not used for a day.
func Show(ds ...Description) (*Image, error) {
	for i := range ds {
		if err := ds[i].Check(); err != nil {
			return nil, err
		}
	}
	base, err := userdir.Home()
	if err != nil {
		return nil, err
	}
	p, err := show(base, ds, time.Now())
	if err != nil {
		return nil, fmt.Errorf("the sysfs image in %s: %w; set TMPDIR to use another one", base, err)
	}
	return p, nil
}

func show(base string, ds []Description, now time.Time) (*Image, error) {
	setup, err := alone(filepath.Join(base, "setup"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = setup.Close() }() // unlocks it
	all := entries(ds)
	root := filepath.Join(base, ds[0].Name+"@"+hash(all))
	lock, err := os.OpenFile(root+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = claim(lock, root, all, len(ds)); err == nil {
		// The age of the file shows when the image was last used.
		err = os.Chtimes(lock.Name(), now, now)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	sweep(base, now)
	return &Image{root, lock}, nil
}

// hash returns a name that depends on the content of an image.
func hash(all []entry) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%+v %d", all, layout()) // writing to a hash never fails
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// claim locks an image as one of its users, and recreates it if there are no others.
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

// remake replaces an image. Open files of the replaced image stay valid.
func remake(root string, all []entry, adapters int) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(root), "new-")
	if err != nil {
		return err
	}
	err = errors.Join(write(made, all), allow(made), newBoards(made, adapters))
	if err == nil {
		err = os.Rename(made, root)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return nil
}

// waitLimit is how long another process may take to set up an image.
const waitLimit = 10 * time.Second

// alone returns the file, which it locks against other calls of alone.
func alone(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("lock %s, which another process has: %w", name, err), f.Close())
		}
	}
}

// sweep removes images that have not been used for a while, and files of an interrupted
// remake. It ignores what it cannot remove.
func sweep(base string, now time.Time) {
	files, _ := os.ReadDir(base)
	for _, f := range files {
		name := filepath.Join(base, f.Name())
		switch root, ok := strings.CutSuffix(name, ".lock"); {
		case ok:
			discard(root, now)
		case strings.HasPrefix(f.Name(), "new-"): // no other process makes an image now
			_ = os.RemoveAll(name)
		}
	}
}

// discard removes an image unless it is, or recently was, in use.
func discard(root string, now time.Time) {
	lock, err := os.OpenFile(root+".lock", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = lock.Close() }() // unlocks it
	info, err := lock.Stat()
	if err != nil || now.Sub(info.ModTime()) < keep || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	_ = os.RemoveAll(root)
	_ = os.Remove(lock.Name())
}
