//go:build !portable

package broker

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
)

// part takes leave of a member that is gone: its peers are told, and its slot is
// for another one, after all that are free now.
func (b *Broker) part(r *resident) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.vacate(r)
	_ = unix.Close(r.mail)
	if b.closed { // it is the broker that goes
		return
	}
	b.arrived(r.Slot)
	b.retire(r.Slot)
}

// vacate takes a member out, whose slot is free then, though its connections are there
// still. The caller holds mu.
func (b *Broker) vacate(r *resident) {
	b.mail.Lock()
	b.members[r.Slot] = nil
	b.mail.Unlock()
	if r.Slot != 0 {
		b.free = append(b.free, r.Slot)
	}
}

// retire tells the peers of a slot's member that it is gone, and empties its
// sockets. The caller holds mu.
func (b *Broker) retire(slot uint8) {
	b.engine.do(func(now clock.Instant, rt *router) {
		for _, c := range rt.leave(now, slot) {
			if err := b.engine.disconnect(now, c); err != nil {
				b.cfg.Log("the peer %v of a process that is gone, in slot %d, is not told: %v", c.peer.Remote, slot, err)
			}
		}
	})
	for _, group := range b.groups {
		drain(socketOf(group, slot))
	}
}

// restore reads what the broker before this one knew of its members.
func (b *Broker) restore() error {
	for i := range b.cfg.Slots + 1 {
		slot := uint8(i)
		all, err := b.ledger.connections(b.engine.now(), slot)
		if err != nil {
			return err
		}
		if len(all) > 0 || b.ledger.held(slot) {
			b.engine.router.restore(slot, all)
			b.absent = append(b.absent, slot)
		}
	}
	return nil
}

// settle waits until all members from before that live have come, or had their
// time.
func (b *Broker) settle() {
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	end := time.NewTimer(settleTime)
	defer end.Stop()
	for b.awaited() {
		select {
		case <-tick.C:
		case <-end.C:
			return
		case <-b.ending:
			return
		}
	}
}

// awaitOthers waits until members from before have said what they listen to: whoever
// claims something in between might take it from one of them, who would not know.
func (b *Broker) awaitOthers() {
	select {
	case <-b.settled:
	case <-b.ending:
	}
}

// settlePause is how often the broker looks whether all are there.
const settlePause = 5 * time.Millisecond

// awaited reports whether there is a process that has not come.
func (b *Broker) awaited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && slices.ContainsFunc(b.absent, b.ledger.held)
}

// absentPause is how often the broker looks who of those that have not come is
// alive.
const absentPause = 100 * time.Millisecond

// retireAbsent takes leave of members from before the broker that have not come, as soon
// as they have ended. One that has only been stopped keeps what it has.
func (b *Broker) retireAbsent() {
	tick := time.NewTicker(absentPause)
	defer tick.Stop()
	for b.retireGone() > 0 {
		select {
		case <-tick.C:
		case <-b.ending:
			return
		}
	}
}

// retireGone returns how many there are still to be waited for.
func (b *Broker) retireGone() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	b.absent = slices.DeleteFunc(b.absent, func(slot uint8) bool {
		gone := !b.ledger.held(slot)
		if gone {
			b.retire(slot)
		}
		return gone
	})
	return len(b.absent)
}
