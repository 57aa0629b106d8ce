//go:build !portable

package broker

import (
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// deputize makes this member the deputy of a separate broker that has ended: it accepts the
// connections to the broker's names, and gives the store to the next broker, with brokerLock.
// It returns when it has, or when the lease closes.
func (s *Lease) deputize(lock int) {
	b := newBroker(Config{})
	b.handed = make(chan struct{})
	if b.follow(s.store, lock) != nil { // for example, no descriptors are left
		b.release()
		return
	}
	for _, group := range b.groups { // the store has them
		closeAll(group)
	}
	b.groups = nil
	b.admitAll()
	select {
	case <-s.closing:
	case <-b.handed:
	}
	_ = b.Close() // it was not closed before, so this does not fail
	b.conns.Wait()
}

// handOver answers a process that asks a deputy for something, or any broker for the store.
func (b *Broker) handOver(w *wire, m *message) error {
	switch {
	case b.handed == nil:
		return fmt.Errorf("broker: %v is open already, and its processes share it: use it, or end them first: %w", b.cfg.Addrs[0], unix.EADDRINUSE)
	case m.Op != opSucceed:
		return w.send(&message{Op: opAway, Version: version})
	case m.Version != version:
		return otherVersion(m)
	case !slices.Equal(m.Addrs, b.cfg.Addrs):
		return fmt.Errorf("broker: processes share %v: give the same addresses, in this order: %w", b.cfg.Addrs, unix.EADDRINUSE)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.lock < 0 {
		return net.ErrClosed // another process has the store
	}
	if err := w.send(&message{Op: opStore, Version: version}, b.store, b.lock); err != nil {
		return err
	}
	_ = unix.Close(b.lock) // the next broker has it
	b.lock = -1
	close(b.handed)
	return nil
}
