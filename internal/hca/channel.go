package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
)

// rdRNRTimer is the code of the time that a peer waits when an RD queue pair that
// the CM moves has no receive: 0.64 ms. Others use its channel meanwhile.
const rdRNRTimer = 12

// EstablishRD does what Establish does for a connection of service RD (C14): the
// EE context is moved to RTS, unless the connection joins a channel where it is,
// and the queue pair, if there is one that is not further than INIT. From then on
// the EE context is the channel's: when nobody uses that any more, it moves to
// ERR, and when it migrates, the messages of all connections over the channel
// follow. If one of the two has another domain, nothing has changed.
func (h *HCA) EstablishRD(now clock.Instant, c *cm.Conn, e *qp.EEC, q *qp.QP) error {
	if c.Channel() == nil {
		return fmt.Errorf("connection %#08x has no channel: %w", c.LocalID(), ib.EINVAL)
	}
	if q != nil && q.RDD() != e.RDD() {
		return fmt.Errorf("connection %#08x: queue pair %v is in another domain than EE context %v: %w", c.LocalID(), q.Num(), e.Num(), ib.ErrInvalidRDD)
	}
	if !c.Channel().JoinedBy(c) {
		c.Channel().Consumer = e
		if err := h.shard.moveEEC(now, c, e); err != nil {
			return fmt.Errorf("connection %#08x: EE context %v: %w", c.LocalID(), e.Num(), err)
		}
		k := c.Channel()
		e.OnMigrate(func(clock.Instant) { k.Migrated(h.shard.pathOf(&e.End)) })
		finishBy(&e.End, c)
	}
	if q == nil || q.State() != ib.INIT {
		return nil
	}
	if err := h.shard.moveRD(now, c, q); err != nil {
		return fmt.Errorf("connection %#08x: queue pair %v: %w", c.LocalID(), q.Num(), err)
	}
	finishBy(&q.End, c)
	return nil
}

// pathOf returns the way in the network that an end is on.
func (s *Shard) pathOf(e *qp.End) cm.Path {
	a := e.Query().AV
	return cm.Path{
		Local: s.cfg.Caps.Addrs[a.SGIDIndex], Remote: a.DGID.Addr(), FlowLabel: a.FlowLabel, TClass: a.TrafficClass, HopLimit: a.HopLimit, SL: a.SL,
	}
}

// moveEEC moves an EE context to RTS with what both sides agreed on.
func (s *Shard) moveEEC(now clock.Instant, c *cm.Conn, e *qp.EEC) error {
	defer s.timers.arm(&e.End)
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		a, mask, err := c.QPAttr(to)
		if err != nil {
			return err
		}
		a.MaxRDAtomic = min(a.MaxRDAtomic, s.cfg.Limits.MaxRDAtomic)
		a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, s.cfg.Limits.MaxRDAtomic)
		if err := e.Modify(now, &a, mask); err != nil {
			return err
		}
	}
	return nil
}

// moveRD moves an RD queue pair from INIT to RTS. It needs nothing of the peer
// but that it may access memory, as far as the connection has READs and atomics.
func (s *Shard) moveRD(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	a := ib.QPAttr{AccessFlags: ib.AccessRemoteWrite, MinRNRTimer: rdRNRTimer}
	if served, _ := c.Resources(); served > 0 {
		a.AccessFlags |= ib.AccessRemoteRead | ib.AccessRemoteAtomic
	}
	a.State = ib.RTR
	if err := s.modify(now, q, &a, ib.AttrState|ib.AttrAccessFlags|ib.AttrMinRNRTimer); err != nil {
		return err
	}
	a.State = ib.RTS
	return s.modify(now, q, &a, ib.AttrState)
}

// contextOf returns the EE context of a channel, nil if the adapter did not move
// one for it.
func contextOf(k *cm.Channel) *qp.EEC {
	e, _ := k.Consumer.(*qp.EEC)
	return e
}

// channelUsable reports whether others may join a channel: its EE context has not
// failed. Of one that the consumer has moved itself the adapter knows nothing.
func channelUsable(k *cm.Channel) bool {
	e := contextOf(k)
	return e == nil || e.State() == ib.RTS || e.State() == ib.SQD
}

// channelDown ends the EE context of a channel that nobody uses any more, as
// Disconnect does with the QP of a connection.
func (s *Shard) channelDown(now clock.Instant, k *cm.Channel) {
	if e := contextOf(k); e != nil && e.State() != ib.RESET {
		// Allowed in every other state.
		_ = e.Modify(now, &ib.QPAttr{State: ib.ERR}, ib.AttrState)
		s.timers.arm(&e.End)
	}
}
