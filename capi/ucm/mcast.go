//go:build linux

package ucm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
		_ = g.of.id.LeaveMulticast(g.addr) // it has just joined
	}
	return a, err
}

// maxFailed bounds the joins of an ID that have failed and that the program may still
// leave. It should, but one that only tries again and again need not stop.
const maxFailed = 64

// keepFailed notes that a join has failed, as the program learns now. mu is held.
func (m *Manager) keepFailed(g *group) {
	if m.joins[g.number] != g {
		return // it has been left
	}
	n := g.of
	n.failed = append(n.failed, g)
	if len(n.failed) > maxFailed {
		m.forgetJoin(n.failed[0])
	}
}

// forgetJoin takes a join's number back, and reports whether the program knows that it
// has failed. mu is held.
func (m *Manager) forgetJoin(g *group) bool {
	delete(m.joins, g.number)
	i := slices.Index(g.of.failed, g)
	if i >= 0 {
		g.of.failed = slices.Delete(g.of.failed, i, i+1)
	}
	return i >= 0
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
	// Of a join that has failed nothing is left but its number, and another join of the
	// group is not meant.
	if !failed {
		if err := g.of.id.LeaveMulticast(g.addr); err != nil && !errors.Is(err, ib.EADDRNOTAVAIL) {
			return answer{}, err
		}
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return numbered(c.Response, g.taken, room)
}
