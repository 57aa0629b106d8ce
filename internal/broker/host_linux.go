//go:build !portable

package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/mad"
)

// hostedSlots is the maximum number of processes that can join a host; fewer if it has
// many addresses.
const hostedSlots = 64

// enterTime is how long Enter waits while an address is in use and no broker answers, as
// between two hosts.
const enterTime = 2 * time.Second

// Enter joins the processes of this user on addresses. If there are none, this process
// becomes the host of later ones; c.GUID is then the node GUID. If Enter returns neither a
// Lease nor an error, the addresses cannot be shared here, and the caller opens them for
// itself. The caller opens its port with the udp.Lease, and closes it before the lease.
func Enter(c Config) (*Lease, *udp.Lease, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return nil, nil, fmt.Errorf("broker: %w", err)
	}
	c.Addrs = addrs
	if err := distinct(); err != nil {
		c.log("%v", err)
		return nil, nil, nil
	}
	began := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, began) {
		s, sockets, err := try(&c)
		if err == nil || errors.As(err, new(*refusal)) {
			return s, sockets, err
		}
		limit := joinTime
		if none := err; errors.Is(err, ErrNone) || errors.Is(err, errFull) {
			if s, sockets, err = first(&c); !errors.Is(err, unix.EADDRINUSE) {
				return s, sockets, err
			}
			limit, err = c.inUse(none, err)
		}
		if time.Since(began) > limit {
			return nil, nil, err
		}
		if errors.Is(err, errFull) {
			pause = fullPause
		}
		time.Sleep(pause)
	}
}

// inUse returns how long Enter waits for an address that is in use, and the error then. The
// process has joined no broker because of none.
func (c *Config) inUse(none, inUse error) (limit time.Duration, err error) {
	if errors.Is(none, errAway) {
		return enterTime, fmt.Errorf("%w: %w", none, inUse)
	}
	for _, name := range namesOf(c.Addrs[0], c.Secret) {
		if uid, ok := ownerOf(name); ok && ofThisUser(uid) != nil {
			return strangerTime, fmt.Errorf("broker: UDP port %d on %v is in use, and user %d has %s, the socket for joining the address: use another address: %w",
				fabric.RoCEPort, c.Addrs[0], uid, name, unix.EADDRINUSE)
		}
	}
	switch {
	case errors.Is(none, errFull):
		return joinTime, fmt.Errorf("%w: %w", none, inUse)
	case errors.Is(none, unix.EPERM):
		return strangerTime, fmt.Errorf("%w: %w", none, inUse)
	default:
		return enterTime, inUse
	}
}

// strangerTime is how long Enter waits if another user has a name of an address that is in
// use: a process of this user may be about to listen at the other name.
const strangerTime = 500 * time.Millisecond

// first makes this process the host of addresses. It fails with EADDRINUSE if they are in
// use. If it returns neither a lease nor an error, they cannot be shared.
func first(c *Config) (*Lease, *udp.Lease, error) {
	slots := min(hostedSlots, (maxPassed-1)/len(c.Addrs)-1-udp.QP1Socket-maxNames)
	if slots < 1 {
		return nil, nil, nil
	}
	b := newBroker(Config{Addrs: c.Addrs, Slots: slots, GUID: c.GUID, Log: c.Log, Secret: c.Secret, hosted: true})
	sockets, err := b.hostAlone()
	if err != nil {
		b.release()
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, nil, err
		}
		if errors.Is(err, errSquatted) {
			c.log("%v", err)
		}
		return nil, nil, nil // opening the addresses without sharing reports other errors
	}
	close(b.settled)
	b.admitAll()
	return b.host, sockets, nil
}

// hostAlone opens the descriptors of a process that is alone on addresses.
func (b *Broker) hostAlone() (*udp.Lease, error) {
	sockets := &udp.Lease{Forwarded: -1, Shared: new(atomic.Bool)}
	open := func() error {
		for _, a := range b.cfg.Addrs {
			fd, err := udp.OpenFirst(a)
			if err != nil {
				return err
			}
			b.groups = append(b.groups, []int{fd})
			if fd, err = fdmark.Copy(fd); err != nil {
				return err
			}
			sockets.Sockets = append(sockets.Sockets, fd)
		}
		if err := b.listen(); err != nil {
			return err
		}
		s, forward, err := newLease(&b.cfg)
		if err != nil {
			return err
		}
		s.GUID, s.joined, s.hosted, s.host, s.shared = b.cfg.GUID, true, true, b, sockets.Shared
		b.host, sockets.Forwarded = s, forward
		return nil
	}
	if err := open(); err != nil {
		closeAll(sockets.Sockets)
		return nil, err
	}
	return sockets, nil
}

