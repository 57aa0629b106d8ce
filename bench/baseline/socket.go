//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits of the kernel for one send with segmentation.
const (
	maxSegments = 64
	maxRunBytes = 65000
	recvBuffer  = 4 << 20 // requested; the system may grant less
)

// errShut is returned once shut is set.
var errShut = errors.New("socket shut")

// socket is a UDP socket that does not block and is not connected, like an
// adapter's. System calls on it skip the scheduler, since they are short. Not
// safe for concurrent use, except for shut.
type socket struct {
	fd   int
	shut atomic.Bool // makes receive return errShut

	blocks bool // receiveFrom sleeps until something arrives

	to, from     unix.RawSockaddrInet4
	out, in      unix.Msghdr
	outVec       unix.Iovec
	inVec        unix.Iovec
	outControl   [24]byte // UDP_SEGMENT: a header of 16 bytes and a uint16
	inControl    [24]byte // UDP_GRO: a header of 16 bytes and an int32
	receiveSpace [1 << 16]byte
}

// openSocket binds a socket. Except in a ping-pong, the system may merge segments
// that arrive.
func openSocket(at netip.AddrPort, c config) (*socket, error) {
	if !at.Addr().Is4() {
		return nil, fmt.Errorf("%v is not an IPv4 address", at.Addr())
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := &socket{fd: fd}
	// A larger buffer is useful but not necessary: the window bounds the data
	// in flight.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, recvBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, recvBuffer)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
		unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, option(!c.pingpong)),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}),
	)
	if err == nil && c.sleep {
		err = s.sleep()
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open %v: %w", at, err)
	}
	s.prepare()
	return s, nil
}

// prepare links the structures that the system calls read.
func (s *socket) prepare() {
	s.to.Family = unix.AF_INET
	s.out.Name = (*byte)(unsafe.Pointer(&s.to))
	s.out.Namelen = unix.SizeofSockaddrInet4
	s.out.Iov = &s.outVec
	s.out.SetIovlen(1)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&s.outControl))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))

	s.inVec.Base = &s.receiveSpace[0]
	s.inVec.SetLen(len(s.receiveSpace))
	s.in.Name = (*byte)(unsafe.Pointer(&s.from))
	s.in.Iov = &s.inVec
	s.in.SetIovlen(1)
	s.in.Control = &s.inControl[0]
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// local returns the address that the socket is bound to.
func (s *socket) local() (netip.AddrPort, error) {
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("getsockname: %w", err)
	}
	in := sa.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)), nil
}

// direct sets the destination.
func (s *socket) direct(peer netip.AddrPort) {
	s.to.Addr = peer.Addr().As4()
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&s.to.Port))[:], peer.Port())
}

// answer makes the sender of the last datagram the destination.
func (s *socket) answer() { s.to = s.from }

// send sends b as segments of the given size, waiting while the buffer of the
// socket is full.
func (s *socket) send(b []byte, segment int) error {
	s.outVec.Base = &b[0]
	s.outVec.SetLen(len(b))
	s.out.Control = nil
	s.out.SetControllen(0)
	if segment < len(b) {
		binary.NativeEndian.PutUint16(s.outControl[unix.CmsgLen(0):], uint16(segment))
		s.out.Control = &s.outControl[0]
		s.out.SetControllen(unix.CmsgSpace(2))
	}
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.out)), 0)
		if sent, err := s.sent(errno); sent || err != nil {
			return err
		}
	}
}

// sent reports whether a call has sent. If the buffer is full, it waits for room.
func (s *socket) sent(errno unix.Errno) (bool, error) {
	switch errno {
	case 0:
		return true, nil
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		return false, s.poll(unix.POLLOUT, time.Millisecond)
	default:
		return false, fmt.Errorf("send: %w", errno)
	}
}

// receive returns the bytes that have arrived, if any, and the size of their
// segments. The bytes are valid until the next call.
func (s *socket) receive() (b []byte, segment int, err error) {
	s.in.Namelen = unix.SizeofSockaddrInet4
	s.in.SetControllen(len(s.inControl))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.in)), 0)
	if b, err = s.arrived(n, errno); b == nil {
		return nil, 0, err
	}
	segment = int(n)
	if s.in.Controllen >= uint64(unix.CmsgLen(4)) { // UDP_GRO is the only possible control message
		segment = int(binary.NativeEndian.Uint32(s.inControl[unix.CmsgLen(0):]))
	}
	return b, segment, nil
}

// arrived returns the n bytes that a call has received, if any.
func (s *socket) arrived(n uintptr, errno unix.Errno) ([]byte, error) {
	switch {
	case s.shut.Load():
		return nil, errShut
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil, nil
	case errno != 0:
		return nil, fmt.Errorf("receive: %w", errno)
	}
	return s.receiveSpace[:n], nil
}

// sendTo sends b as one segment, waiting while the buffer of the socket is
// full.
func (s *socket) sendTo(b []byte) error {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			0, uintptr(unsafe.Pointer(&s.to)), unix.SizeofSockaddrInet4)
		if sent, err := s.sent(errno); sent || err != nil {
			return err
		}
	}
}

// sleep makes receiveFrom wait for something to arrive, for up to pingWait.
func (s *socket) sleep() error {
	s.blocks = true
	wait := unix.NsecToTimeval(int64(pingWait))
	err := errors.Join(
		unix.SetNonblock(s.fd, false),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	)
	if err != nil {
		return fmt.Errorf("make the socket block: %w", err)
	}
	return nil
}

// receiveFrom is receive for a socket that never gets merged segments.
func (s *socket) receiveFrom() ([]byte, error) {
	s.in.Namelen = unix.SizeofSockaddrInet4
	call := unix.RawSyscall6
	if s.blocks {
		call = unix.Syscall6
	}
	n, _, errno := call(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&s.receiveSpace)),
		uintptr(len(s.receiveSpace)), 0, uintptr(unsafe.Pointer(&s.from)), uintptr(unsafe.Pointer(&s.in.Namelen)))
	return s.arrived(n, errno)
}

// spins is how often await polls before it sleeps: some tens of microseconds.
const spins = 200

// await is receive that waits up to the timeout for something to arrive.
func (s *socket) await(timeout time.Duration) (b []byte, segment int, err error) {
	for range spins {
		if b, segment, err = s.receive(); b != nil || err != nil {
			return b, segment, err
		}
	}
	if err := s.poll(unix.POLLIN, timeout); err != nil {
		return nil, 0, err
	}
	return s.receive()
}

func (s *socket) poll(events int16, timeout time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: events}}
	if _, err := unix.Poll(fds, int(timeout.Milliseconds())); err != nil && err != unix.EINTR {
		return fmt.Errorf("poll: %w", err)
	}
	return nil
}

// option returns the value of a Boolean socket option.
func option(on bool) int {
	if on {
		return 1
	}
	return 0
}
