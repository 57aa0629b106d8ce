//go:build linux

package sysfs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// The file of the boards has boardSize bytes for each adapter: a word that
// identifies the layout; from boardStart the board that one process attaches; and
// from endedStart the counts of ended processes that had boards of their own. The
// word before endedStart is their sequence number, which is odd while they change.
const (
	boardName  = "board"
	boardStart = 64
	roomOfOne  = (unsafe.Sizeof(device.Board{}) + boardStart - 1) &^ (boardStart - 1)
	endedStart = boardStart + roomOfOne + boardStart
	boardSize  = endedStart + roomOfOne
)

// layout returns a number that changes whenever the meaning of the words
// changes.
func layout() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, boardSize, boardOf(0).portWords(), boardOf(0).engineWords()) // writing to a hash never fails
	return h.Sum64()
}

// newBoards creates the file of the boards of some adapters, filled with 0. It
// reserves the space, so that processes that map the file never run out of disk
// space.
func newBoards(root string, adapters int) (err error) {
	f, err := os.OpenFile(filepath.Join(root, boardName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := adapters * int(boardSize)
	if err := reserve(f, size); err != nil {
		return fmt.Errorf("reserve %d bytes: %w", size, err)
	}
	number := layout()
	for at := 0; at < size && err == nil; at += int(boardSize) {
		_, err = f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&number)), unsafe.Sizeof(number)), int64(at))
	}
	return err
}

// reserve allocates the space of a file, by writing if the file system cannot
// reserve.
func reserve(f *os.File, size int) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size))
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	_, err = f.WriteAt(make([]byte, size), 0)
	return err
}

// Attached is a board of an image, to which this process writes.
type Attached struct {
	*device.Board
	file *os.File
	mem  []byte
	at   int64 // offset of the board in the file
}

// Attach maps the board of the adapter with a number, from 0, in the image at
// root; the caller opens the adapter with it. EBUSY if another process has it,
// EINVAL if another version of softhca made the board. An adapter also works
// without its board; then the counters in the image do not change.
func Attach(root string, adapter int) (*Attached, error) {
	f, err := os.OpenFile(filepath.Join(root, boardName), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("the counters that programs see: %w", err)
	}
	fdmark.Conn(f)
	a := &Attached{file: f}
	if err := a.take(adapter * int(boardSize)); err != nil {
		return nil, errors.Join(fmt.Errorf("the counters that programs see, %s: %w", f.Name(), err), f.Close())
	}
	return a, nil
}

// take maps and locks the board at an offset of the file.
func (a *Attached) take(at int) error {
	fd := int(a.file.Fd())
	own := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(at), Len: int64(endedStart)}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &own); err != nil {
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return fmt.Errorf("another process already writes the counters: %w", ib.EBUSY)
		}
		return err
	}
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	size := int(info.Size())
	if size%int(boardSize) != 0 || at+int(boardSize) > size {
		return fmt.Errorf("%d bytes, of which %d from %d on are wanted: the library and the command are of different versions: %w",
			size, boardSize, at, ib.EINVAL)
	}
	if a.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map: %w", err)
	}
	base := unsafe.Pointer(&a.mem[at])
	if *(*uint64)(base) != layout() {
		return errors.Join(fmt.Errorf("the library and the command are of different versions: %w", ib.EINVAL), unix.Munmap(a.mem))
	}
	a.Board, a.at = (*device.Board)(unsafe.Add(base, boardStart)), int64(at)+boardStart
	return nil
}

// Place returns the path of the file that contains the board, and the offset in it.
func (a *Attached) Place() (path string, at int64) { return a.file.Name(), a.at }

// Close releases the board. The adapter that was opened with it must be closed.
func (a *Attached) Close() error {
	a.Board = nil
	return errors.Join(unix.Munmap(a.mem), a.file.Close())
}
