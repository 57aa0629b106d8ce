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
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/rdmacm"
)

// File is an open file of /dev/infiniband/rdma_cm. The program has the reading end of a pipe
// that holds one byte for each waiting event. So the program can poll it like any file, and a
// thread that has read a byte may take an event; whether the read blocks and what interrupts it
// is up to the program. When the program's last copy of its end is closed, the writing end
// reports it, and the rest of the file is released.
type File struct {
	m      *Manager
	ch     *rdmacm.EventChannel
	pipe   *os.File // the writing end
	fd     int      // the same descriptor
	closed chan struct{}
	once   sync.Once // runs close

	mu   lock.Mutex[lock.UCMFile] // guards what follows
	told int                      // bytes in the pipe, plus bytes read by threads that have not taken an event yet
	over bool                     // fd is closed, or its number belongs to another file
}

// Open returns a file for a program that has the reading end of a pipe. fd is the writing end,
// which the file owns from now on. The file calls gone once, after the program's end was
// closed; from then on the file takes no commands.
func (m *Manager) Open(fd int, gone func()) (*File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.files) >= maxFiles {
		return nil, fmt.Errorf("%d open files are the maximum: %w", len(m.files), unix.EMFILE)
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

// tell adjusts the bytes in the pipe until the file is closed.
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

// settle writes a byte into the pipe for each waiting event that has none, and removes the
// bytes of events that are gone. If the pipe is full, the remaining bytes follow later.
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

// atOnce bounds the bytes that are moved at once: the capacity of a pipe.
const atOnce = 1 << 16

// fill writes up to n bytes into the pipe and returns how many fitted. A write to a pipe
// without readers raises SIGPIPE, and the thread may be the program's. SIGPIPE is blocked here,
// and fill removes it so that the program does not get it later.
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

// drain removes up to n bytes from the pipe and returns how many there were. It opens the pipe
// again, since the program's own end may be blocking.
func (f *File) drain(n int) int {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0 // the reader of these bytes finds no event and reads again
	}
	got, _ := unix.Read(fd, make([]byte, min(n, atOnce)))
	_ = unix.Close(fd) // nothing was written
	return max(got, 0)
}

// take takes the oldest event for a caller that has read a byte. There is none if its ID has
// just been destroyed; the caller then reads again.
func (f *File) take() (*rdmacm.Event, bool) {
	defer f.settle()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told--
	e, ok := f.ch.TryGet()
	if ok {
		// The program itself waits for the events that it has not acknowledged.
		e.Ack()
	}
	return e, ok
}

// awaitClose waits until all copies of the program's end are closed, and closes the file.
func (f *File) awaitClose(gone func()) {
	raw, err := f.pipe.SyscallConn()
	if err == nil {
		// An error has the same meaning as the end.
		_ = raw.Read(func(uintptr) bool { return f.unread() })
	}
	f.close()
	gone()
}

// unread reports whether all copies of the end for reading are closed.
func (f *File) unread() bool { return poll.Readable(f.fd) }

// close destroys the file's IDs, as the kernel does when a program leaves them. A second caller
// waits until the first has finished.
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
		_ = f.ch.Close() // requests that arrived meanwhile ended with their listeners
		_ = f.pipe.Close()
	})
}

// Shut closes the file if the program has closed its end of the pipe.
func (f *File) Shut() {
	if f.unread() {
		f.close()
	}
}

// closeUnread closes the files that the program has just closed.
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