// awake opens the remaining descriptors of a host that is no longer alone. Its packets still
// arrive at its sockets. The caller holds mu.
func (b *Broker) awake() error {
	if b.engine != nil {
		return nil
	}
	err := b.expand()
	if err == nil {
		err = b.start()
	}
	var k keys
	if err == nil {
		k, err = b.keysFor(b.host)
	}
	if err != nil {
		b.engine.close()
		b.engine, b.free = nil, nil
		b.closeGroups(1)
		return err
	}
	b.host.give(k)
	b.host.shared.Store(true)
	b.install(k.forward) // before QP1 is read: otherwise requests for its services would be rejected
	b.engine.run()       // if it fails, there is no QP1, as after the end of the host
	return nil
}

// keys are descriptors that make the host a member.
type keys struct {
	forward         int // the broker's
	store, slotLock int // the member's
}

// keysFor returns keys for the host.
func (b *Broker) keysFor(s *Lease) (k keys, err error) {
	if k.forward, err = fdmark.Copy(s.forward); err != nil {
		return k, fmt.Errorf("broker: %w", err)
	}
	if k.store, err = fdmark.Copy(b.store); err != nil {
		return k, errors.Join(fmt.Errorf("broker: %w", err), unix.Close(k.forward))
	}
	if k.slotLock, err = b.connTable.hold(int(s.Slot)); err != nil {
		return k, errors.Join(err, unix.Close(k.forward), unix.Close(k.store))
	}
	return k, nil
}

// install makes the host a member, with its services and connections. The caller
// holds mu; the broker owns forward.
func (b *Broker) install(forward int) {
	s := b.host
	b.arrived(s.Slot)
	b.enter(&memberConn{Member: Member{Slot: s.Slot, PID: os.Getpid(), Program: s.program}, forward: forward})
	for _, id := range s.services() {
		b.engine.claim(s.Slot, id)
	}
	all := s.past()
	_ = b.engine.do(func(clock.Instant) { // an engine that has failed routes nothing
		for i := range all {
			b.engine.router.introduce(s.Slot, &all[i])
		}
	})
}

// adjust claims or releases a service for the host, as the host's own claims say.
func (b *Broker) adjust(id mad.ServiceID) syscall.Errno {
	errno := b.adjustTo(id)
	if errno == syscall.EADDRINUSE && b.catchUp(id) {
		errno = b.adjustTo(id)
	}
	return errno
}

func (b *Broker) adjustTo(id mad.ServiceID) syscall.Errno {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.host
	wanted := s.wants(id)
	if b.engine == nil || b.closed {
		s.grant(id) // the host is alone
		return 0
	}
	if wanted {
		return b.engine.claim(s.Slot, id)
	}
	b.engine.release(s.Slot, id)
	return 0
}

// answered forgets the connections of a member that their peers have asked to end.
func (b *Broker) answered(slot uint8) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine != nil && !b.closed {
		b.engine.settle(slot)
	}
}

// succeed tries to make this process the host after the previous one has ended, and reports
// whether it is. The caller gives away lock, which holds brokerLock.
func (s *Lease) succeed(lock int) bool {
	b := newBroker(Config{Secret: s.secret})
	b.host = s
	err := b.follow(s.store, lock)
	if err == nil {
		err = b.start()
	}
	forward := -1
	if err == nil {
		forward, err = fdmark.Copy(s.forward)
	}
	if err != nil {
		b.release()
		return false
	}
	b.install(forward)
	s.mu.Lock()
	s.host = b
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.serving.Go(func() { _ = b.Serve(context.Background()) }) // leave ends it; if it fails, there is no QP1
	return true
}

// follow takes over a copy of a member's store, and a descriptor that holds brokerLock.
func (b *Broker) follow(store, lock int) error {
	b.lock = lock
	label, found, err := openStore(store, nil)
	if err == nil {
		err = b.inherit(label, found)
	}
	if err == nil {
		b.store, err = fdmark.Copy(store)
	}
	return err
}

// hosts returns the broker that this process runs, nil if it runs none.
func (s *Lease) hosts() *Broker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// give stores a member's descriptors in the lease.
func (s *Lease) give(k keys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.slotLock = k.store, k.slotLock
}

// wants reports whether this process listens to a service.
func (s *Lease) wants(id mad.ServiceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[id] > 0
}

// services returns the services that this process listens to.
func (s *Lease) services() []mad.ServiceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.granted))
}

// Introduce sets the function that returns the connections of this process. The host calls
// it when another process joins, so that the broker can disconnect their peers too. Another
// goroutine calls connections, until Close.
func (s *Lease) Introduce(connections func() []Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections = connections
}

// past returns the connections of this process.
func (s *Lease) past() []Connection {
	s.mu.Lock()
	f := s.connections
	s.mu.Unlock()
	if f == nil {
		return nil // there are none yet
	}
	return f()
}

// member describes this process to others while it is alone.
func (s *Lease) member() Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Member{Slot: s.Slot, PID: os.Getpid(), Program: s.program, Services: listening(s.claims)}
}

// leave ends the broker that this process runs.
func (s *Lease) leave() {
	if b := s.hosts(); b != nil {
		_ = b.Close() // a failed broker is already closed
		s.serving.Wait()
		b.conns.Wait()
	}
}
