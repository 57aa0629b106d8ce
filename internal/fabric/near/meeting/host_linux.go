//go:build !portable

package meeting

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/lock"
)

// The bounds of a host.
const (
	maxStrangers = 16              // connections that are served at a time
	maxAttempts  = 2 * MaxPeers    // meetings in progress
	helloTime    = 2 * time.Second // for a whole meeting
	errorPause   = 10 * time.Millisecond
	backlog      = 64 // connections that wait to be accepted
)

// Config is the configuration of a Host.
type Config struct {
	Self Identity
	// Name returns the part of socket names that depends on the address. It has to be the same in
	// all processes of the user, and other users should be unable to compute it.
	Name func(netip.Addr) string
	Ring int // size of the ring to each peer in bytes
	// Permit returns an error if this process must not meet the processes at an address; nil permits
	// all. The host calls it before it offers memory, because a peer may send as soon as the two
	// have met. Several goroutines call it.
	Permit func(netip.Addr) error

	// Met takes each new peer. Several goroutines call it.
	Met func(*Peer)
	// Peers, unless nil, returns the number of peers that the process has. Several goroutines call it.
	Peers func() int
	// Refused, unless nil, is called for each connection that this host refuses, by several goroutines.
	Refused func()
}

// Counts are the counts of a host.
type Counts struct {
	Met     atomic.Uint64 // meetings
	Refused atomic.Uint64 // connections that this host has refused
}

// Host is a process that can be met. Any goroutine may call its methods.
type Host struct {
	Counts
	cfg     Config
	file    *os.File // the socket that listens
	raw     syscall.RawConn
	places  chan struct{} // a token for each connection that is served
	serving sync.WaitGroup

	mu       lock.Mutex[lock.Meetings] // guards what follows, and its elements
	attempts map[Key]*attempt
}

// attempt is a meeting in progress with the process at a place.
type attempt struct {
	number  uint64        // of the invitation from this process; 0: only the other process has invited
	accepts bool          // this process has invited, and has also accepted an invitation
	offered chan struct{} // made when the offer arrives, closed when it is answered
	met     bool          // Met was called
	ended   chan struct{} // closed after the attempt
}

// Listen returns a Host. It fails with ErrNotAllowed where Allowed does, and with EADDRINUSE if
// a socket has the name of Self already.
func Listen(c Config) (*Host, error) {
	if err := Allowed(); err != nil {
		return nil, err
	}
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("meeting: socket: %w", err)
	}
	name := nameOf(c.Name(c.Self.Addr), c.Self.Slot)
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("meeting: listen at %s: %w", name, err), unix.Close(fd))
	}
	h := &Host{cfg: c, file: os.NewFile(uintptr(fd), "meeting"), places: make(chan struct{}, maxStrangers), attempts: make(map[Key]*attempt)}
	if h.raw, err = h.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, h.file.Close())
	}
	h.serving.Go(h.listen)
	return h, nil
}

// Close stops meetings and waits until those in progress have ended. Peers that were met stay.
func (h *Host) Close() error {
	err := h.file.Close()
	h.serving.Wait()
	return err
}

// listen accepts connections until the host is closed.
func (h *Host) listen() {
	for {
		fd, err := h.accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if errors.Is(err, ErrUser) {
			continue
		}
		if err != nil {
			time.Sleep(errorPause) // most likely out of descriptors; the connection stays in the queue
			continue
		}
		select {
		case h.places <- struct{}{}:
			h.serving.Go(func() {
				h.serve(fd)
				<-h.places
			})
		default:
			h.refuse(fd)
		}
	}
}

