package file

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/userdir"
)

// Find returns the paths of the tables that this user may see, sorted: those in the administrator's
// directory if DirVariable names one, otherwise the user's own, and for root those of all users.
func Find() ([]string, error) {
	if dir := environ.Getenv(DirVariable); dir != "" && dir != Off {
		return find([]string{dir}), nil
	}
	var dirs []string
	home, err := userdir.Home()
	if err == nil {
		dirs = append(dirs, filepath.Join(home, subdir))
	}
	if os.Geteuid() == 0 {
		for _, pattern := range []string{"/run/user/*/softhca", filepath.Join(environ.TempDir(), "softhca-*"), "/tmp/softhca-*"} {
			all, _ := filepath.Glob(pattern) // the pattern is well formed
			for _, d := range all {
				dirs = append(dirs, filepath.Join(d, subdir))
			}
		}
	}
	return find(dirs), err
}

// place identifies a file.
type place struct{ dev, ino uint64 }

// find returns the paths of the tables in some directories.
//
// A file with several names counts once, and each user has at most maxFound files.
func find(dirs []string) (paths []string) {
	seen := make(map[place]bool)
	of := make(map[uint32]int) // number of files by owner
	for _, dir := range dirs {
		files, _ := os.ReadDir(dir) // a directory that is not there has no tables
		for _, f := range files {
			var s unix.Stat_t
			path := filepath.Join(dir, f.Name())
			if !f.Type().IsRegular() || strings.HasPrefix(f.Name(), tempName) || unix.Lstat(path, &s) != nil {
				continue
			}
			at := place{uint64(s.Dev), s.Ino}
			if of[s.Uid] < maxFound && !seen[at] {
				paths = append(paths, path)
			}
			seen[at] = true
			of[s.Uid]++
		}
	}
	slices.Sort(paths)
	return paths
}

// dead is the table of a process that died.
type dead struct {
	path string
	at   time.Time // when the file was last changed
}

// sweep removes old tables of processes that died. It ignores what it cannot remove.
func sweep(dir string, now time.Time) {
	files, _ := os.ReadDir(dir)
	var all []dead
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		switch at, ok := abandoned(path); {
		case !ok:
		case strings.HasPrefix(f.Name(), tempName):
			_ = os.Remove(path)
		default:
			all = append(all, dead{path, at})
		}
	}
	slices.SortFunc(all, func(a, b dead) int { return b.at.Compare(a.at) })
	for i, d := range all {
		if i >= maxDead || now.Sub(d.at) > keepDead {
			_ = os.Remove(d.path)
		}
	}
}

// abandoned reports whether a file is the table of a process that died, and when it was changed.
func abandoned(path string) (time.Time, bool) {
	f, err := openRegular(path)
	if err != nil {
		return time.Time{}, false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || locked(f) || owner(f) != os.Geteuid() {
		return time.Time{}, false
	}
	if strings.HasPrefix(filepath.Base(path), tempName) {
		return info.ModTime(), time.Since(info.ModTime()) >= time.Minute // it may be locked soon
	}
	r, err := view(f, 0)
	if err != nil {
		return time.Time{}, false
	}
	defer r.unmap()
	p, ok := r.header()
	return info.ModTime(), ok && !alive(&p)
}

// openRegular opens a file for reading unless it is something else than a regular file. It looks at
// the file first: to open a device may already have an effect.
func openRegular(path string) (*os.File, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(at) }() // it is only a name
	var s unix.Stat_t
	if err = unix.Fstat(at, &s); err == nil && s.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	var fd int
	if err == nil {
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// locked reports whether another process holds the lock of a table.
func locked(f *os.File) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return err == nil && l.Type != unix.F_UNLCK
}

// ownPIDs is the PID namespace of this process.
const ownPIDs = "/proc/self/ns/pid"

// alive reports whether the process of a table exists, as far as this process can see. The lock does
// not tell: a program may close all its descriptors, and its children inherit the lock.
func alive(p *restrack.Process) bool {
	return p.PIDNS == inode(ownPIDs) && p.Ticks != 0 && startTicks(strconv.FormatUint(p.PID, 10)) == p.Ticks
}
