//go:build linux

package sysfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
)

// endedLimit is how long another process may take to add its counts.
const endedLimit = 100 * time.Millisecond

// AddEnded adds the counts of an adapter that ends, and that had a board of its own, to the
// adapter with a number, from 0, in the image at root. It calls remove, which ends the adapter's
// table, while readers wait: they count the adapter once, before or after. After an error remove
// has been called too.
func AddEnded(root string, adapter int, b *device.Board, remove func()) (err error) {
	removed := false
	defer func() {
		if !removed {
			remove()
		}
		if err != nil {
			err = fmt.Errorf("add to the counters that programs see: %w", err)
		}
	}()
	f, err := os.OpenFile(filepath.Join(root, boardName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // unlocks it
	e := ended{file: f, at: int64(boardOf(adapter).start())}
	if err := e.check(); err != nil {
		return err
	}
	if err := e.lock(); err != nil {
		return err
	}
	return e.change(func() error {
		err := e.add(b)
		remove()
		removed = true
		return err
	})
}

// ended is the place of the counts of ended processes. Nothing maps it: a process opens the file
// when it ends, and needs no descriptor before.
type ended struct {
	file *os.File
	at   int64 // of the adapter's part of the file
}

const wordSize = int64(unsafe.Sizeof(uint64(0)))

// check returns an error unless the file has the layout of this version.
func (e ended) check() error {
	number, err := e.word(e.at)
	if err != nil {
		return err
	}
	if number != layout() {
		return fmt.Errorf("the library and the command have different versions: %w", ib.EINVAL)
	}
	return nil
}

// lock waits for other processes that add counts. The lock is not that of the board, which a running
// process may hold.
func (e ended) lock() error {
	own := unix.Flock_t{Type: unix.F_WRLCK, Start: e.at + int64(endedStart), Len: int64(roomOfOne)}
	for deadline := time.Now().Add(endedLimit); ; time.Sleep(time.Millisecond) {
		err := unix.FcntlFlock(e.file.Fd(), unix.F_OFD_SETLK, &own)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) || time.Now().After(deadline) {
			return fmt.Errorf("lock %s: %w", e.file.Name(), err)
		}
	}
}

// change calls f while the sequence number is odd. A process that was killed meanwhile has left an
// odd one.
func (e ended) change(f func() error) error {
	at := e.at + int64(endedStart) - wordSize
	n, err := e.word(at)
	if err != nil {
		return err
	}
	n = (n + 1) | 1 // odd, and different from what a writer that died has left
	if err := e.put(at, n); err != nil {
		return err
	}
	err = f()
	return errors.Join(err, e.put(at, n+1))
}

// add adds the counts of a board.
func (e ended) add(b *device.Board) error {
	var sums device.Board
	file := unsafe.Slice((*byte)(unsafe.Pointer(&sums)), unsafe.Sizeof(sums))
	if _, err := e.file.ReadAt(file, e.at+int64(endedStart)); err != nil {
		return err
	}
	to, from := wordsOf(&sums), wordsOf(b)
	for i := range from {
		if isCount(uintptr(i) * unsafe.Sizeof(to[i])) {
			to[i] += atomic.LoadUint64(&from[i])
		}
	}
	_, err := e.file.WriteAt(file, e.at+int64(endedStart))
	return err
}

// wordsOf returns the words of a board.
func wordsOf(b *device.Board) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(b)), unsafe.Sizeof(*b)/unsafe.Sizeof(uint64(0)))
}

func (e ended) word(at int64) (n uint64, err error) {
	_, err = e.file.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&n)), wordSize), at)
	return n, err
}

func (e ended) put(at int64, n uint64) error {
	_, err := e.file.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&n)), wordSize), at)
	return err
}

// isCount reports whether the word at an offset of a Board is a count. The others say what the
// adapter has now, which is nothing once it has ended.
func isCount(offset uintptr) bool {
	var b device.Board
	near := unsafe.Offsetof(b.Port) + unsafe.Offsetof(b.Port.Near)
	first := near + uintptr(fabric.NearPeers)*unsafe.Sizeof(b.Port.Near[0])
	last := near + unsafe.Sizeof(b.Port.Near)
	return offset != unsafe.Offsetof(b.Down) && (offset < first || offset >= last)
}
