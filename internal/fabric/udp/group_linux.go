//go:build !portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/lock"
)

// membership holds the state of a port's multicast groups. A socket bound to an
// address does not receive groups, so each group has a socket of its own on
// every interface.
type membership struct {
	epoll int         // readable when a socket of a group is; the poller owns it
	any   atomic.Bool // the port is in a group

	control lock.Mutex[lock.Groups] // guards groups; Join and Leave hold it throughout
	groups  fabric.Groups

	hearing lock.Mutex[lock.Hearing] // guards heard; held while a group's socket is read
	heard   []*socket                // the sockets of the addresses, then those of groups
}

// Join implements fabric.Port.
func (p *Port) Join(group netip.Addr) error {
	if !p.poll.Enter() {
		return fabric.ErrClosed
	}
	defer p.poll.Leave()
	m := &p.member
	m.control.Lock()
	defer m.control.Unlock()
	first, err := m.groups.Join(group, p.caps.Addrs)
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	if !first {
		return nil
	}
	socks, err := p.openGroup(group)
	if err != nil {
		_, undo := m.groups.Leave(group)
		return errors.Join(err, undo)
	}
	m.hearing.Lock()
	defer m.hearing.Unlock()
	m.heard = append(m.heard, socks...)
	m.any.Store(true)
	return nil
}

// Leave implements fabric.Port. Datagrams in the group's sockets are lost.
func (p *Port) Leave(group netip.Addr) error {
	if !p.poll.Enter() {
		return fabric.ErrClosed
	}
	defer p.poll.Leave()
	m := &p.member
	m.control.Lock()
	defer m.control.Unlock()
	last, err := m.groups.Leave(group)
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	if last {
		closeAll(m.remove(group, len(p.socks)))
	}
	return nil
}

// remove removes the sockets of a group from heard and returns them. The first
// keep sockets do not belong to groups.
func (m *membership) remove(group netip.Addr, keep int) []*socket {
	m.hearing.Lock()
	defer m.hearing.Unlock()
	var removed []*socket
	m.heard = slices.DeleteFunc(m.heard, func(s *socket) bool {
		if s.addr != group {
			return false
		}
		removed = append(removed, s)
		return true
	})
	m.any.Store(len(m.heard) > keep)
	return removed
}

// openGroup opens the sockets of a group: one on each interface that has an
// address of its family, or none if there is an error.
func (p *Port) openGroup(group netip.Addr) ([]*socket, error) {
	var socks []*socket
	for _, own := range p.socks {
		if own.forwarded || own.addr.Is4() != group.Is4() || slices.ContainsFunc(socks, own.sameInterface) {
			continue
		}
		s, err := own.openGroup(group, &p.cfg)
		if err == nil {
			socks = append(socks, s)
			err = unix.EpollCtl(p.member.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN})
		}
		if err != nil {
			closeAll(socks)
			return nil, fmt.Errorf("udp: join %v on %s: %w", group, own.ifname, err)
		}
	}
	return socks, nil
}

func (s *socket) sameInterface(o *socket) bool { return s.ifindex == o.ifindex }

// openGroup opens a socket that receives a group on the interface of s.
func (s *socket) openGroup(group netip.Addr, c *Config) (*socket, error) {
	g := &socket{addr: group, ifname: s.ifname, ifindex: s.ifindex, depth: 1}
	if group.IsLinkLocalMulticast() || group.IsInterfaceLocalMulticast() {
		g.scope = uint32(s.ifindex)
	}
	if err := g.open(); err != nil {
		return nil, err
	}
	if err := g.enter(c); err != nil {
		return nil, errors.Join(err, unix.Close(g.fd))
	}
	return g, nil
}

// enter sets the options of a socket of a group, binds it and joins the group.
// Every adapter of the host in the group has such a socket, and each gets a
// copy.
func (s *socket) enter(c *Config) error {
	if err := s.setup(c); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	// Old kernels lack these options or require privilege. Without them the
	// socket also receives the group's packets on other interfaces where
	// another socket has joined.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, s.ifindex)
	if s.addr.Is4() {
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	}
	if err := unix.Bind(s.fd, s.sockaddr()); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return iface.Subscribe(s.fd, s.addr, s.ifindex)
}

// closeAll closes sockets, which ends their memberships.
func closeAll(socks []*socket) {
	for _, s := range socks {
		_ = unix.Close(s.fd) // sockets without linger: nothing to report
	}
}
