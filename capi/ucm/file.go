//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/poll"
	"github.com/softhca/softhca/rdmacm"
)

// File is an open file of /dev/infiniband/rdma_cm. What the program has of it is the end
// of a pipe in which there is a byte for each event that waits: so it can be polled like
// any file, and whoever has read a byte, which blocks or not and is interrupted as the
// program wants it, may take an event. When the program's last copy of its end is closed,
// the other end says so, and what is left of the file goes.
type File struct {
	m      *Manager
	ch     *rdmacm.EventChannel
	pipe   *os.File // its end for writing
	fd     int      // the same
	closed chan struct{}
	once   sync.Once // closes it

	mu   sync.Mutex // guards what follows
	told int        // bytes in the pipe, and read by who has not taken an event yet
	over bool       // fd is closed, or is somebody else's
}

// Open returns a file whose program has the reading end of a pipe, of which fd, the
// file's from then on, is the other. gone is called once that has been closed: the file
// takes no commands then.
func (m *Manager) Open(fd int, gone func()) (*File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.files) >= maxFiles {
		return nil, fmt.Errorf("%d open files are all there can be: %w", len(m.files), unix.EMFILE)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	fd = fdmark.Take(fd)
	f := &File{m: m, ch: m.cm.NewEventChannel(), pipe: os.NewFile(uintptr(fd), "rdma_cm"), fd: fd, closed: make(chan struct{})}
	m.files[f] = struct{}{}
	go f.tell()
	go f.awaitClose(gone)
	return f, nil
}

// tell keeps the pipe as full as it is to be, until the file is closed.
func (f *File) tell() {
	for {
		select {
		case <-f.ch.Ready():
			f.settle()
		case <-f.closed:
			return
		}
	}
}

// settle puts a byte into the pipe for each event that waits and has none, and takes
// those out whose events are gone. Of a full pipe, some events come later.
func (f *File) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	switch waiting := f.ch.Len(); {
	case waiting > f.told:
		f.told += f.fill(waiting - f.told)
	case waiting < f.told:
		f.told -= f.drain(f.told - waiting)
	}
}

// atOnce is the most bytes that are moved at once: those of a pipe.
const atOnce = 1 << 16

// fill puts n bytes into the pipe and returns how many there was room for. The signal of
// a pipe that nobody reads is not for the program, whose thread this may be: it is blocked
// here, and must not come later.
func (f *File) fill(n int) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	put, err := unix.Write(f.fd, make([]byte, min(n, atOnce)))
	if errors.Is(err, unix.EPIPE) {
		set := unix.Sigset_t{}
		set.Val[0] = 1 << (unix.SIGPIPE - 1)
		var now unix.Timespec
		_, _, _ = unix.Syscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
	}
	return max(put, 0)
}

// drain takes up to n bytes out of the pipe and returns how many there were. The
// program's own end may be one that blocks.
func (f *File) drain(n int) int {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0 // who reads them finds no event, and reads again
	}
	got, _ := unix.Read(fd, make([]byte, min(n, atOnce)))
	_ = unix.Close(fd) // nothing was written
	return max(got, 0)
}

// take takes the oldest event, for who has read a byte. There may be none: its ID has
// just gone, so there is nothing more to read.
func (f *File) take() (*rdmacm.Event, bool) {
	defer f.settle()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told--
	e, ok := f.ch.TryGet()
	if ok {
		// The program waits itself for what it has not acknowledged.
		e.Ack()
	}
	return e, ok
}

// awaitClose waits until nobody has the other end of the pipe, and closes the file.
func (f *File) awaitClose(gone func()) {
	raw, err := f.pipe.SyscallConn()
	if err == nil {
		// An error is what the end of it looks like.
		_ = raw.Read(func(uintptr) bool { return f.unread() })
	}
	f.close()
	gone()
}

// unread reports whether all copies of the end for reading are closed.
func (f *File) unread() bool { return poll.Readable(f.fd) }

// close destroys the file's IDs, as the kernel does with what a program has left. Who
// comes second waits until the first has done it.
func (f *File) close() {
	f.once.Do(func() {
		f.m.destroyAll(func(n *node) bool { return n.file == f })
		f.m.mu.Lock()
		delete(f.m.files, f)
		f.m.mu.Unlock()
		close(f.closed)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over = true
		_ = f.ch.Close() // requests that came meanwhile went with their listeners
		_ = f.pipe.Close()
	})
}

// Shut closes the file if the program has closed its end of the pipe.
func (f *File) Shut() {
	if f.unread() {
		f.close()
	}
}

// closeUnread closes the files that the program has closed a moment ago.
func (m *Manager) closeUnread() {
	var unread []*File
	m.mu.Lock()
	for f := range m.files {
		if f.unread() {
			unread = append(unread, f)
		}
	}
	m.mu.Unlock()
	for _, f := range unread {
		f.close()
	}
}
