//go:build !portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// MaxSlots is how many processes can share an address: a destination QPN has
// one byte for the slot, slot 0 is nobody's, and 255 is that of multicast.
const MaxSlots = 254

// OpenGroup opens the sockets of address a for processes that share it: first
// the one that gets what is for QP1 and for nobody, then one for each slot from 1
// on, which gets what is for queue pairs with that slot. They share the address
// only with each other. Which socket a packet goes to depends on the order in
// which they were opened, so none of them may be closed while others are used.
// The caller owns them.
func OpenGroup(a netip.Addr, slots int) (fds []int, err error) {
	if slots < 1 || slots > MaxSlots {
		return nil, fmt.Errorf("udp: %d processes on one address: want 1 to %d: %w", slots, MaxSlots, unix.EINVAL)
	}
	c, err := Config{Addrs: []netip.Addr{a}}.normal()
	if err != nil {
		return nil, err
	}
	nif, err := iface.Owner(c.Addrs[0])
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	defer func() {
		if err != nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			fds = nil
		}
	}()
	for i := range slots + 1 {
		s := newSocket(c.Addrs[0], nif, &c)
		if err := s.open(); err != nil {
			return fds, fmt.Errorf("udp: %w", err)
		}
		fds = append(fds, s.fd)
		// Not before the first is bound: a socket of somebody else that is here
		// must be found out.
		if i == 0 {
			err = s.bindFirst(nif, &c, slots)
		} else {
			err = errors.Join(share(s.fd), s.bind(nif, &c))
		}
		if err == nil {
			err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
		}
		if err != nil {
			return fds, err
		}
	}
	return fds, nil
}

// share makes a socket one of several on its address.
func share(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("udp: SO_REUSEPORT: %w", err)
	}
	return nil
}

// bindFirst binds the first socket of a group, which has the program.
func (s *socket) bindFirst(nif *net.Interface, c *Config, slots int) error {
	if err := s.vacant(); err != nil {
		return err
	}
	if err := errors.Join(share(s.fd), s.bind(nif, c)); err != nil {
		return err
	}
	filter := steering(slots)
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &p); err != nil {
		return fmt.Errorf("udp: the system cannot steer packets to the sockets of one port (SO_ATTACH_REUSEPORT_CBPF): %w", err)
	}
	return nil
}

// vacant returns an error if somebody has the address, another group of the same
// user among them, which SO_REUSEPORT would join.
func (s *socket) vacant() error {
	alone := &socket{addr: s.addr, scope: s.scope}
	if err := alone.open(); err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	defer unix.Close(alone.fd)
	if err := unix.Bind(alone.fd, alone.sockaddr()); err != nil {
		return bindError(s.addr, err)
	}
	return nil
}

// topByte is where the upper byte of the destination QPN is in a BTH.
const topByte = 5

// steering returns the program that chooses the socket of a packet: that of the
// slot in its destination QPN, or the first. A packet that is too short makes it
// return 0, too.
func steering(slots int) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: topByte},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: uint32(slots), Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_A},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}
