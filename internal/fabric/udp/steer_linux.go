//go:build !portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// MaxSlots is the maximum number of processes that can share an address: a
// destination QPN has one byte for the slot, slot 0 is reserved, and 255 is
// that of multicast.
const MaxSlots = 254

// The first sockets of a group; that of slot n follows n places after QP1's.
const (
	FirstSocket = 0 // of slot 0, and of packets without a slot's socket
	QP1Socket   = 1
)

// Vacant returns an error if address a cannot be bound: EADDRINUSE if another
// socket has it.
func Vacant(a netip.Addr) error {
	s, _, _, err := groupSocket(a)
	if err != nil {
		return err
	}
	alone, err := s.alone()
	if err != nil {
		return err
	}
	return unix.Close(alone.fd)
}

// OpenFirst opens the first socket of a group on address a, for a process that is
// alone there and can share the address later. It fails if another socket has the
// address; of concurrent calls in any processes, one succeeds. The caller owns the
// socket.
func OpenFirst(a netip.Addr) (fd int, err error) {
	s, nif, c, err := groupSocket(a)
	if err != nil {
		return -1, err
	}
	// A socket with SO_REUSEPORT would join another one of this user. A socket
	// without it gets the address exclusively, and keeps it until s is bound.
	alone, err := s.alone()
	if err != nil {
		return -1, err
	}
	if err := s.open(); err != nil {
		return -1, errors.Join(fmt.Errorf("udp: %w", err), unix.Close(alone.fd))
	}
	err = errors.Join(share(alone.fd), share(s.fd), s.bind(nif, c))
	_ = unix.Close(alone.fd)
	if errors.Is(err, unix.EADDRINUSE) { // a kernel that reads SO_REUSEPORT only when a socket is bound
		err = iface.BindError("udp", s.addr, unix.Bind(s.fd, s.sockaddr()))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(s.fd))
	}
	return s.fd, nil
}

// OpenGroup opens the other sockets of a group on address a, after the one of
// OpenFirst, which may be in use: one for QP1, and one for each slot from 1, which
// receives the packets to queue pairs of that slot. They share the address only with
// each other. The order of opening determines the socket of a packet, so none of
// them may be closed while others are in use. The caller owns them; the first in fds
// is the given one, even if there is an error.
func OpenGroup(a netip.Addr, first, slots int) (fds []int, err error) {
	fds = []int{first}
	if slots < 1 || slots > MaxSlots {
		return fds, fmt.Errorf("udp: %d processes on one address: want 1 to %d: %w", slots, MaxSlots, unix.EINVAL)
	}
	_, nif, _, err := groupSocket(a)
	if err != nil {
		return fds, err
	}
	if err := steer(first, nif, slots); err != nil {
		return fds, err
	}
	defer func() {
		if err != nil {
			for _, fd := range fds[1:] {
				_ = unix.Close(fd)
			}
			fds = fds[:1]
		}
	}()
	for slot := range slots + QP1Socket {
		s, nif, c, err := groupSocket(a)
		if err != nil {
			return fds, err
		}
		if err := s.open(); err != nil {
			return fds, fmt.Errorf("udp: %w", err)
		}
		fds = append(fds, s.fd)
		if err := errors.Join(share(s.fd), s.bind(nif, c), lockFilter(s.fd)); err != nil {
			return fds, err
		}
		if slot == 0 { // QP1's socket
			slot = int(ib.QPNMulticast >> 16)
		}
		mark(s.fd, uint8(slot))
	}
	return fds, nil
}

// groupSocket returns the socket of address a for a group, which is not open yet.
func groupSocket(a netip.Addr) (*socket, *net.Interface, *Config, error) {
	c, err := Config{Addrs: []netip.Addr{a}}.normal()
	if err != nil {
		return nil, nil, nil, err
	}
	nif, err := iface.Owner(c.Addrs[0])
	if err != nil {
		return nil, nil, nil, fmt.Errorf("udp: %w", err)
	}
	return newSocket(c.Addrs[0], nif, &c), nif, &c, nil
}

// share lets a socket share its address with others.
func share(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("udp: SO_REUSEPORT: %w", err)
	}
	return nil
}

// lockFilter prevents processes with a socket of the group from changing its
// BPF program.
func lockFilter(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1); err != nil {
		return fmt.Errorf("udp: SO_LOCK_FILTER: %w", err)
	}
	return nil
}

// steer attaches the BPF program to the first socket of a group. While that is the
// only socket, it gets all packets, because the kernel ignores a choice that does
// not exist. It also ends GRO, which could merge packets of several processes.
func steer(first int, nif *net.Interface, slots int) error {
	if nif.Flags&net.FlagLoopback == 0 {
		_ = unix.SetsockoptInt(first, unix.IPPROTO_UDP, unix.UDP_GRO, 0) // old kernels do not merge
	}
	locked, err := unix.GetsockoptInt(first, unix.SOL_SOCKET, unix.SO_LOCK_FILTER)
	if err == nil && locked == 1 { // by an earlier attempt
		return nil
	}
	filter := steering(slots)
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(first, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &p); err != nil {
		return fmt.Errorf("udp: the system cannot steer packets to the sockets of one port (SO_ATTACH_REUSEPORT_CBPF): %w", err)
	}
	return lockFilter(first)
}

// alone returns another socket that has the address of s exclusively. It fails if
// another socket or group has the address.
func (s *socket) alone() (*socket, error) {
	a := &socket{addr: s.addr, scope: s.scope}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	if err := unix.Bind(a.fd, a.sockaddr()); err != nil {
		return nil, errors.Join(iface.BindError("udp", s.addr, err), unix.Close(a.fd))
	}
	return a, nil
}

// topByte is the offset of the destination QPN's upper byte in a BTH.
const topByte = 5

// steering returns the BPF program that selects the socket of a packet: that of
// the slot in its destination QPN, that of QP1, or the first, which also gets too
// short packets.
func steering(slots int) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: topByte},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 3},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: uint32(slots), Jt: 5},
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, K: QP1Socket},
		{Code: unix.BPF_RET | unix.BPF_A},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: topByte + 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 1, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: QP1Socket},
		{Code: unix.BPF_RET | unix.BPF_K, K: FirstSocket},
	}
}
