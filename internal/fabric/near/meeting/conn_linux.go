//go:build !portable

package meeting

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// conn is a connection during a meeting.
type conn struct {
	f   *os.File
	raw syscall.RawConn
}

// newSocket returns a socket that preserves message boundaries.
func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fdmark.Take(fd), nil
}

// newConn returns a connection that owns a socket, and closes the socket if it fails. Its deadline,
// for the whole meeting, is helloTime from now.
func newConn(fd int) (*conn, error) {
	f := os.NewFile(uintptr(fd), "meeting")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetDeadline(time.Now().Add(helloTime))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &conn{f, raw}, nil
}

// dial connects to a name. It fails with ErrNone or ErrUser.
func dial(name string) (*conn, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: name}); errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err == nil {
		err = ofThisUser(fd)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return newConn(fd)
}

// ofThisUser returns ErrUser unless the process at the other end of a socket runs as the user of
// this process.
func ofThisUser(fd int) error {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	if int(who.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %d", ErrUser, who.Uid)
	}
	return nil
}

// send sends a message, with a descriptor unless that is -1.
func (c *conn) send(m *message, fd int) error {
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	var err error
	wait := c.raw.Write(func(s uintptr) bool {
		err = unix.Sendmsg(int(s), m.encode(), oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(wait, err)
}

// receive receives a message and its descriptor, which the caller owns; without a descriptor it
// returns -1. It fails with io.EOF if the connection has ended.
func (c *conn) receive() (m message, fd int, err error) {
	b := make([]byte, messageLen+1)
	oob := make([]byte, unix.CmsgSpace(2*4))
	var n, oobn int
	wait := c.raw.Read(func(s uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(s), b, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(wait, err); err != nil {
		return m, -1, err
	}
	if n == 0 && oobn == 0 {
		return m, -1, io.EOF
	}
	fds, err := passed(oob[:oobn])
	if err == nil {
		m, err = decode(b[:n])
	}
	if want := carries(m.kind); err == nil && len(fds) != want {
		err = fmt.Errorf("%w: %d descriptors, want %d", ErrMessage, len(fds), want)
	}
	if err != nil || len(fds) == 0 {
		closeAll(fds)
		return m, -1, err
	}
	return m, fds[0], nil
}

// carries returns the number of descriptors in a message.
func carries(k kind) int {
	if k == offer || k == welcome {
		return 1
	}
	return 0
}

// passed returns the descriptors in control messages.
func passed(oob []byte) (fds []int, err error) {
	all, err := unix.ParseSocketControlMessage(oob)
	for i := range all {
		if more, e := unix.ParseUnixRights(&all[i]); e == nil { // otherwise it has none
			for _, fd := range more {
				fds = append(fds, fdmark.Take(fd))
			}
		}
	}
	return fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // of a peer that is refused
	}
}

// detach closes the connection and returns a copy of its descriptor. On Linux 6.16 and later, the
// peer cannot pass more descriptors: closing these might block.
func (c *conn) detach() (fd int, err error) {
	ctl := c.raw.Control(func(s uintptr) { fd, err = fdmark.Copy(int(s)) })
	if err = errors.Join(ctl, err); err != nil {
		return -1, err
	}
	if err := c.f.Close(); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) // older kernels lack it
	return fd, nil
}

func (c *conn) close() { _ = c.f.Close() }

// NamePrefix begins the names of the sockets of all hosts. The first character stands for the zero byte
// of an abstract name, also where the kernel lists them.
const NamePrefix = "@softhca/near/"

// nameOf returns the name of the socket of a place. Base is what the address contributes.
func nameOf(base string, slot uint8) string {
	return NamePrefix + base + "/" + strconv.Itoa(int(slot))
}
