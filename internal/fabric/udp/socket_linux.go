//go:build !portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// defaultHops is the hop limit of every socket, so that packets with the usual
// one need no control message.
const defaultHops = 64

// socket is the UDP socket of one address, or of one group on one interface.
type socket struct {
	fd        int
	index     int32 // index in the port
	addr      netip.Addr
	ifname    string
	ifindex   int
	scope     uint32 // interface of a link-local address
	mtu       int    // largest UDP payload
	rcvbuf    int    // as the kernel counts it
	gso       bool
	gro       bool
	forwarded bool   // a Unix socket with forwarded datagrams
	depth     int    // number of messages to request at once
	drops     uint32 // the kernel's drop count, which wraps
}

// openSocket opens, configures and binds the socket of address a.
func openSocket(a netip.Addr, c *Config) (*socket, error) {
	nif, err := iface.Owner(a)
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	s := newSocket(a, nif, c)
	if c.Lease != nil {
		s.adopt(nif, c)
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	if err := s.bind(nif, c); err != nil {
		return nil, errors.Join(err, unix.Close(s.fd))
	}
	return s, nil
}

// newSocket returns the socket of address a, which is not open yet.
func newSocket(a netip.Addr, nif *net.Interface, c *Config) *socket {
	s := &socket{addr: a, depth: 1, ifname: nif.Name, ifindex: nif.Index, mtu: iface.Payload(nif.MTU, a)}
	for s.index = 0; c.Addrs[s.index] != a; s.index++ {
	}
	if a.IsLinkLocalUnicast() && a.Is6() {
		s.scope = uint32(nif.Index)
	}
	return s
}

// open opens a socket of the family of the address.
func (s *socket) open() (err error) {
	s.fd, err = unix.Socket(iface.Family(s.addr), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return fmt.Errorf("socket for %v: %w", s.addr, err)
	}
	s.fd = fdmark.Take(s.fd)
	return nil
}

// bind sets the options of the socket of an address and binds it, unless the port
// is idle.
func (s *socket) bind(nif *net.Interface, c *Config) error {
	if err := s.setup(c); err != nil {
		return err
	}
	s.leaveBy(nif)
	s.gso = s.offload(nif, c.GSO)
	if c.Idle {
		return nil
	}
	return iface.BindError("udp", s.addr, unix.Bind(s.fd, s.sockaddr()))
}

// setup sets the options that every socket has. Only options on which the ICRC
// depends must succeed; kernels without the others (gVisor, old ones) work too.
func (s *socket) setup(c *Config) error {
	if err := s.require(); err != nil {
		return err
	}
	iface.RecvBuffer(s.fd, c.RecvBuffer)
	iface.SendBuffer(s.fd, c.SendBuffer)
	mark(s.fd, FirstSocket)
	if n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil {
		s.rcvbuf = n
	}
	for _, o := range s.wishes() {
		_ = unix.SetsockoptInt(s.fd, o.level, o.name, o.value)
	}
	if !c.DisableGRO {
		s.gro = unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	}
	return nil
}

// leaveBy makes packets to groups leave by the interface of the address, not by
// the default route. The host delivers a copy to its own adapters, including
// this one.
func (s *socket) leaveBy(nif *net.Interface) {
	if s.addr.Is4() {
		_ = unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(nif.Index)})
		return
	}
	_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, nif.Index)
}

// require sets the mandatory options: identification 0 and DF for IPv4, one
// family per socket for IPv6.
func (s *socket) require() error {
	if s.addr.Is4() {
		err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		if err != nil {
			return fmt.Errorf("udp: the system cannot send with a fixed identification (IP_MTU_DISCOVER), which the ICRC needs; use an IPv6 address: %w", err)
		}
		return nil
	}
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
		return fmt.Errorf("udp: IPV6_V6ONLY: %w", err)
	}
	// RoCE adapters send UDP checksum 0 over IPv6, which the kernel drops by default.
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1); err != nil {
		return fmt.Errorf("udp: UDP_NO_CHECK6_RX, without which Linux peers are not heard: %w", err)
	}
	return nil
}

type option struct{ level, name, value int }

// wishes returns the optional options.
func (s *socket) wishes() []option {
	if s.addr.Is4() {
		return []option{
			{unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1},
			{unix.IPPROTO_IP, unix.IP_TTL, defaultHops},
			{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, defaultHops},
			{unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
			{unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		}
	}
	return []option{
		{unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
		{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, defaultHops},
		{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, defaultHops},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
		{unix.IPPROTO_IPV6, ipv6FlowInfo, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_AUTOFLOWLABEL, 0},
	}
}

// offload decides whether runs are sent with UDP_SEGMENT.
func (s *socket) offload(nif *net.Interface, g GSO) bool {
	if _, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT); err != nil {
		return false
	}
	switch g {
	case GSOOn:
		return true
	case GSOAuto:
		return iface.Virtual(nif)
	default:
		return false
	}
}

func (s *socket) sockaddr() unix.Sockaddr { return iface.Sockaddr(s.addr, s.scope) }
