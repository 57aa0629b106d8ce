package verbs

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
)

// AttachMcast makes a UD queue pair receive messages to a multicast group, on
// every network on which the adapter has an address of the group's family.
// Each attached queue pair, of this adapter or another, gets its own copy, which
// must match its Q_Key and P_Key and consumes one of its receives. So does the
// sender, if it is attached. A sender need not be attached: it uses an address
// handle with the group's GID and the QPN 0xffffff.
//
// The GID is that of an IPv4 group, v4-mapped, or of an IPv6 group. lid is
// ignored: RoCE has no LIDs. Attaching a queue pair again changes nothing.
// Destroy ends all attachments.
//
// The call makes the host join the group, and waits for the operating system.
// Errors unwrap to EINVAL for another service or a GID that is not a multicast
// group, ENOMEM beyond the limits that QueryDevice returns, EADDRNOTAVAIL if the
// adapter has no address of that family, and EOPNOTSUPP if the port does not
// support multicast, as on systems other than Linux.
func (q *QP) AttachMcast(gid GID, lid uint16) error {
	return wrap("attach to multicast group", q.attachMcast(gid))
}

// attachMcast joins the group and then attaches the queue pair. The port counts joins, so each
// attachment has one join, whatever happens in between, and detaching undoes its join.
func (q *QP) attachMcast(gid GID) error {
	if err := q.object().Called("AttachMcast", errDestroyed); err != nil {
		return err
	}
	group, err := hca.McastGroup(q.qp, gid)
	if err != nil {
		return err
	}
	if err := q.dev.Port.Join(group); err != nil {
		if errors.Is(err, fabric.ErrClosed) {
			return ErrInvalidHCA
		}
		return err
	}
	added := false
	err = q.obj.Do(errDestroyed, func(clock.Instant) (err error) {
		added, err = q.dev.HCA.AttachMcast(q.qp, gid)
		return err
	})
	if !added {
		q.leave(group)
	}
	return err
}

// DetachMcast ends an attachment: EINVAL if there is none. Packets that have
// arrived and were not processed yet are dropped.
func (q *QP) DetachMcast(gid GID, lid uint16) error {
	err := q.call("DetachMcast", func(clock.Instant) error { return q.dev.HCA.DetachMcast(q.qp, gid) })
	if err != nil {
		return fmt.Errorf("detach from multicast group: %w", err)
	}
	q.leave(gid.Addr())
	return nil
}

// leave undoes one join of each group.
func (q *QP) leave(groups ...netip.Addr) {
	for _, g := range groups {
		// The group was joined, so this fails only if the port is closed, and a
		// closed port is in no group.
		_ = q.dev.Port.Leave(g)
	}
}
