package shard

import (
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// Groups holds the attached queue pairs of each multicast group.
type Groups struct {
	members  map[netip.Addr][]*qp.QP
	attached int
}

// Len returns the number of groups.
func (g *Groups) Len() int { return len(g.members) }

// Attached returns the number of attachments in all groups.
func (g *Groups) Attached() int { return g.attached }

// Members returns the queue pairs of a group, nil if there is none. The slice is valid until
// the next change.
func (g *Groups) Members(group netip.Addr) []*qp.QP { return g.members[group] }

// Attach attaches a queue pair to a group to which it is not attached.
func (g *Groups) Attach(group netip.Addr, q *qp.QP) {
	if g.members == nil {
		g.members = make(map[netip.Addr][]*qp.QP)
	}
	g.members[group] = append(g.members[group], q)
	g.attached++
}

// Detach detaches a queue pair from a group and reports whether it was
// attached.
func (g *Groups) Detach(group netip.Addr, q *qp.QP) bool {
	members := g.members[group]
	i := slices.Index(members, q)
	if i < 0 {
		return false
	}
	g.attached--
	if g.members[group] = slices.Delete(members, i, i+1); len(members) == 1 {
		delete(g.members, group)
	}
	return true
}

// Leave ends all attachments of a queue pair and returns their groups, in
// order.
func (g *Groups) Leave(q *qp.QP) []netip.Addr {
	var left []netip.Addr
	for group := range g.members {
		if g.Detach(group, q) {
			left = append(left, group)
		}
	}
	slices.SortFunc(left, netip.Addr.Compare)
	return left
}

// receiveMcast processes a packet that was not sent to an address of its
// port. If it is for a group, every attached queue pair gets a copy and
// checks it against its state and keys. This includes the sender's queue pair,
// unless it was created with CreateBlockSelfMcastLB: a network returns a packet
// to a sending host that is in the group.
func (s *Shard) receiveMcast(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	members := s.groups.members[d.Dst]
	switch {
	case members == nil:
		s.counters.Drops[counters.DropAddress]++
		return
	case p.BTH.DestQP != ib.QPNMulticast:
		s.counters.Drops[counters.DropNoQP]++
		return
	case p.Info.Service != roce.ServiceUD:
		s.counters.Drops[counters.DropService]++
		return
	}
	if !s.verify(d, seg, k) {
		s.counters.Drops[counters.DropICRC]++
		return
	}
	p.Data, p.Size = d, len(seg)
	received, loops := s.counters.RcvdPkts, s.local[d.Src] != 0
	for _, q := range members {
		if loops && p.BlockedBy(q) {
			continue
		}
		q.Receive(now, p)
		q.Arm()
	}
	s.counters.RcvdPkts = min(s.counters.RcvdPkts, received+1) // one packet, regardless of copies
}
