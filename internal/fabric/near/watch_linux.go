//go:build !portable

package near

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// watch is a set of sockets and processes of which a goroutine awaits the end.
type watch struct {
	file *os.File // an epoll descriptor, readable when one of them has ended
	raw  syscall.RawConn
}

func newWatch() (*watch, error) {
	fd, err := newEpoll()
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime's poller accepts it
		return nil, errors.Join(fmt.Errorf("near: epoll: %w", err), unix.Close(fd))
	}
	w := &watch{file: os.NewFile(uintptr(fd), "near")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

func newEpoll() (int, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("near: epoll: %w", err)
	}
	return fdmark.Take(fd), nil
}

// add watches a descriptor, under a number, until it is closed, or has the event that means the end.
func (w *watch) add(fd int, end uint32, id int32) error {
	var err error
	failed := w.raw.Control(func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: end | unix.EPOLLONESHOT, Fd: id})
	})
	return errors.Join(failed, err)
}

// run calls ended for each descriptor that has ended, until close.
func (w *watch) run(ended func(id int32)) {
	var events [16]unix.EpollEvent
	for {
		n := 0
		err := w.raw.Read(func(epoll uintptr) bool {
			got, err := unix.EpollWait(int(epoll), events[:], 0)
			n = max(got, 0)
			return err == nil && n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			ended(e.Fd)
		}
	}
}

func (w *watch) close() error { return w.file.Close() }
