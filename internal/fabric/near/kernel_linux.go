//go:build !portable

package near

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/identity"
)

// kernel is the System of a port of this process.
type kernel struct {
	port  *Port
	hosts map[netip.Addr]*meeting.Host // not changed after Wrap
	watch *watch
	epoll int // readable when a peer wakes this process
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup
	rung  []int32
}

// Wrap returns a port that wraps p, which it owns, also if it fails.
func Wrap(p Inner, c Config) (*Port, error) {
	k := &kernel{hosts: make(map[netip.Addr]*meeting.Host)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	var err error
	if k.epoll, err = newEpoll(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if k.watch, err = newWatch(); err != nil {
		return nil, errors.Join(err, unix.Close(k.epoll), p.Close())
	}
	k.port = New(p, c, k)
	k.work.Go(func() { k.watch.run(k.port.Ended) })
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	generation := binary.NativeEndian.Uint64(random[:])
	for _, a := range p.Caps().Addrs {
		k.listen(a, generation)
	}
	p.Watch(k.epoll)
	return k.port, nil
}

// Now implements System.
func (k *kernel) Now() time.Time { return time.Now() }

// ringSize is the size in bytes of the ring to each peer.
const ringSize = 1 << 20

// listen makes this process one that others can meet at an address.
func (k *kernel) listen(a netip.Addr, generation uint64) {
	h, err := meeting.Listen(meeting.Config{
		Self: meeting.Identity{Addr: a, Slot: k.port.cfg.Slot, Generation: generation},
		Name: k.port.name, Ring: ringSize, Permit: k.port.permit,
		Peers:   func() int { return int(k.port.cfg.Counts.Near[fabric.NearPeers].Load()) },
		Refused: func() { k.port.count(fabric.NearRefused, 1) },
		Met:     func(m *meeting.Peer) { k.port.Met(a, Link{m.Identity, m.Out, m.In, m}) },
	})
	if err != nil {
		k.port.log("packets between %s and processes of this host take the network: %v", a, err)
		return
	}
	k.hosts[a] = h
}

// name returns what an address contributes to the names of its processes. Without a secret,
// another user may take the name: then the processes do not meet.
func (p *Port) name(a netip.Addr) string { return nameOf(p.cfg.Secret, a) }

func nameOf(secret *identity.Secret, a netip.Addr) string {
	if secret == nil {
		return fmt.Sprintf("%d/%s", os.Geteuid(), a)
	}
	return secret.Name(a)
}

// Ask returns the number of processes with which the one with a slot on an address shares memory.
// It fails with meeting.ErrNone if that process does not use shared memory.
func Ask(secret *identity.Secret, a netip.Addr, slot uint8) (peers int, err error) {
	return meeting.Ask(nameOf(secret, a), meeting.Key{Addr: a, Slot: slot})
}

// Invite implements System.
func (k *kernel) Invite(local netip.Addr, to meeting.Key) {
	h := k.hosts[local]
	if h == nil {
		return
	}
	k.work.Go(func() {
		// An error means that packets take the network, as before.
		k.port.countInvited(h.Invite(k.ctx, to))
	})
}

// errRemote is the error of a process that gives an address of another host as its own.
var errRemote = errors.New("near: not an address of this host")

// permit returns an error unless an address is one of this host, and packets to it may take
// shared memory.
func (p *Port) permit(a netip.Addr) error {
	if !a.IsLoopback() {
		if _, err := iface.Owner(a); err != nil {
			return fmt.Errorf("%w: %s: %w", errRemote, a, err)
		}
	}
	return p.cfg.Permit(a)
}

// Watch implements System.
func (k *kernel) Watch(b Bell, id int32) error {
	m := b.(*meeting.Peer)
	fd := m.FD()
	if err := unix.EpollCtl(k.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id}); err != nil {
		return err
	}
	err := k.watch.add(fd, unix.EPOLLRDHUP, id)
	if err == nil && m.Process() >= 0 {
		err = k.watch.add(m.Process(), unix.EPOLLIN, id)
	}
	return err
}

// Unwatch implements System. The socket of a peer that has ended would end every Wait.
func (k *kernel) Unwatch(b Bell) {
	_ = unix.EpollCtl(k.epoll, unix.EPOLL_CTL_DEL, b.(*meeting.Peer).FD(), nil) // it is in the set
}

// Rung implements System.
func (k *kernel) Rung() []int32 {
	var events [16]unix.EpollEvent
	n, err := unix.EpollWait(k.epoll, events[:], 0)
	if err != nil {
		return nil // interrupted: the next Wait ends at once
	}
	k.rung = k.rung[:0]
	for _, e := range events[:n] {
		k.rung = append(k.rung, e.Fd)
	}
	return k.rung
}

// Close implements System.
func (k *kernel) Close() error {
	k.stop()
	var err error
	for _, h := range k.hosts {
		err = errors.Join(err, h.Close())
	}
	err = errors.Join(err, k.watch.close())
	k.work.Wait()
	return errors.Join(err, unix.Close(k.epoll))
}
