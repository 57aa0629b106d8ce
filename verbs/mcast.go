package verbs

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
)

// AttachMcast makes a UD queue pair receive what is sent to a multicast group,
// over every network that the adapter has an address of the group's family on.
// Each queue pair that is attached, in this adapter or another, gets its own
// copy, under its own Q_Key and P_Key and with a receive of its own; so does
// the sender, if it is attached. A sender need not be attached: it uses an
// address handle with the group's GID and the QPN 0xffffff.
//
// The GID is an IPv4 group, v4-mapped, or an IPv6 one. lid is for the sake of
// libibverbs: RoCE has none. To attach a queue pair again changes nothing.
// Destroy ends all attachments.
//
// It makes the host join the group, which may take as long as the system does.
// Errors unwrap to EINVAL for another service or a GID that is no group's,
// ENOMEM beyond the limits that QueryDevice tells, EADDRNOTAVAIL when the
// adapter has no address of that family, and EOPNOTSUPP where the port has no
// multicast: on other systems than Linux.
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

// DetachMcast ends an attachment: EINVAL if there is none. What has arrived
// and was not looked at is dropped.
func (q *QP) DetachMcast(gid GID, lid uint16) error {
	err := q.call("DetachMcast", func(clock.Instant) error { return q.dev.HCA.DetachMcast(q.qp, gid) })
	if err != nil {
		return fmt.Errorf("detach from multicast group: %w", err)
	}
	q.leave(gid.Addr())
	return nil
}

// leave takes back one join of each group.
func (q *QP) leave(groups ...netip.Addr) {
	for _, g := range groups {
		// It was joined, so only a port that is closed refuses, and that is in
		// no group.
		_ = q.dev.Port.Leave(g)
	}
}
