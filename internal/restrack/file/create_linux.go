package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/userdir"
)

// File is the file of a table. It implements restrack.Memory.
type File struct {
	file  *os.File
	path  string
	table *restrack.Table
	base  unsafe.Pointer // of the reserved addresses; extents are mapped there one after the other

	extents  int
	removed  bool
	dev, ino uint64 // of the file
}

// reserved is the size of the addresses that a table may take.
const reserved = restrack.MaxExtents * restrack.ExtentSize

// Create makes the table of an adapter of this process; board is the size of the adapter's counters.
// Other processes find the table after Publish. Create also removes old tables of processes that
// died. ErrOff if the user wants no tables.
func Create(board uintptr) (*File, error) {
	dir, shared, err := directory()
	if err != nil {
		return nil, err
	}
	sweep(dir, time.Now())
	f, err := create(dir, shared)
	if err != nil {
		return nil, fmt.Errorf("create a table in %s: %w", dir, err)
	}
	if f.table, err = restrack.New(f, board); err != nil {
		return nil, errors.Join(fmt.Errorf("create a table in %s: %w", dir, err), unix.MunmapPtr(f.base, reserved), f.Remove())
	}
	runtime.AddCleanup(f.table, func(base unsafe.Pointer) { _ = unix.MunmapPtr(base, reserved) }, f.base)
	return f, nil
}

// Publish describes the adapter, and this process, and gives the file the name by which readers
// find it.
func (f *File) Publish(p restrack.Process) error {
	describe(&p)
	f.table.Publish(&p)
	if err := f.rename(&p); err != nil {
		return fmt.Errorf("publish the table %s: %w", f.path, err)
	}
	return nil
}

// directory returns the directory of this process's tables, and whether it is the administrator's.
func directory() (dir string, shared bool, err error) {
	switch dir = environ.Getenv(DirVariable); {
	case dir == Off || environ.Privileged():
		return "", false, ErrOff
	case dir != "":
		dir, err = filepath.Abs(dir) // the program may change its directory
		return dir, true, err
	}
	home, err := userdir.Home()
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(home, subdir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", false, err
	}
	return dir, false, nil
}

// create makes an empty file, locked, under a temporary name.
func create(dir string, shared bool) (*File, error) {
	t, err := os.CreateTemp(dir, tempName)
	if err != nil {
		return nil, err
	}
	if high, err := fdmark.Copy(int(t.Fd())); err == nil { // leave low numbers to the program
		low := t
		t = os.NewFile(uintptr(high), t.Name())
		_ = low.Close() // the copy is open
	}
	f := &File{file: t, path: t.Name()}
	fdmark.Conn(t)
	f.dev, f.ino, err = identify(t)
	if shared {
		err = errors.Join(err, t.Chmod(0o640))
	}
	own := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	err = errors.Join(err, unix.FcntlFlock(t.Fd(), unix.F_OFD_SETLK, &own))
	if err == nil {
		f.base, err = unix.MmapPtr(-1, 0, nil, reserved, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(t.Name()), t.Close())
	}
	return f, nil
}

// rename gives the file its name.
func (f *File) rename(p *restrack.Process) error {
	for n := range maxFound {
		path := filepath.Join(filepath.Dir(f.path), fmt.Sprintf("%s-%d-%d", restrack.Text(p.Device[:]), p.PID, n))
		err := unix.Renameat2(unix.AT_FDCWD, f.path, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system cannot do it
			if err = os.Link(f.path, path); err == nil {
				err = os.Remove(f.path)
			}
		}
		if err == nil {
			f.path = path
		}
		if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("%d tables of this process: %w", maxFound, os.ErrExist)
}

// Table returns the table; nil on nil.
func (f *File) Table() *restrack.Table {
	if f == nil {
		return nil
	}
	return f.table
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Board returns the memory for the adapter's counters.
func (f *File) Board() unsafe.Pointer { return unsafe.Add(f.base, restrack.BoardAt) }

// Extent implements restrack.Memory. It reserves the space in the file, so that a full file system
// stops the growth of the table, and does not kill the process at a later access.
func (f *File) Extent(i int) ([]byte, error) {
	at := int64(i) * restrack.ExtentSize
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &most); err != nil || most.Cur < uint64(at)+restrack.ExtentSize {
		return nil, errors.Join(err, unix.EFBIG) // a longer file raises SIGXFSZ
	}
	if !f.own() {
		return nil, unix.EBADF
	}
	fd := int(f.file.Fd())
	err := unix.Fallocate(fd, 0, at, restrack.ExtentSize)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(fd, 0, at, restrack.ExtentSize)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.file.WriteAt(make([]byte, restrack.ExtentSize), at)
	}
	if err != nil {
		return nil, err
	}
	to := unsafe.Add(f.base, at)
	if _, err = unix.MmapPtr(fd, at, to, restrack.ExtentSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return nil, err
	}
	f.extents = i + 1
	return unsafe.Slice((*byte)(to), restrack.ExtentSize), nil
}

// Close removes the file of an adapter that has been closed. The table keeps its contents, in
// memory of this process alone.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.Remove(), f.detach())
}

// Remove removes the file, for instance before the process ends. The table stays as it is. A file that
// is gone already is no error.
func (f *File) Remove() error {
	if f == nil || f.removed {
		return nil
	}
	f.removed = true
	err := os.Remove(f.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if f.own() {
		err = errors.Join(err, f.file.Close())
	}
	return err
}

// own reports whether the descriptor is still that of the file: a program that closes all descriptors
// may get the number for a file of its own.
func (f *File) own() bool {
	dev, ino, err := identify(f.file)
	return err == nil && dev == f.dev && ino == f.ino
}

// identify returns the device and the inode of an open file.
func identify(f *os.File) (dev, ino uint64, err error) {
	var s unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &s)
	return uint64(s.Dev), s.Ino, err
}

// detach replaces the mapping of the file by memory of this process with the same contents.
func (f *File) detach() error {
	for at := range f.extents {
		to := unsafe.Slice((*byte)(unsafe.Add(f.base, at*restrack.ExtentSize)), restrack.ExtentSize)
		contents := slices.Clone(to)
		if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(to)), restrack.ExtentSize,
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED); err != nil {
			return err
		}
		copy(to, contents)
	}
	return nil
}

// describe fills in what the system says about this process.
func describe(p *restrack.Process) {
	p.PID, p.UID = uint64(os.Getpid()), uint64(os.Geteuid())
	p.PIDNS, p.NetNS = inode(ownPIDs), inode("/proc/self/ns/net")
	p.Started = time.Now().UnixNano()
	p.Ticks = startTicks("self")
	name, _ := os.ReadFile("/proc/self/comm") // without a name it stays empty
	copy(p.Command[:len(p.Command)-1], bytes.TrimSpace(name))
}

// inode returns the number of a file; 0 if it is not known.
func inode(path string) uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0
	}
	return s.Ino
}

// Position of the start time in /proc/PID/stat, counted in fields from the one after the name.
const startField = 19

// startTicks returns when a process started, in the kernel's ticks since it booted; 0 if it is not
// known or does not exist.
func startTicks(process string) uint64 {
	text, err := os.ReadFile(filepath.Join("/proc", process, "stat"))
	end := bytes.LastIndexByte(text, ')') // the name may contain anything
	if err != nil || end < 0 {
		return 0
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= startField {
		return 0
	}
	ticks, _ := strconv.ParseUint(string(fields[startField]), 10, 64) // 0 if it is no number
	return ticks
}
