package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// sockets collects the descriptors of a port while it is opened.
type sockets struct {
	fds []int
}

// add opens a socket and calls setup; close undoes both.
func (s *sockets) add(family, kind, protocol int, setup func(fd int) error) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return 0, fmt.Errorf("raw: a raw port needs CAP_NET_RAW; run as root or use a UDP port: %w", err)
		}
		return 0, fmt.Errorf("raw: socket: %w", err)
	}
	s.fds = append(s.fds, fd)
	return fd, setup(fd)
}

// close closes all sockets.
func (s *sockets) close() {
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
}

// capture adds a packet socket that receives the packets of an interface. It is
// bound after the filter is set, so that no other packets get in.
func (s *sockets) capture(nif *net.Interface, c *Config) (int, error) {
	return s.add(unix.AF_PACKET, unix.SOCK_RAW, 0, func(fd int) error {
		h := hearing{addrs: c.Addrs}
		if err := attach(fd, h.filter()); err != nil {
			return fmt.Errorf("raw: attach filter: %w", err)
		}
		// PACKET_VNET_HDR reports how to segment packets of offloading senders
		// on this host, PACKET_AUXDATA the offset of the IP header.
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return fmt.Errorf("raw: PACKET_VNET_HDR: %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
			return fmt.Errorf("raw: PACKET_AUXDATA: %w", err)
		}
		ignoreOutgoing(fd, true)
		iface.RecvBuffer(fd, c.RecvBuffer)
		var all [2]byte
		binary.BigEndian.PutUint16(all[:], unix.ETH_P_ALL)
		to := &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(all[:]), Ifindex: nif.Index}
		if err := unix.Bind(fd, to); err != nil {
			return fmt.Errorf("raw: bind to %s: %w", nif.Name, err)
		}
		return nil
	})
}

// sender adds a raw socket for packets with their own IP header. It receives
// nothing.
func (s *sockets) sender(family int, c *Config) (int, error) {
	return s.add(family, unix.SOCK_RAW, unix.IPPROTO_RAW, func(fd int) error {
		if err := attach(fd, rejectAll()); err != nil {
			return fmt.Errorf("raw: attach filter: %w", err)
		}
		iface.SendBuffer(fd, c.SendBuffer)
		return nil
	})
}

// reserve adds a UDP socket that owns port 4791 of a and receives nothing.
func (s *sockets) reserve(a netip.Addr, scope uint32) error {
	_, err := s.add(iface.Family(a), unix.SOCK_DGRAM, unix.IPPROTO_UDP, func(fd int) error {
		if err := attach(fd, rejectAll()); err != nil {
			return fmt.Errorf("raw: attach filter: %w", err)
		}
		if a.Is6() {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
				return fmt.Errorf("raw: IPV6_V6ONLY: %w", err)
			}
		}
		return iface.BindError("raw", a, unix.Bind(fd, iface.Sockaddr(a, scope)))
	})
	return err
}

// owners returns the interfaces of addrs, each once, and loopback, which
// carries the host's packets to itself.
func owners(addrs []netip.Addr) ([]*net.Interface, error) {
	var all []*net.Interface
	seen := make(map[int]bool)
	for _, a := range append(addrs[:len(addrs):len(addrs)], netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
		nif, err := iface.Owner(a)
		if err != nil {
			return nil, fmt.Errorf("raw: %w", err)
		}
		if !seen[nif.Index] {
			seen[nif.Index] = true
			all = append(all, nif)
		}
	}
	return all, nil
}
