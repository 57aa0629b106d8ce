//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// backlog is the maximum number of connections that wait to be accepted. If strangers fill it,
// a process that joins waits behind at most backlog connections.
const backlog = 256

// listener is a socket at which a broker accepts connections. It is in the store, so that its
// name is not free while a member lives. A child of a fork closes it: it is marked, and its
// name starts with softhca/.
type listener struct {
	fd   int
	file *os.File // of fd
	raw  syscall.RawConn
}

// listenAt returns a listener with a name. It fails with EADDRINUSE if a socket has the name.
func listenAt(name string) (*listener, error) {
	fd, err := newListening()
	if err != nil {
		return nil, fmt.Errorf("broker: socket: %w", err)
	}
	fd = fdmark.Take(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: bind %s: %w", name, err), unix.Close(fd))
	}
	return newListener(fd)
}

func newListening() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// newListener listens at a socket with a name, which a previous broker may have used: from now
// on the kernel reports this process to those that connect. The listener owns fd, which
// newListener closes if there is an error.
func newListener(fd int) (*listener, error) {
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: listen: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "broker")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("broker: listen: %w", err), file.Close())
	}
	return &listener{fd, file, raw}, nil
}

// accept waits for a connection. It returns -1 for one of another user, which it has closed:
// strangers get neither a buffer nor a goroutine. It returns net.ErrClosed after Close.
func (l *listener) accept() (fd int, err error) {
	wait := l.raw.Read(func(at uintptr) bool {
		fd, _, err = unix.Accept4(int(at), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err != unix.EAGAIN
	})
	if wait != nil {
		return -1, net.ErrClosed
	}
	if err != nil {
		return -1, err
	}
	who, err := credentials(fd)
	if err != nil || ofThisUser(who.Uid) != nil {
		_ = unix.Close(fd) // the error is the stranger's
		return -1, nil
	}
	return fd, nil
}

// Close stops accepting. The name stays taken while the store contains the socket.
func (l *listener) Close() error { return l.file.Close() }

// isListener returns an error if a descriptor does not listen at a name.
func isListener(fd int, name string) error {
	err := isForwardSocket(fd)
	if err != nil {
		return err
	}
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	sa, err2 := unix.Getsockname(fd)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("broker: descriptor %d of a member: %w", fd, err)
	}
	if at, ok := sa.(*unix.SockaddrUnix); !ok || at.Name != name || !strings.HasPrefix(name, namePrefix) || listens == 0 {
		return fmt.Errorf("broker: descriptor %d of a member does not listen at %s: %w", fd, name, unix.EINVAL)
	}
	return nil
}
