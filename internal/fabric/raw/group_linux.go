package raw

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/lock"
)

// capture is the packet socket of one interface.
type capture struct {
	fd       int
	index    int // of the interface
	loopback bool
	v4, v6   bool // the port has an address of this family on the interface
}

// in reports whether the port joins a group on this interface.
func (c *capture) in(group netip.Addr) bool { return group.Is4() && c.v4 || group.Is6() && c.v6 }

// membership holds the state of a port's multicast groups. The packet sockets
// receive a group if their filters accept it; another socket makes the host a
// member.
type membership struct {
	control lock.Mutex[lock.Groups] // guards what follows
	groups  fabric.Groups
	list    []member
}

type member struct {
	group netip.Addr
	fd    int
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
	if err == nil && first {
		if err = p.enter(group); err != nil {
			_, undo := m.groups.Leave(group)
			err = errors.Join(err, undo)
		}
	}
	if err != nil {
		return fmt.Errorf("raw: join %v: %w", group, err)
	}
	return nil
}

// Leave implements fabric.Port.
func (p *Port) Leave(group netip.Addr) error {
	if !p.poll.Enter() {
		return fabric.ErrClosed
	}
	defer p.poll.Leave()
	m := &p.member
	m.control.Lock()
	defer m.control.Unlock()
	last, err := m.groups.Leave(group)
	if err == nil && last {
		i := slices.IndexFunc(m.list, func(e member) bool { return e.group == group })
		_ = unix.Close(m.list[i].fd)
		m.list = slices.Delete(m.list, i, i+1)
		err = p.refilter()
	}
	if err != nil {
		return fmt.Errorf("raw: leave %v: %w", group, err)
	}
	return nil
}

// enter makes the host a member of a group on the interfaces of its family and
// updates the filters. A failed call changes nothing.
func (p *Port) enter(group netip.Addr) error {
	// The socket has no port, so it receives nothing.
	fd, err := unix.Socket(iface.Family(group), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	for i := range p.captures {
		if c := &p.captures[i]; c.in(group) && err == nil {
			err = iface.Subscribe(fd, group, c.index)
		}
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	m := &p.member
	m.list = append(m.list, member{group, fd})
	if err := p.refilter(); err != nil {
		m.list = m.list[:len(m.list)-1]
		return errors.Join(err, p.refilter(), unix.Close(fd))
	}
	return nil
}

// refilter makes the packet sockets accept the port's groups. The kernel does
// not deliver the local copies of the host's own packets to a group to packet
// sockets, so these accept outgoing packets; on loopback the same packet also
// arrives as incoming.
func (p *Port) refilter() error {
	for i := range p.captures {
		c := &p.captures[i]
		var groups []netip.Addr
		for _, e := range p.member.list {
			if c.in(e.group) {
				groups = append(groups, e.group)
			}
		}
		h := hearing{addrs: p.caps.Addrs, groups: groups, outgoing: !c.loopback && len(groups) > 0}
		if err := attach(c.fd, h.filter()); err != nil {
			return fmt.Errorf("attach filter: %w", err)
		}
		ignoreOutgoing(c.fd, !h.outgoing)
	}
	return nil
}

// ignoreOutgoing tells the kernel whether to skip the filter for outgoing
// packets.
func ignoreOutgoing(fd int, ignore bool) {
	v := 0
	if ignore {
		v = 1
	}
	// An optimisation, which old kernels lack: the filter drops these packets
	// too.
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, v)
}
