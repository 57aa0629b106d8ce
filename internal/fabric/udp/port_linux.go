//go:build !portable

package udp

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/poll"
)

// Port is an attachment through UDP sockets. It implements fabric.Port.
type Port struct {
	*fabric.Counts
	cfg    Config
	caps   fabric.Caps
	socks  []*socket // sockets of the addresses, followed,
	mail   bool      // if mail is set, by Lease.Mail
	member membership
	poll   *poll.Poller
	send   *sender
	recv   *receiver
	diag   diag

	waited  atomic.Bool  // since the last read of Lease.Mail
	blocked atomic.Int32 // index of the last socket without room, or poll.NoSocket
}

var _ fabric.Port = (*Port)(nil)

// gsoSegments bounds a run. Newer kernels take 128 segments, older ones 64.
const gsoSegments = 64

// Open opens a port on UDP port 4791 of every address of c. It fails if one of
// them is in use or not local.
func Open(c Config) (*Port, error) {
	lease := c.Lease
	c, err := c.normal()
	if err != nil {
		lease.close()
		return nil, err
	}
	p := &Port{Counts: c.Counts, cfg: c}
	fds := make([]int, 0, len(c.Addrs)+1)
	for _, a := range c.Addrs {
		s, err := openSocket(a, &c)
		if err != nil {
			if lease == nil {
				closeAll(p.socks)
			}
			lease.close()
			return nil, err
		}
		p.socks = append(p.socks, s)
		fds = append(fds, s.fd)
	}
	p.caps = capsOf(p.socks, &c)
	if mail := lease.forwardSocket(); mail != nil {
		p.socks, p.mail = append(p.socks, mail), true
		fds = append(fds, mail.fd)
	}
	if p.member.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		closeAll(p.socks)
		return nil, fmt.Errorf("udp: epoll: %w", err)
	}
	p.member.epoll = fdmark.Take(p.member.epoll)
	if p.poll, err = poll.New(append(fds, p.member.epoll)...); err != nil {
		return nil, err
	}
	p.member.heard = slices.Clone(p.socks)
	p.send = newSender(p.caps.MaxSegments > 1)
	p.recv = newReceiver()
	p.blocked.Store(poll.NoSocket)
	return p, nil
}

// capsOf describes a port of these sockets: the capabilities common to all.
func capsOf(socks []*socket, c *Config) fabric.Caps {
	caps := fabric.Caps{
		Name:        "udp",
		Interface:   socks[0].ifname,
		Addrs:       c.Addrs,
		MTU:         socks[0].mtu,
		MaxSegments: gsoSegments,
		MaxRunBytes: ipudp.MaxPayload,
		GRO:         true,
		SrcPort:     fabric.RoCEPort,
		RecvBuffer:  socks[0].rcvbuf,
		Verify:      fabric.VerifyFull,
	}
	for _, s := range socks {
		caps.MTU = min(caps.MTU, s.mtu)
		caps.RecvBuffer = min(caps.RecvBuffer, s.rcvbuf)
		caps.GRO = caps.GRO && s.gro
		if !s.gso {
			caps.MaxSegments = 1
		}
		if s.addr.Is4() {
			caps.Verify = fabric.VerifyDerivedID
		}
	}
	return caps
}

// Caps implements fabric.Port. The caller must not change the addresses.
func (p *Port) Caps() fabric.Caps { return p.caps }

// socketOf returns the socket that is bound to a, or nil.
func (p *Port) socketOf(a netip.Addr) *socket {
	for _, s := range p.socks {
		if s.addr == a {
			return s
		}
	}
	return nil
}

// Wait implements fabric.Port. It occupies its thread while it sleeps. Write
// waits for room in the socket that had none at the last Send.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	if p.mail && read && timeout != 0 {
		defer p.waited.Store(true)
	}
	return p.poll.WaitRoom(timeout, read, write, int(p.blocked.Load()))
}

// Wake implements fabric.Port.
func (p *Port) Wake() { p.poll.Wake() }

// WakeOn implements fabric.Port.
func (p *Port) WakeOn(fds [2]int) { p.poll.WakeOn(fds) }

// Watch makes each Wait for something to read also end when fd is readable. The caller keeps
// the descriptor open until Close.
func (p *Port) Watch(fd int) { p.poll.Watch(fd) }

// Watched reports whether the descriptor of Watch was readable at the end of the last Wait. The
// goroutine that calls Wait calls it.
func (p *Port) Watched() bool { return p.poll.Watched() }

// Enter keeps Close from returning until Exit. It returns false after Close.
func (p *Port) Enter() bool { return p.poll.Enter() }

// Exit undoes Enter.
func (p *Port) Exit() { p.poll.Leave() }

// Close implements fabric.Port. It waits until all other calls have returned.
func (p *Port) Close() error {
	if err := p.poll.Close(); err != nil {
		return err
	}
	closeAll(p.member.heard[len(p.socks):])
	p.diag.close()
	return nil
}
