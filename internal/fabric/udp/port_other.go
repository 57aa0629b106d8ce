//go:build !linux || portable

package udp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ident"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/waiter"
)

// Port is an attachment through UDP sockets. It implements fabric.Port on systems without special
// support, with these limits: no segmentation offload; Send may block for a moment while a socket
// buffer is full; traffic class and hop limit are neither sent nor seen; there is no multicast; the
// IPv4 identification is assumed to be 0, which is true if the system sends 0 with DF. Otherwise
// peers that check the whole ICRC drop its IPv4 packets: use IPv6.
type Port struct {
	*fabric.Counts
	*waiter.Waiter
	caps    fabric.Caps
	conns   []*net.UDPConn
	zones   []string   // of link-local addresses, by connection
	free    chan *slot // empty buffers
	full    chan *slot // received, not yet returned
	lent    []*slot    // returned by the last Receive
	readers sync.WaitGroup
	blocked atomic.Bool
}

var _ fabric.Port = (*Port)(nil)

// slot is the buffer of one received datagram.
type slot struct {
	buf [slotSize]byte
	n   int
	src netip.AddrPort
	dst netip.Addr
}

const (
	slotSize  = 8192 // more than any packet: a larger datagram is truncated and dropped
	slotCount = 256  // maximum number of datagrams in the port
)

// blockedPause is how long a port without room waits before it retries: these
// systems do not report when a queue below the socket has room.
const blockedPause = time.Millisecond

// Open opens a port on UDP port 4791 of every address of c. It fails if one of
// them is in use or not local, and on systems without sockets.
func Open(c Config) (*Port, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		return nil, fmt.Errorf("udp: %s has no UDP sockets; use a port inside the process: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	if c.Lease != nil {
		return nil, fmt.Errorf("udp: processes share addresses on Linux only: %w", errors.ErrUnsupported)
	}
	p := &Port{
		Counts: c.Counts,
		Waiter: waiter.New(),
		free:   make(chan *slot, slotCount),
		full:   make(chan *slot, slotCount),
		lent:   make([]*slot, 0, slotCount),
		caps: fabric.Caps{
			Name:        "udp",
			Addrs:       c.Addrs,
			MTU:         ipudp.MaxPayload,
			MaxSegments: 1,
			MaxRunBytes: ipudp.MaxPayload,
			SrcPort:     fabric.RoCEPort,
			Verify:      fabric.VerifyFull,
		},
	}
	for range slotCount {
		p.free <- new(slot)
	}
	for _, a := range c.Addrs {
		if err := p.listen(a, &c); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	for i, conn := range p.conns {
		p.readers.Go(func() { p.read(conn, c.Addrs[i]) })
	}
	return p, nil
}

// Backlog returns nil: these systems do not report how full other sockets are.
func (p *Port) Backlog(netip.Addr, ib.QPN) fabric.Backlog { return nil }

// listen adds the socket of address a.
func (p *Port) listen(a netip.Addr, c *Config) error {
	nif, err := iface.Owner(a)
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	network, zone := "udp4", ""
	if a.Is6() {
		network = "udp6"
		if a.IsLinkLocalUnicast() {
			zone = nif.Name
		}
	} else {
		p.caps.Verify = fabric.VerifyDerivedID
	}
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.WithZone(zone), fabric.RoCEPort))
	conn, err := net.ListenUDP(network, local)
	if err != nil {
		return iface.BindError("udp", a, err)
	}
	p.conns, p.zones = append(p.conns, conn), append(p.zones, zone)
	p.caps.Interface = cmp.Or(p.caps.Interface, nif.Name)
	p.caps.MTU = min(p.caps.MTU, iface.Payload(nif.MTU, a))
	_ = conn.SetReadBuffer(c.RecvBuffer) // the system may grant less
	_ = conn.SetWriteBuffer(c.SendBuffer)
	return dontFragment(conn, a.Is4())
}

// read moves datagrams from a socket to the port until the port is closed.
// When no slot is free the datagrams wait in the socket's own buffer.
func (p *Port) read(conn *net.UDPConn, local netip.Addr) {
	for {
		var s *slot
		select {
		case s = <-p.free:
		case <-p.Closing():
			return
		}
		n, src, err := conn.ReadFromUDPAddrPort(s.buf[:])
		if err != nil || n == slotSize {
			p.free <- s
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil || errors.Is(err, syscall.EMSGSIZE) {
				p.Truncated.Add(1)
			}
			continue // other errors come from earlier ICMP messages and do not concern this datagram
		}
		s.n, s.src, s.dst = n, src, local
		p.full <- s
		p.Arrived()
	}
}