// accept waits for a connection of this user.
func (h *Host) accept() (fd int, err error) {
	wait := h.raw.Read(func(s uintptr) bool {
		fd, _, err = unix.Accept4(int(s), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	if wait != nil {
		return -1, os.ErrClosed
	}
	if err != nil {
		return -1, err
	}
	if err := ofThisUser(fd); err != nil {
		h.refuse(fd)
		return -1, err
	}
	return fdmark.Take(fd), nil
}

// refuse closes a connection.
func (h *Host) refuse(fd int) {
	h.refused()
	_ = unix.Close(fd) // nothing was sent
}

// refused counts a connection that was refused.
func (h *Host) refused() {
	h.Refused.Add(1)
	if h.cfg.Refused != nil {
		h.cfg.Refused()
	}
}

// serve answers the first message of a connection.
func (h *Host) serve(fd int) {
	c, err := newConn(fd)
	if err != nil {
		return
	}
	defer c.close()
	m, memory, err := c.receive()
	switch {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
	case m.to.Key() != h.cfg.Self.Key() || m.from.Key() == h.cfg.Self.Key():
		err = ErrRefused
		closeAll([]int{memory})
	case m.kind == inquiry:
		err = h.tell(c, &m)
	case m.kind == invitation:
		err = h.accepts(&m)
	case m.kind == offer:
		err = h.offered(c, &m, memory)
	default:
		err = ErrRefused
		closeAll([]int{memory})
	}
	if err != nil {
		h.refused()
		_ = c.send(&message{kind: refusal, number: m.number, from: h.cfg.Self, to: m.from}, -1) // the end of the connection says it too
	}
}

// accepts accepts an invitation. If both processes have invited each other, the one with the
// higher key accepts, and the other only waits until its own invitation is answered.
func (h *Host) accepts(m *message) error {
	if h.cfg.Permit != nil {
		if err := h.cfg.Permit(m.from.Addr); err != nil {
			return err
		}
	}
	k := m.from.Key()
	own, wait, err := h.attempt(k)
	if err != nil {
		return err
	}
	if wait != nil {
		<-wait
		return nil
	}
	err = h.makeOffer(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.attempts[k]; a != nil && err == nil {
		a.met = true
	}
	if own != nil {
		h.end(k, own)
	}
	return err
}

// attempt decides about an invitation. It returns a new attempt, which the caller ends; or a
// channel, if the caller must only wait until it is closed; or neither, if the invitation is
// accepted as part of the attempt that this process began with Invite. It fails if the two are
// already meeting, so that successive meetings have the same order on both sides.
func (h *Host) attempt(k Key) (own *attempt, wait chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch a := h.attempts[k]; {
	case a == nil:
		own, err = h.begin(k, 0)
		return own, nil, err
	case a.number == 0:
		return nil, nil, ErrRefused
	case h.cfg.Self.Key().less(k):
		return nil, a.ended, nil
	case a.accepts || a.offered != nil:
		return nil, nil, ErrRefused
	default:
		a.accepts = true
		return nil, nil, nil
	}
}

// begin begins an attempt. The caller holds the lock.
func (h *Host) begin(k Key, number uint64) (*attempt, error) {
	if h.attempts[k] != nil || len(h.attempts) >= maxAttempts {
		return nil, fmt.Errorf("meeting: %w", unix.EBUSY)
	}
	a := &attempt{number: number, ended: make(chan struct{})}
	h.attempts[k] = a
	return a, nil
}

// end ends an attempt. The caller holds the lock.
func (h *Host) end(k Key, a *attempt) {
	delete(h.attempts, k)
	close(a.ended)
}

// makeOffer makes an offer to the sender of an invitation.
func (h *Host) makeOffer(m *message) error {
	c, err := dial(nameOf(h.cfg.Name(m.from.Addr), m.from.Slot))
	if err != nil {
		return err
	}
	defer c.close()
	own, err := h.memory()
	if err != nil {
		return err
	}
	if err := c.send(&message{kind: offer, number: m.number, from: h.cfg.Self, to: m.from}, own.FD()); err != nil {
		return errors.Join(err, own.Close())
	}
	answer, memory, err := c.receive()
	if err != nil {
		return errors.Join(err, own.Close())
	}
	if answer.kind != welcome || answer.number != m.number || answer.from != m.from || answer.to != h.cfg.Self {
		closeAll([]int{memory})
		return errors.Join(ErrRefused, own.Close())
	}
	return h.meet(c, m.from, own, memory)
}

// memory returns memory for a peer. It fails if the process has lost the right to share memory.
func (h *Host) memory() (*ring.Memory, error) {
	if err := Allowed(); err != nil {
		return nil, err
	}
	return ring.Create(h.cfg.Ring)
}

// offered answers an offer: a welcome to the first one for an invitation of this process, a
// refusal to all others.
func (h *Host) offered(c *conn, m *message, memory int) error {
	h.mu.Lock()
	a := h.attempts[m.from.Key()]
	known := a != nil && a.number == m.number && m.number != 0 && a.offered == nil && m.to == h.cfg.Self
	if known {
		a.offered = make(chan struct{})
	}
	h.mu.Unlock()
	if !known {
		closeAll([]int{memory})
		return ErrRefused
	}
	err := h.welcome(c, m, memory)
	h.mu.Lock()
	defer h.mu.Unlock()
	a.met = a.met || err == nil
	close(a.offered)
	return err
}

// welcome answers an offer.
func (h *Host) welcome(c *conn, m *message, memory int) error {
	own, err := h.memory()
	if err == nil {
		err = c.send(&message{kind: welcome, number: m.number, from: h.cfg.Self, to: m.from}, own.FD())
		if err != nil {
			err = errors.Join(err, own.Close())
		}
	}
	if err != nil {
		closeAll([]int{memory})
		return err
	}
	return h.meet(c, m.from, own, memory)
}

// meet maps the peer's memory, whose descriptor is memory, and passes the peer to Met. It owns own
// and memory.
func (h *Host) meet(c *conn, who Identity, own *ring.Memory, memory int) error {
	view, err := ring.Attach(memory)
	if err != nil {
		return errors.Join(err, own.Close())
	}
	fd, err := c.detach()
	if err = errors.Join(err, own.CloseFD()); err != nil {
		return errors.Join(err, own.Close(), view.Close())
	}
	h.Met.Add(1)
	h.cfg.Met(NewPeer(who, own, view, fd))
	return nil
}

// Invite invites the process at a place, and returns nil after Met has taken it. Errors: that of Permit, ErrNone if
// no process listens there, ErrUser, ErrVersion, ErrRefused, ErrNotAllowed, EBUSY if a meeting with that process is
// in progress or if maxAttempts meetings are.
func (h *Host) Invite(ctx context.Context, to Key) error {
	if to == h.cfg.Self.Key() {
		return fmt.Errorf("meeting: invite itself: %w", unix.EINVAL)
	}
	if err := Allowed(); err != nil {
		return err
	}
	if h.cfg.Permit != nil {
		if err := h.cfg.Permit(to.Addr); err != nil {
			return err
		}
	}
	h.mu.Lock()
	a, err := h.begin(to, number())
	h.mu.Unlock()
	if err != nil {
		return err
	}
	err = h.invite(ctx, to, a.number)
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered := a.offered; answered != nil {
		h.mu.Unlock()
		<-answered
		h.mu.Lock()
	}
	h.end(to, a)
	if a.met {
		return nil
	}
	return err
}

// number draws the number of an invitation, which is not 0.
func number() uint64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return binary.NativeEndian.Uint64(random[:]) | 1
}

// invite sends an invitation, and waits for the end of the connection, which comes after the
// meeting.
func (h *Host) invite(ctx context.Context, to Key, number uint64) error {
	c, err := dial(nameOf(h.cfg.Name(to.Addr), to.Slot))
	if err != nil {
		return err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	err = c.send(&message{kind: invitation, number: number, from: h.cfg.Self, to: Identity{Addr: to.Addr, Slot: to.Slot}}, -1)
	if err == nil {
		var memory int
		_, memory, err = c.receive()
		closeAll([]int{memory})
	}
	// A host that refuses a connection may close it before the invitation arrives, or is read.
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrRefused
	}
	return err
}
