//go:build linux

package sysfs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// The file of the board: a word that says which layout it has, and from
// boardStart on the board.
const (
	boardName  = "board"
	boardStart = 64
	boardSize  = boardStart + unsafe.Sizeof(device.Board{})
)

// layout returns a number that is another one if the words mean anything else.
func layout() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, boardSize, portWords(), engineWords()) // a hash takes everything
	return h.Sum64()
}

// newBoard makes the file of a board that is all 0. Its memory is reserved, so
// that who maps it never finds the disk full.
func newBoard(root string) (err error) {
	f, err := os.OpenFile(filepath.Join(root, boardName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := reserve(f); err != nil {
		return fmt.Errorf("reserve %d bytes: %w", boardSize, err)
	}
	number := layout()
	_, err = f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&number)), unsafe.Sizeof(number)), 0)
	return err
}

// reserve gives a file the size of a board, by writing where the file system
// cannot reserve.
func reserve(f *os.File) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, int64(boardSize))
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	_, err = f.WriteAt(make([]byte, boardSize), 0)
	return err
}

// Attached is the board of a picture, which this process writes.
type Attached struct {
	*device.Board
	file *os.File
	mem  []byte
}

// Attach maps the board of the picture at root, for the adapter that the caller
// is about to open with it. One process at a time has it: EBUSY if another does.
// The error is also EINVAL for a board of another version of softhca. Without
// a board an adapter works as well, and its counters stay what they were.
func Attach(root string) (*Attached, error) {
	f, err := os.OpenFile(filepath.Join(root, boardName), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("the counters that programs see: %w", err)
	}
	a := &Attached{file: f}
	if err := a.take(); err != nil {
		return nil, errors.Join(fmt.Errorf("the counters that programs see, %s: %w", f.Name(), err), f.Close())
	}
	return a, nil
}

func (a *Attached) take() error {
	fd := int(a.file.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("another process counts there: %w", ib.EBUSY)
		}
		return err
	}
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != int64(boardSize) {
		return fmt.Errorf("%d bytes instead of %d: the library and the command are of different versions: %w", info.Size(), boardSize, ib.EINVAL)
	}
	if a.mem, err = unix.Mmap(fd, 0, int(boardSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map: %w", err)
	}
	base := unsafe.Pointer(unsafe.SliceData(a.mem))
	if *(*uint64)(base) != layout() {
		return errors.Join(fmt.Errorf("the library and the command are of different versions: %w", ib.EINVAL), unix.Munmap(a.mem))
	}
	a.Board = (*device.Board)(unsafe.Add(base, boardStart))
	return nil
}

// Close gives the board back. The adapter that was opened with it must be closed.
func (a *Attached) Close() error {
	a.Board = nil
	return errors.Join(unix.Munmap(a.mem), a.file.Close())
}
