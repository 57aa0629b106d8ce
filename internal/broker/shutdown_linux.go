//go:build !portable

package broker

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
)

// shutDown removes a member whose connection has ended. If its process has ended, it disconnects
// the peers, and appends the slot to the free ones. Otherwise the member keeps its slot and
// connections, and can return.
func (b *Broker) shutDown(r *memberConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.vacate(r)
	_ = unix.Close(r.forward)
	if b.closed { // the broker ends, not the member
		return
	}
	b.arrived(r.Slot)
	if b.lives(r.Slot) && !r.ended.Load() {
		b.absent = append(b.absent, r.Slot)
		b.conns.Go(b.retireAbsent)
		return
	}
	b.retire(r.Slot)
}

// vacate removes a member and frees its slot; its connections remain. The caller holds mu.
func (b *Broker) vacate(r *memberConn) {
	b.membersMu.Lock()
	b.members[r.Slot] = nil
	b.membersMu.Unlock()
	if r.Slot != 0 {
		b.free = append(b.free, r.Slot)
	}
}

// retire disconnects the peers of a slot's member, and drains its sockets. The caller holds
// mu.
func (b *Broker) retire(slot uint8) {
	err := b.engine.do(func(now clock.Instant) {
		for _, c := range b.engine.router.leave(now, slot) {
			if err := b.engine.disconnect(now, c); err != nil {
				b.cfg.log("the peer %v of a process that is gone, in slot %d, is not told: %v", c.peer.Remote, slot, err)
			}
		}
	})
	if err != nil {
		b.cfg.log("the peers of a process that is gone, in slot %d, are not told: %v", slot, err)
	}
	for _, group := range b.groups {
		drain(socketOf(group, slot))
	}
}

// restore reads the members and connections of the previous broker from the connection table.
func (b *Broker) restore() error {
	var err error
	dead := b.engine.do(func(now clock.Instant) { err = b.restoreAll(now) })
	return cmp.Or(dead, err)
}

// restoreAll is restore on the engine's thread.
func (b *Broker) restoreAll(now clock.Instant) error {
	for i := range b.cfg.Slots + 1 {
		slot := uint8(i)
		all, err := b.connTable.connections(now, slot)
		if err != nil {
			return err
		}
		if len(all) > 0 || b.connTable.held(i) {
			b.engine.router.restore(slot, all)
			b.absent = append(b.absent, slot)
		}
	}
	return nil
}

// settle waits until all living members of the previous broker have rejoined, for at most
// settleTime.
func (b *Broker) settle() {
	left, last := settleTime, time.Now()
	b.repeat(settlePause, func() bool {
		now := time.Now()
		left -= min(now.Sub(last), stallTime)
		last = now
		return left > 0 && b.awaited()
	})
}

// repeat calls f, at first and at an interval, until it returns false or the broker ends.
func (b *Broker) repeat(interval time.Duration, f func() bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for f() {
		select {
		case <-tick.C:
		case <-b.ending:
			return
		}
	}
}

// awaitOthers waits until members of the previous broker have claimed their services again:
// an earlier claim of another process could take a service from one of them unnoticed.
func (b *Broker) awaitOthers() {
	select {
	case <-b.settled:
	case <-b.ending:
	}
}

// settlePause is the interval at which settle checks for missing members.
const settlePause = 5 * time.Millisecond

// stallTime is how much of a longer interval between two checks counts towards settleTime:
// where this process did not run, for example in a virtual machine that was paused, members
// may not have run either.
const stallTime = 100 * time.Millisecond

// awaited reports whether a living member has not rejoined.
func (b *Broker) awaited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && slices.ContainsFunc(b.absent, b.lives)
}

// lives reports whether a process holds a slot.
func (b *Broker) lives(slot uint8) bool { return b.connTable.held(int(slot)) }

// absentPause is the interval at which the broker checks whether members that have not
// rejoined are alive.
const absentPause = 100 * time.Millisecond

// retireAbsent removes members of the previous broker that have not rejoined, as soon as they
// have ended. A stopped member keeps its slot and connections.
func (b *Broker) retireAbsent() {
	b.repeat(absentPause, func() bool { return b.retireGone() > 0 })
}

// retireGone removes those that have ended, and returns the number of remaining ones.
func (b *Broker) retireGone() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	b.absent = slices.DeleteFunc(b.absent, func(slot uint8) bool {
		gone := !b.lives(slot)
		if gone {
			b.retire(slot)
		}
		return gone
	})
	return len(b.absent)
}
