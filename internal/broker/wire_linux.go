//go:build !portable

package broker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"
)

// maxPassed is the kernel's limit of descriptors in a message.
const maxPassed = 253

// socketPair returns two connected sockets that preserve message boundaries. The second has a
// name that starts with softhca/, like all names of this package: by these, a forked child
// finds the sockets of its parent that it must close.
func socketPair() (ends [2]int, err error) {
	if ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return ends, fmt.Errorf("broker: socket pair: %w", err)
	}
	ends[0], ends[1] = fdmark.Take(ends[0]), fdmark.Take(ends[1])
	if err := unix.Bind(ends[1], &unix.SockaddrUnix{Name: "@softhca/" + rand.Text()}); err != nil {
		closeAll(ends[:])
		return ends, fmt.Errorf("broker: name a socket: %w", err)
	}
	return ends, nil
}

// wire is a connection between broker and member.
type wire struct {
	*net.UnixConn
	buf []byte
	oob []byte
}

func newWire(c *net.UnixConn) *wire {
	c = aboveStandard(c, net.FileConn)
	fdmark.Conn(c)
	return &wire{UnixConn: c, buf: make([]byte, maxMessage), oob: make([]byte, unix.CmsgSpace(4*maxPassed))}
}

// acceptedWire returns the wire of an accepted connection, which it owns.
func acceptedWire(fd int) (*wire, error) {
	f := os.NewFile(uintptr(fdmark.Take(fd)), "connection")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return newWire(c.(*net.UnixConn)), nil // accept of a Unix socket returns one
}

// socket has the methods of a connection that aboveStandard needs.
type socket interface {
	syscall.Conn
	File() (*os.File, error)
	Close() error
}

// aboveStandard returns s, or a copy of it if s has the number of a standard descriptor that the
// program has closed. open converts a file to a socket. If no copy can be made, s is returned.
func aboveStandard[S socket, C any](s S, open func(*os.File) (C, error)) S {
	var low []S // stay open until the copy is made, so that it gets another number
	for isStandard(s) {
		f, err := s.File()
		if err != nil {
			break
		}
		c, err := open(f)
		_ = f.Close()
		next, ok := any(c).(S)
		if err != nil || !ok {
			break
		}
		low = append(low, s)
		s = next
	}
	for _, l := range low {
		_ = l.Close() // the copy is open
	}
	return s
}

// isStandard reports whether a socket has the number of a standard descriptor.
func isStandard(s syscall.Conn) (is bool) {
	raw, err := s.SyscallConn()
	if err != nil || raw.Control(func(fd uintptr) { is = fd < fdmark.Standard }) != nil {
		return false // the socket is closed
	}
	return is
}

// peer returns the credentials of the process at the other end. It fails for another user.
func (w *wire) peer() (*unix.Ucred, error) {
	raw, err := w.SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = credentials(int(fd)) })
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return who, ofThisUser(who.Uid)
}

// silent returns the error of a missing answer. A stopped process gives none.
func (w *wire) silent(cause error) error {
	if !errors.Is(cause, os.ErrDeadlineExceeded) {
		return fmt.Errorf("broker: no answer: %w", cause)
	}
	who, err := w.peer()
	if err != nil {
		return err
	}
	return fmt.Errorf("process %d, the broker of the address, does not answer: if it is stopped (Ctrl-Z, a debugger), continue or end it: %w",
		who.Pid, unix.ETIMEDOUT)
}

// send sends a message with descriptors. It waits for room for replyTime at most.
func (w *wire) send(m *message, fds ...int) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := w.SetWriteDeadline(time.Now().Add(replyTime)); err != nil {
		return err
	}
	_, _, err = w.WriteMsgUnix(b, oob, nil)
	return err
}

// exchange sends a message and returns the answer with its descriptors, which the caller must
// close. It waits for the answer for the given time at most.
func (w *wire) exchange(m *message, wait time.Duration) (answer *message, fds []int, err error) {
	if err := w.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, nil, err
	}
	if err := w.send(m); err != nil {
		return nil, nil, err
	}
	if answer, fds, err = w.receive(); err != nil {
		return nil, nil, w.silent(err)
	}
	return answer, fds, nil
}

// receive returns the next message and its descriptors, which the caller must close.
func (w *wire) receive() (m *message, fds []int, err error) {
	n, oobn, flags, _, err := w.ReadMsgUnix(w.buf, w.oob)
	if err != nil {
		return nil, nil, err
	}
	if fds, err = passed(w.oob[:oobn]); err != nil {
		return nil, nil, err
	}
	switch {
	case n == 0:
		err = net.ErrClosed
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("broker: a message longer than %d bytes: %w", maxMessage, unix.EMSGSIZE)
	case flags&unix.MSG_CTRUNC != 0: // not for lack of room in oob, which fits every message
		err = tooMany(len(fds))
	default:
		m, err = decode(w.buf[:n])
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return m, fds, nil
}

// tooMany returns the error of a process that has room for only a few of the descriptors in a
// message.
func tooMany(few int) error {
	return fmt.Errorf("broker: the limit of open files (ulimit -n) leaves room for only %d of the descriptors in a message: %w", few, unix.EMFILE)
}

// passed returns the descriptors in control messages.
func passed(oob []byte) (fds []int, err error) {
	all, err := unix.ParseSocketControlMessage(oob)
	for i := range all {
		more, e := unix.ParseUnixRights(&all[i])
		if e == nil { // otherwise it contains no descriptors
			for _, fd := range more {
				fds = append(fds, fdmark.Take(fd))
			}
		}
	}
	if err != nil {
		closeAll(fds)
		return nil, fmt.Errorf("broker: control messages: %w", err)
	}
	return fds, nil
}

// closeAll closes descriptors; -1 stands for none.
func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // sockets without linger: no error to report
	}
}

// isForwardSocket returns an error if a descriptor is not a Unix socket that preserves message
// boundaries.
func isForwardSocket(fd int) error {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err = errors.Join(err, err2); err != nil || family != unix.AF_UNIX || kind != unix.SOCK_SEQPACKET {
		return fmt.Errorf("broker: descriptor %d is not a Unix socket for messages: %w", fd, errors.Join(syscall.EINVAL, err))
	}
	return nil
}