// Caps implements fabric.Port. The caller must not change the addresses.
func (p *Port) Caps() fabric.Caps { return p.caps }

// Send implements fabric.Port. See Port for when it blocks.
func (p *Port) Send(b *fabric.Batch) error {
	if p.Closed() {
		return fabric.ErrClosed
	}
	for runs := b.Pending(); len(runs) > 0; runs = b.Pending() {
		if err := p.sendRun(&runs[0]); err != nil {
			return err
		}
		b.Sent(1)
	}
	p.blocked.Store(false)
	return nil
}

// sendRun sends the segments of r. If the socket has no room for all, it cuts
// the run to the rest.
func (p *Port) sendRun(r *fabric.Run) error {
	conn, dst := p.way(&r.Path)
	if conn == nil {
		p.SendErrors.Add(uint64(r.Count))
		return nil
	}
	for i := range r.Count {
		seg := r.Segment(i)
		ident.Move(r, i, uint16(i), 0)
		_, err := conn.WriteToUDPAddrPort(seg, dst)
		switch {
		case err == nil:
			p.Sent(1, len(seg))
		case errors.Is(err, net.ErrClosed):
			return fabric.ErrClosed
		case errors.Is(err, syscall.ENOBUFS):
			ident.Move(r, i, 0, uint16(i))
			ident.Cut(r, i)
			p.blocked.Store(true)
			return fabric.ErrBlocked
		default:
			p.SendErrors.Add(1)
		}
	}
	return nil
}

// way returns the connection and the destination of a path; none for a group,
// since the system would choose the interface.
func (p *Port) way(path *fabric.Path) (*net.UDPConn, netip.AddrPort) {
	for i, a := range p.caps.Addrs {
		if a != path.Src || a.Is4() != path.Dst.Is4() || path.Dst.IsMulticast() {
			continue
		}
		dst := path.Dst
		if dst.IsLinkLocalUnicast() {
			dst = dst.WithZone(p.zones[i])
		}
		return p.conns[i], netip.AddrPortFrom(dst, fabric.RoCEPort)
	}
	return nil, netip.AddrPort{}
}

// Receive implements fabric.Port.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if p.Closed() {
		return 0, fabric.ErrClosed
	}
	for _, s := range p.lent {
		p.free <- s
	}
	p.lent = p.lent[:0]
	size := 0
	for n := range ds {
		select {
		case s := <-p.full:
			ds[n] = fabric.Datagram{
				Bytes:   s.buf[:s.n:s.n],
				Src:     s.src.Addr().Unmap().WithZone(""),
				SrcPort: s.src.Port(),
				Dst:     s.dst,
				DstPort: fabric.RoCEPort,
			}
			p.lent = append(p.lent, s)
			size += s.n
		default:
			p.Received(n, size)
			return n, nil
		}
	}
	p.Received(len(ds), size)
	return len(ds), nil
}

// Join implements fabric.Port: it fails.
func (p *Port) Join(group netip.Addr) error {
	return fmt.Errorf("udp: join %v: multicast works on Linux only: %w", group, ib.EOPNOTSUPP)
}

// Leave implements fabric.Port: it fails, as nothing was joined.
func (p *Port) Leave(group netip.Addr) error {
	return fmt.Errorf("udp: the port is not in %v: %w", group, ib.EINVAL)
}

// Wait implements fabric.Port.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	if write {
		pause := time.Duration(0)
		if p.blocked.Load() {
			pause = blockedPause
		}
		if timeout < 0 || timeout > pause {
			timeout = pause
		}
	}
	return p.Waiter.Wait(timeout, read, func() bool { return read && len(p.full) > 0 })
}

// Close implements fabric.Port. A second Close returns fabric.ErrClosed.
func (p *Port) Close() error {
	if !p.Shut() {
		return fabric.ErrClosed
	}
	var err error
	for _, conn := range p.conns {
		err = errors.Join(err, conn.Close())
	}
	p.readers.Wait()
	return err
}
