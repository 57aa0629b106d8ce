//go:build !portable

package udp

import (
	"net"

	"golang.org/x/sys/unix"
)

// adopt uses the next socket of the lease for an address. The socket is bound and
// has its options, except for GRO. Outside of the loopback interface, GRO could
// merge packets to several processes, which have the same UDP ports, and the
// system would deliver all of them to the process of the first.
func (s *socket) adopt(nif *net.Interface, c *Config) {
	s.fd = c.Lease.Sockets[s.index]
	if n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil {
		s.rcvbuf = n
	}
	merge := 0
	if !c.DisableGRO && (nif.Flags&net.FlagLoopback != 0 || !c.Lease.shared()) {
		merge = 1
	}
	s.gro = unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_GRO, merge) == nil && merge == 1
	s.gso = s.offload(nif, c.GSO)
}

// forwardSocket returns the socket of forwarded datagrams, nil if the lease has none.
func (t *Lease) forwardSocket() *socket {
	if t == nil || t.Forwarded < 0 {
		return nil
	}
	return &socket{fd: t.Forwarded, forwarded: true, depth: 1, index: int32(len(t.Sockets))}
}

// close closes the descriptors that no port owns.
func (t *Lease) close() {
	if t == nil {
		return
	}
	for _, fd := range append([]int{t.Forwarded}, t.Sockets...) {
		_ = unix.Close(fd) // sockets without linger: nothing to report
	}
}
