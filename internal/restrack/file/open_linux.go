package file

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/restrack"
)

// Reader reads the table of another process. It is not safe for concurrent use.
type Reader struct {
	path  string
	file  *os.File
	mem   []byte
	board uintptr
	view  *restrack.View
}

// Open opens a table. board is the size of the adapter's counters. restrack.ErrLayout if it is not
// a table of this version of softhca.
func Open(path string, board uintptr) (*Reader, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	r, err := view(f, board)
	if err == nil {
		err = r.guard(func() (err error) {
			r.view, err = restrack.NewView(r.mem, board)
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r.path = path
	return r, nil
}

// view maps a file.
func view(f *os.File, board uintptr) (*Reader, error) {
	r := &Reader{file: f, board: board}
	return r, r.mapAll()
}

// mapAll maps all of the file.
func (r *Reader) mapAll() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	size := min(info.Size(), reserved) &^ (restrack.ExtentSize - 1)
	if size == 0 {
		return restrack.ErrLayout
	}
	r.unmap()
	r.mem, err = unix.Mmap(int(r.file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

func (r *Reader) unmap() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem) // it is mapped
		r.mem = nil
	}
}

// Owner returns the user whose table it is.
func (r *Reader) Owner() int { return owner(r.file) }

// owner returns the user who owns a file; -1 if that is not known.
func owner(f *os.File) int {
	var s unix.Stat_t
	if unix.Fstat(int(f.Fd()), &s) != nil {
		return -1
	}
	return int(s.Uid)
}

// ReadOwned reads n bytes at an offset of another file that the table names. The file must belong to
// the owner of the table: otherwise a table could make a privileged reader show the contents of any file.
func (r *Reader) ReadOwned(path string, at int64, n uintptr) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	if owner(f) != r.Owner() {
		return nil, fmt.Errorf("%s belongs to another user: %w", path, unix.EPERM)
	}
	b := make([]byte, n)
	_, err = f.ReadAt(b, at)
	return b, err
}

// header returns the description of the process in a table of any version. It reports false for
// another file.
func (r *Reader) header() (p restrack.Process, ok bool) {
	_ = r.guard(func() error {
		p, ok = restrack.ProcessOf(r.mem)
		return nil
	})
	return p, ok
}

// Path returns the path of the table.
func (r *Reader) Path() string { return r.path }

// Condition returns the state of the process, as far as this process can see it.
func (r *Reader) Condition() Condition {
	p, _ := r.header()
	switch {
	case alive(&p):
		return Running
	case (p.Ticks == 0 || p.PIDNS != inode(ownPIDs)) && locked(r.file): // the process is not visible here
		return Running
	}
	return Dead
}

// Read calls f with the table, and with the memory of the adapter's counters if these are in the
// table. f must not keep them. The error is that of f, or ErrChanged if the file became shorter.
func (r *Reader) Read(f func(v *restrack.View, board []byte) error) error {
	if r.Bytes() > len(r.mem) {
		if err := r.mapAll(); err != nil {
			return err
		}
	}
	return r.guard(func() error {
		v, err := restrack.NewView(r.mem, r.board)
		if err != nil {
			return err
		}
		r.view = v
		return f(v, r.mem[restrack.BoardAt:restrack.BoardAt+int(r.board)])
	})
}

// Bytes returns the size of the table.
func (r *Reader) Bytes() (n int) {
	_ = r.guard(func() error {
		n = r.view.Bytes()
		return nil
	})
	return n
}

// guard calls f and turns a fault at an access to the mapping, of a file that became shorter, into
// an error.
func (r *Reader) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch e := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = ErrChanged
		default:
			panic(e)
		}
	}()
	return f()
}

// Close closes the table.
func (r *Reader) Close() error {
	r.unmap()
	return r.file.Close()
}
