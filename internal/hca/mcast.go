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

// mcastTable holds the attached queue pairs of each multicast group.
type mcastTable struct {
	groups   map[netip.Addr][]*qp.QP
	attached int // attachments in all groups
}

// McastGroup returns the group to which a queue pair can be attached by gid;
// EINVAL if the service is not UD or the GID is not multicast.
func McastGroup(q *qp.QP, gid ib.GID) (netip.Addr, error) {
	switch {
	case q.Type() != ib.UD:
		return netip.Addr{}, fmt.Errorf("a %v queue pair is in no multicast group, only UD can be: %w", q.Type(), ib.EINVAL)
	case !gid.IsMulticast():
		return netip.Addr{}, fmt.Errorf("GID %v is not that of a multicast group: %w", gid, ib.EINVAL)
	}
	return gid.Addr(), nil
}

// AttachMcast attaches a queue pair to a group; added is false if it was
// already attached. The caller makes the port join the group, once for each
// attachment, because that is I/O. Errors are those of McastGroup, and ENOMEM
// beyond the limits.
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

// remove detaches a queue pair from a group and reports whether it was
// attached.
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

// receiveMcast processes a packet that was not sent to an address of the
// adapter. If it is for a group, every attached queue pair gets a copy and
// checks it against its state and keys. This includes the sender's queue pair:
// a network returns a packet to a sending host that is in the group.
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
	s.counters.RcvdPkts = min(s.counters.RcvdPkts, received+1) // one packet, regardless of copies
}
