//go:build !portable

package broker

import (
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
)

// part takes leave of a member that is gone: its peers are told, and its slot is
// for another one, after all that are free now.
func (b *Broker) part(r *resident) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mail.Lock()
	b.members[r.Slot] = nil
	b.mail.Unlock()
	_ = unix.Close(r.mail)
	if b.closed { // it is the broker that goes
		return
	}
	b.engine.do(func(now clock.Instant, rt *router) {
		for _, c := range rt.leave(r.Slot) {
			if err := b.engine.farewell(now, c); err != nil {
				b.cfg.Log("the peer %v of process %d, which is gone, is not told: %v", c.peer.Remote, r.PID, err)
			}
		}
	})
	for _, group := range b.groups {
		drain(group[r.Slot])
	}
	b.free = append(b.free, r.Slot)
}
