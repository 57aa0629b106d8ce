package raw

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/poll"
)

// Port is an attachment through packet and raw sockets. It implements
// fabric.Port.
type Port struct {
	fabric.Counts
	caps     fabric.Caps
	poll     *poll.Poller
	captures []capture
	member   membership
	recv     *receiver
	send     *sender

	blocked atomic.Int32 // index in the poller of the last socket without room
}

var _ fabric.Port = (*Port)(nil)

// Open opens a port on UDP port 4791 of every address of c. It needs
// CAP_NET_RAW, and fails if an address is in use or not local.
func Open(c Config) (*Port, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	nifs, err := owners(c.Addrs)
	if err != nil {
		return nil, err
	}
	p := &Port{caps: fabric.Caps{
		Name:        "raw",
		Interface:   nifs[0].Name,
		Addrs:       c.Addrs,
		MTU:         ipudp.MaxPayload,
		MaxSegments: 1,
		MaxRunBytes: ipudp.MaxPayload,
		GRO:         true,
		Verify:      fabric.VerifyFull,
	}}
	p.blocked.Store(poll.NoSocket)
	var s sockets
	if err := p.open(&s, nifs, &c); err != nil {
		s.close()
		return nil, err
	}
	p.recv = newReceiver(len(p.captures))
	if p.poll, err = poll.New(s.fds...); err != nil {
		return nil, err
	}
	return p, nil
}

// open opens the sockets.
func (p *Port) open(s *sockets, nifs []*net.Interface, c *Config) error {
	for _, nif := range nifs {
		fd, err := s.capture(nif, c)
		if err != nil {
			return err
		}
		p.captures = append(p.captures, capture{fd: fd, index: nif.Index, loopback: nif.Flags&net.FlagLoopback != 0})
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil && (n < p.caps.RecvBuffer || p.caps.RecvBuffer == 0) {
			p.caps.RecvBuffer = n
		}
	}
	p.send = newSender()
	for _, a := range c.Addrs {
		nif, err := iface.Owner(a)
		if err != nil {
			return err
		}
		p.caps.MTU = min(p.caps.MTU, iface.Payload(nif.MTU, a))
		if err := s.reserve(a, uint32(nif.Index)); err != nil {
			return err
		}
		if err := p.openSender(s, a, c); err != nil {
			return err
		}
		p.send.scopes = append(p.send.scopes, uint32(nif.Index))
		p.owns(nif.Index, a)
	}
	return nil
}

// owns records that an interface has address a of the port.
func (p *Port) owns(ifindex int, a netip.Addr) {
	for i := range p.captures {
		if c := &p.captures[i]; c.index == ifindex {
			c.v4, c.v6 = c.v4 || a.Is4(), c.v6 || a.Is6()
		}
	}
}

// openSender opens the raw socket of the family of a, once.
func (p *Port) openSender(s *sockets, a netip.Addr, c *Config) error {
	to := &p.send.v6
	if a.Is4() {
		to = &p.send.v4
	}
	if to.index != poll.NoSocket {
		return nil
	}
	fd, err := s.sender(iface.Family(a), c)
	if err != nil {
		return err
	}
	*to = outlet{fd: fd, index: len(s.fds) - 1}
	return nil
}

// Caps implements fabric.Port. The caller must not change the addresses.
func (p *Port) Caps() fabric.Caps { return p.caps }

// Wait implements fabric.Port. It occupies its thread while it sleeps.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	return p.poll.WaitRoom(timeout, read, write, int(p.blocked.Load()))
}

// Wake implements fabric.Port.
func (p *Port) Wake() { p.poll.Wake() }

// WakeOn implements fabric.Port.
func (p *Port) WakeOn(fds [2]int) { p.poll.WakeOn(fds) }

// Stats implements fabric.Port.
func (p *Port) Stats() fabric.Stats {
	p.countOverflows()
	return p.Counts.Stats()
}

// countOverflows adds the kernel's drops since the last call; reading resets
// the kernel's counts.
func (p *Port) countOverflows() {
	if !p.poll.Enter() {
		return
	}
	defer p.poll.Leave()
	for i := range p.captures {
		if st, err := unix.GetsockoptTpacketStats(p.captures[i].fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.Overflows.Add(uint64(st.Drops))
		}
	}
}

// Close implements fabric.Port. It waits until all other calls have returned.
func (p *Port) Close() error {
	if err := p.poll.Close(); err != nil {
		return err
	}
	for _, e := range p.member.list {
		_ = unix.Close(e.fd) // sockets without linger: nothing to report
	}
	return nil
}
