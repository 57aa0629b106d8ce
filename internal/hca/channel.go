package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
)

// rdRNRTimer is the RNR timer code of RD queue pairs that the CM moves: 0.64 ms.
// Other queue pairs use the channel meanwhile.
const rdRNRTimer = 12

// EstablishRD does what Establish does for a connection of service RD (C14): it
// moves the EE context to RTS, unless the connection joins an existing channel,
// and the queue pair, if there is one and it is in RESET or INIT. From then on
// the channel owns the EE context: it moves to ERR when the channel has no users
// left, and when it migrates, the messages of all connections of the channel
// follow. If one of the two belongs to another domain, nothing changes.
func (h *connector) EstablishRD(now clock.Instant, c *cm.Conn, e *qp.EEC, q *qp.QP) error {
	if c.Channel() == nil {
		return fmt.Errorf("connection %#08x has no channel: %w", c.LocalID(), ib.EINVAL)
	}
	if q != nil && q.RDD() != e.RDD() {
		return fmt.Errorf("connection %#08x: queue pair %v is in another domain than EE context %v: %w", c.LocalID(), q.Num(), e.Num(), ib.ErrInvalidRDD)
	}
	return h.Enter(func() error { return h.establishRD(now, c, e, q) })
}

// establishRD is EstablishRD in the shard.
func (h *connector) establishRD(now clock.Instant, c *cm.Conn, e *qp.EEC, q *qp.QP) error {
	if k := c.Channel(); !k.JoinedBy(c) {
		k.Consumer = e
		if err := h.climb(now, c, e); err != nil {
			return fmt.Errorf("connection %#08x: EE context %v: %w", c.LocalID(), e.Num(), err)
		}
		h.onMigrate(e, func(_ clock.Instant, to cm.Path) { migrated(k, to) })
		h.finishBy(&e.End, c)
	}
	if q == nil || q.State() != ib.INIT {
		return nil
	}
	if err := moveRD(now, c, q); err != nil {
		return fmt.Errorf("connection %#08x: queue pair %v: %w", c.LocalID(), q.Num(), err)
	}
	h.finishBy(&q.End, c)
	return nil
}

// migrated moves a channel to the path of its EE context, unless it is there already.
func migrated(k *cm.Channel, to cm.Path) {
	if at := k.Path(); at.Local != to.Local || at.Remote != to.Remote {
		k.Migrated(to)
	}
}

// pathOf returns the current path of a QP or EE context. It is called in the shard.
func (h *connector) pathOf(m mover) cm.Path {
	a := m.Query().AV
	return cm.Path{
		Local: h.cfg.Caps.Addrs[min(int(a.SGIDIndex), len(h.cfg.Caps.Addrs)-1)], Remote: a.DGID.Addr(), FlowLabel: a.FlowLabel, TClass: a.TrafficClass, HopLimit: a.HopLimit, SL: a.SL,
	}
}

// moveRD moves an RD queue pair from INIT to RTS. It gives the peer access to
// memory, READs and atomics only if the connection has resources for them.
func moveRD(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	a := ib.QPAttr{AccessFlags: ib.AccessRemoteWrite, MinRNRTimer: rdRNRTimer}
	if served, _ := c.Resources(); served > 0 {
		a.AccessFlags |= ib.AccessRemoteRead | ib.AccessRemoteAtomic
	}
	a.State = ib.RTR
	if err := q.Modify(now, &a, ib.AttrState|ib.AttrAccessFlags|ib.AttrMinRNRTimer); err != nil {
		return err
	}
	a.State = ib.RTS
	return q.Modify(now, &a, ib.AttrState)
}

// contextOf returns the EE context of a channel, nil if the adapter did not move
// one for it.
func contextOf(k *cm.Channel) *qp.EEC {
	e, _ := k.Consumer.(*qp.EEC)
	return e
}

// channelUsable reports whether further connections may join a channel: its EE
// context has not failed, or the consumer has moved it itself, so that the
// adapter does not know its state.
func channelUsable(k *cm.Channel) bool {
	e := contextOf(k)
	return e == nil || e.State() == ib.RTS || e.State() == ib.SQD
}

// channelDown ends the EE context of a channel without users, as Disconnect
// does with the QP of a connection.
func (h *connector) channelDown(now clock.Instant, k *cm.Channel) {
	if e := contextOf(k); e != nil && e.State() != ib.RESET {
		// Every state allows this move.
		_ = h.modify(now, e, &ib.QPAttr{State: ib.ERR}, ib.AttrState)
	}
}
