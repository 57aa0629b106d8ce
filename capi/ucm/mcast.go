//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
)

// group is a multicast group that an ID has joined or is joining.
type group struct {
	of     *node
	number uint32
	uid    uint64
	addr   netip.AddrPort
	taken  uint32 // events; guarded by the Manager's mu
}

func (f *File) joinIPMcast(n *node, c *joinIPMcast, room int) (answer, error) {
	to, err := named(parseSockaddr(c.Addr[:]))
	if err != nil {
		return answer{}, err
	}
	return f.join(&group{of: n, uid: c.UID, addr: to}, c.Response, room)
}

func (f *File) joinMcast(n *node, c *joinMcast, room int) (answer, error) {
	if c.JoinFlags != joinFull && c.JoinFlags != joinSendOnly {
		return answer{}, fmt.Errorf("join with flags %#x: %w", c.JoinFlags, ib.EINVAL)
	}
	to, err := named(parseSized(c.Addr[:], c.AddrSize))
	if err != nil {
		return answer{}, err
	}
	return f.join(&group{of: n, uid: c.UID, addr: to}, c.Response, room)
}

// join joins a group. The join gets its number before the event reports it.
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
		f.m.forgetJoin(g)
		f.m.mu.Unlock()
	}
	if err := g.of.id.JoinMulticast(g.addr, g); err != nil {
		forget()
		return answer{}, err
	}
	a, err := numbered(at, g.number, room)
	a.undo = func() {
		forget()
		_ = g.of.id.LeaveMulticast(g.addr) // it has only just joined
	}
	return a, err
}

// maxFailed bounds the failed joins of an ID that the program may still leave. A program should
// leave each of them, but a program that only retries must not use memory without bound.
const maxFailed = 64

// keepFailed records that a join has failed, which the program is about to learn. mu is held.
func (m *Manager) keepFailed(g *group) {
	if m.joins[g.number] != g {
		return // the program has left it
	}
	n := g.of
	n.failed = append(n.failed, g)
	if len(n.failed) > maxFailed {
		m.forgetJoin(n.failed[0])
	}
}

// forgetJoin releases a join's number, and reports whether the program knows that the join has
// failed. mu is held.
func (m *Manager) forgetJoin(g *group) bool {
	delete(m.joins, g.number)
	i := slices.Index(g.of.failed, g)
	if i >= 0 {
		g.of.failed = slices.Delete(g.of.failed, i, i+1)
	}
	return i >= 0
}

// leaveMcast leaves a group. Its command has the layout of DESTROY_ID's, with the number of the
// join.
func (f *File) leaveMcast(c *destroyID, room int) (answer, error) {
	f.m.mu.Lock()
	g := f.m.joins[c.ID]
	failed := false
	if g != nil && g.of.file == f {
		failed = f.m.forgetJoin(g)
	}
	f.m.mu.Unlock()
	switch {
	case g == nil:
		return answer{}, fmt.Errorf("there is no join %d: %w", c.ID, ib.ENOENT)
	case g.of.file != f:
		return answer{}, fmt.Errorf("join %d is of another event channel: %w", c.ID, ib.EINVAL)
	}
	// A failed join has nothing left but its number, and another join of the same group
	// must stay.
	if !failed {
		if err := g.of.id.LeaveMulticast(g.addr); err != nil && !errors.Is(err, ib.EADDRNOTAVAIL) {
			return answer{}, err
		}
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return numbered(c.Response, g.taken, room)
}
