//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
)

// newStore returns a socket in whose queue lies a message with the sockets of the groups, one
// group after the other, the listeners with the label's names, and the connection table. They stay open
// as long as a process has the socket open.
func newStore(label *message, c stored) (int, error) {
	all := append(append(slices.Concat(c.groups...), c.listeners...), c.connTable.fd)
	if len(all) > maxPassed {
		return -1, fmt.Errorf("broker: %d addresses with %d slots each need %d sockets, and the maximum is %d: use fewer: %w",
			len(c.groups), label.Slots, len(all)-1, maxPassed-1, unix.EINVAL)
	}
	b, err := label.encode()
	if err != nil {
		return -1, err
	}
	ends, err := socketPair()
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	if err := unix.Sendmsg(ends[0], b, unix.UnixRights(all...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err != nil {
		if errors.Is(err, unix.ETOOMANYREFS) {
			err = fmt.Errorf("raise the limit of open files (ulimit -n) above the sockets of all brokers of this user: %w", err)
		}
		return -1, errors.Join(fmt.Errorf("broker: keep %d sockets: %w", len(all), err), unix.Close(ends[1]))
	}
	return ends[1], nil
}

// stored is the contents of a store.
type stored struct {
	groups    [][]int // by address
	listeners []int   // by name
	connTable *connTable
}

// openStore returns the label of a store and copies of its contents. It refuses a store for
// other addresses, if any are given.
func openStore(store int, addrs []netip.Addr) (label *message, c stored, err error) {
	if err := isForwardSocket(store); err != nil {
		return nil, c, err
	}
	b, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*maxPassed))
	n, oobn, flags, _, err := unix.Recvmsg(store, b, oob, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, c, fmt.Errorf("broker: inspect the descriptors of a member: %w", err)
	}
	fds, err := passed(oob[:oobn])
	if err != nil {
		return nil, c, err
	}
	if label, err = decode(b[:n]); err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = tooMany(len(fds))
	}
	if err == nil && !label.describes(len(fds), addrs) {
		err = fmt.Errorf("broker: a member sent %d descriptors of version %d for %v: %w", len(fds), label.Version, label.Addrs, unix.EINVAL)
	}
	if err == nil {
		n := len(fds) - 1
		named := n - len(label.Names)
		c.groups = slices.Collect(slices.Chunk(fds[:named], label.Slots+1+udp.QP1Socket))
		c.listeners = fds[named:n]
		c.connTable, err = openConnTable(fds[n])
	}
	if err == nil {
		err = genuine(c.groups, label.Addrs)
	}
	for i := 0; err == nil && i < len(label.Names); i++ {
		err = isListener(c.listeners[i], label.Names[i])
	}
	if err != nil {
		closeAll(fds)
		return nil, stored{}, err
	}
	return label, c, nil
}

// describes reports whether the label is that of a store with count descriptors, and, if addrs
// are given, for these addresses.
func (m *message) describes(count int, addrs []netip.Addr) bool {
	n := len(m.Addrs)
	return m.Version == version && m.Slots >= 1 && m.Slots <= udp.MaxSlots && n >= 1 && (addrs == nil || slices.Equal(m.Addrs, addrs)) &&
		len(m.Names) >= n && len(m.Names) <= maxNames*n && count == (m.Slots+1+udp.QP1Socket)*n+len(m.Names)+1
}

// genuine returns an error if the sockets are not bound like groups on the addresses.
func genuine(groups [][]int, addrs []netip.Addr) error {
	for i, group := range groups {
		for _, fd := range group {
			kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
			shared, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT)
			at, err3 := boundTo(fd)
			if err := errors.Join(err, err2, err3); err != nil {
				return fmt.Errorf("broker: descriptor %d of a member: %w", fd, err)
			}
			if kind != unix.IPPROTO_UDP || shared == 0 || at != netip.AddrPortFrom(addrs[i], fabric.RoCEPort) {
				return fmt.Errorf("broker: descriptor %d of a member is no socket of %v: %w", fd, addrs[i], unix.EINVAL)
			}
		}
	}
	return nil
}

// boundTo returns the address and port of a socket.
func boundTo(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	default:
		return netip.AddrPort{}, unix.EAFNOSUPPORT
	}
}

// drain discards the datagrams in a socket, so that the next member of its slot gets none of
// the previous member's.
func drain(fd int) {
	var b [1]byte
	for range maxDrained {
		if _, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC); err != nil {
			return
		}
	}
}

// maxDrained bounds the datagrams that drain discards: more than a buffer holds.
const maxDrained = 1 << 16
