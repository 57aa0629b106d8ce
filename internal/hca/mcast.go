package hca

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// mcastTable holds the queue pairs that are attached to each multicast group.
type mcastTable struct {
	groups   map[netip.Addr][]*qp.QP
	attached int // in all groups together
}

// McastGroup returns the group that a queue pair can be attached to by gid:
// EINVAL when the service is not UD or the GID is not one of a group.
func McastGroup(q *qp.QP, gid ib.GID) (netip.Addr, error) {
	switch {
	case q.Type() != ib.UD:
		return netip.Addr{}, fmt.Errorf("a %v queue pair is in no multicast group, only UD can be: %w", q.Type(), ib.EINVAL)
	case !gid.IsMulticast():
		return netip.Addr{}, fmt.Errorf("GID %v is not that of a multicast group: %w", gid, ib.EINVAL)
	}
	return gid.Addr(), nil
}

// AttachMcast makes a queue pair receive what is sent to a group, and reports
// whether it did not before. The port must be in the group once for each
// attachment: that is the caller's, as it is I/O. Errors are those of
// McastGroup, and ENOMEM beyond the limits.
func (h *HCA) AttachMcast(q *qp.QP, gid ib.GID) (added bool, err error) {
	group, err := McastGroup(q, gid)
	if err != nil {
		return false, err
	}
	t, l := &h.shard.mcast, &h.cfg.Limits
	members := t.groups[group]
	switch {
	case slices.Contains(members, q):
		return false, nil
	case members == nil && len(t.groups) >= l.MaxMcastGrp:
		return false, fmt.Errorf("the adapter is in %d multicast groups: %w", l.MaxMcastGrp, ib.ErrInsufficientResources)
	case len(members) >= l.MaxMcastQPAttach:
		return false, fmt.Errorf("the group has %d queue pairs: %w", l.MaxMcastQPAttach, ib.ErrInsufficientResources)
	case t.attached >= l.MaxTotalMcastQPAttach:
		return false, fmt.Errorf("the adapter has %d attachments to multicast groups: %w", l.MaxTotalMcastQPAttach, ib.ErrInsufficientResources)
	case t.groups == nil:
		t.groups = make(map[netip.Addr][]*qp.QP)
	}
	t.groups[group] = append(members, q)
	t.attached++
	return true, nil
}

// DetachMcast ends an attachment: EINVAL if there is none.
func (h *HCA) DetachMcast(q *qp.QP, gid ib.GID) error {
	group, err := McastGroup(q, gid)
	if err != nil {
		return err
	}
	if !h.shard.mcast.remove(group, q) {
		return fmt.Errorf("QP %v is not attached to %v: %w", q.Num(), group, ib.EINVAL)
	}
	return nil
}

// LeaveGroups ends all attachments of a queue pair and returns their groups, in
// order.
func (h *HCA) LeaveGroups(q *qp.QP) []netip.Addr {
	var left []netip.Addr
	for group := range h.shard.mcast.groups {
		if h.shard.mcast.remove(group, q) {
			left = append(left, group)
		}
	}
	slices.SortFunc(left, netip.Addr.Compare)
	return left
}

// remove takes a queue pair out of a group and reports whether it was in.
func (t *mcastTable) remove(group netip.Addr, q *qp.QP) bool {
	members := t.groups[group]
	i := slices.Index(members, q)
	if i < 0 {
		return false
	}
	t.attached--
	if t.groups[group] = slices.Delete(members, i, i+1); len(members) == 1 {
		delete(t.groups, group)
	}
	return true
}

// receiveMcast takes a packet that was not sent to an address of the adapter.
// If it is for a group, every queue pair attached there gets a copy, which its
// own state and keys decide on. That of the sender is no exception: a network
// brings a packet back to a host that is in the group.
func (s *Shard) receiveMcast(now clock.Instant, d *fabric.Datagram, seg []byte, k int) {
	p := &s.in
	members := s.mcast.groups[d.Dst]
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
	received := s.counters.RcvdPkts
	for _, q := range members {
		q.Receive(now, p)
		s.timers.arm(&q.End)
	}
	s.counters.RcvdPkts = min(s.counters.RcvdPkts, received+1) // one packet, whatever the copies
}
