package hca

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

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
// beyond the limits. The caller is in the shard, as with DetachMcast and LeaveGroups.
func (h *HCA) AttachMcast(q *qp.QP, gid ib.GID) (added bool, err error) {
	group, err := McastGroup(q, gid)
	if err != nil {
		return false, err
	}
	g, l := h.shard.Groups(), &h.cfg.Limits
	members := g.Members(group)
	switch {
	case slices.Contains(members, q):
		return false, nil
	case members == nil && g.Len() >= l.MaxMcastGrp:
		return false, fmt.Errorf("the adapter is in %d multicast groups: %w", l.MaxMcastGrp, ib.ErrInsufficientResources)
	case len(members) >= l.MaxMcastQPAttach:
		return false, fmt.Errorf("the group has %d queue pairs: %w", l.MaxMcastQPAttach, ib.ErrInsufficientResources)
	case g.Attached() >= l.MaxTotalMcastQPAttach:
		return false, fmt.Errorf("the adapter has %d attachments to multicast groups: %w", l.MaxTotalMcastQPAttach, ib.ErrInsufficientResources)
	}
	g.Attach(group, q)
	return true, nil
}

// DetachMcast ends an attachment: EINVAL if there is none.
func (h *HCA) DetachMcast(q *qp.QP, gid ib.GID) error {
	group, err := McastGroup(q, gid)
	if err != nil {
		return err
	}
	if !h.shard.Groups().Detach(group, q) {
		return fmt.Errorf("QP %v is not attached to %v: %w", q.Num(), group, ib.EINVAL)
	}
	return nil
}

// LeaveGroups ends all attachments of a queue pair and returns their groups, in
// order.
func (h *HCA) LeaveGroups(q *qp.QP) []netip.Addr { return h.shard.Groups().Leave(q) }
