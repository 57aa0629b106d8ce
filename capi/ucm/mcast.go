//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
)

// group is a multicast group that an ID has joined, or wants to.
type group struct {
	of     *node
	number uint32
	uid    uint64
	addr   netip.AddrPort
	taken  uint32 // events; guarded by the Manager's mu
}

func (f *File) joinIPMcast(in []byte, room int) (a answer, err error) {
	err = on(f, in, func(c *joinIPMcast) uint32 { return c.ID }, func(n *node, c *joinIPMcast) error {
		to, err := named(parseSockaddr(c.Addr[:]))
		if err == nil {
			a, err = f.join(&group{of: n, uid: c.UID, addr: to}, c.Response, room)
		}
		return err
	})
	return a, err
}

func (f *File) joinMcast(in []byte, room int) (a answer, err error) {
	err = on(f, in, func(c *joinMcast) uint32 { return c.ID }, func(n *node, c *joinMcast) error {
		if c.JoinFlags != joinFull && c.JoinFlags != joinSendOnly {
			return fmt.Errorf("join with flags %#x: %w", c.JoinFlags, ib.EINVAL)
		}
		to, err := named(parseSized(c.Addr[:], c.AddrSize))
		if err == nil {
			a, err = f.join(&group{of: n, uid: c.UID, addr: to}, c.Response, room)
		}
		return err
	})
	return a, err
}

// join joins a group. The number is there before the event that tells of it.
func (f *File) join(g *group, at uint64, room int) (answer, error) {
	if room < binary4 {
		return answer{}, errNoRoom
	}
	f.m.mu.Lock()
	g.number = f.m.number()
	f.m.joins[g.number] = g
	f.m.mu.Unlock()
	forget := func() {
		f.m.mu.Lock()
		delete(f.m.joins, g.number)
		f.m.mu.Unlock()
	}
	if err := g.of.id.JoinMulticast(g.addr, g); err != nil {
		forget()
		return answer{}, err
	}
	a, err := numbered(at, g.number, room)
	a.undo = func() {
		forget()
		_ = g.of.id.LeaveMulticast(g.addr) // it has just joined
	}
	return a, err
}

// leaveMcast takes a join back. Its command is that of DESTROY_ID, with the number of the
// join.
func (f *File) leaveMcast(in []byte, room int) (answer, error) {
	c, err := decode[destroyID](in)
	if err != nil {
		return answer{}, err
	}
	if room < binary4 {
		return answer{}, errNoRoom
	}
	f.m.mu.Lock()
	g := f.m.joins[c.ID]
	if g != nil && g.of.file == f {
		delete(f.m.joins, c.ID)
	}
	f.m.mu.Unlock()
	switch {
	case g == nil:
		return answer{}, fmt.Errorf("there is no join %d: %w", c.ID, ib.ENOENT)
	case g.of.file != f:
		return answer{}, fmt.Errorf("join %d is of another event channel: %w", c.ID, ib.EINVAL)
	}
	// Of a join that has failed nothing is left but its number.
	if err := g.of.id.LeaveMulticast(g.addr); err != nil && !errors.Is(err, ib.EADDRNOTAVAIL) {
		return answer{}, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return numbered(c.Response, g.taken, room)
}
