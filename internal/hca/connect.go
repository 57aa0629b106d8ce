package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// CM returns the adapter's communication manager.
func (h *HCA) CM() *cm.Manager { return h.shard.cm }

// Prepare moves a QP to INIT before there is a connection: receives can be
// posted, and remote access to memory is not allowed (C8). An RD queue pair
// gets an unpredictable Q_Key.
func (h *HCA) Prepare(now clock.Instant, q *qp.QP) error {
	a := ib.QPAttr{State: ib.INIT, Port: 1}
	if q.Type() == ib.RD {
		a.QKey = ib.QKey(h.cfg.Rand()) &^ ib.QKeyControlled
		return h.shard.modify(now, q, &a, ib.AttrState|ib.AttrQKey|ib.AttrPort|ib.AttrAccessFlags)
	}
	return h.shard.modify(now, q, &a, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags)
}

// Establish moves a connection's QP to RTS with what both sides agreed on (C8).
// On the passive side, the first request completes the connection if the RTU is
// lost or late (Q9, C4). The connection's messages follow the QP when it
// migrates, and the connection tells its consumer (OnMove).
func (h *HCA) Establish(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		a, mask, err := c.QPAttr(to)
		if err != nil {
			return err
		}
		a.MaxRDAtomic = min(a.MaxRDAtomic, h.cfg.Limits.MaxRDAtomic)
		a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, h.cfg.Limits.MaxRDAtomic)
		if err := h.shard.modify(now, q, &a, mask); err != nil {
			return fmt.Errorf("connection %#08x: %w", c.LocalID(), err)
		}
	}
	q.OnMigrate(func(now clock.Instant) { c.Migrated(now) })
	finishBy(&q.End, c)
	return nil
}

// finishBy makes the next request to an end establish the connection, as an RTU
// would.
func finishBy(e *qp.End, c *cm.Conn) {
	if c.Role() != cm.Passive {
		return
	}
	e.OnFirst(func(now clock.Instant) {
		if s := c.State(); s == cm.RepSent || s == cm.MRARepRcvd {
			_ = c.Establish(now) // allowed in these states
		}
	})
}

// Disconnect moves a connection's QP to ERR: its work requests are flushed
// (C5).
func (h *HCA) Disconnect(now clock.Instant, q *qp.QP) error {
	return h.shard.modify(now, q, &ib.QPAttr{State: ib.ERR}, ib.AttrState)
}

// modify moves a QP and updates its timers.
func (s *Shard) modify(now clock.Instant, q *qp.QP, a *ib.QPAttr, mask ib.AttrMask) error {
	err := q.Modify(now, a, mask)
	s.timers.arm(&q.End)
	return err
}

// challenge probes whether the peer of a connection's queue pair is alive.
func (s *Shard) challenge(now clock.Instant, n ib.QPN, result func(now clock.Instant, alive bool)) bool {
	q := s.find(n)
	if q == nil || !q.Challenge(now, result) {
		return false
	}
	s.timers.arm(&q.End)
	return true
}

// newCM returns the communication manager, which is the agent of its class on
// QP1.
func (s *Shard) newCM(mtu ib.MTU) *cm.Manager {
	cfg := s.cfg
	c := cm.Config{
		GUID: cfg.NodeGUID, Rand: cfg.Rand, MTU: mtu, PKeys: cfg.PKeys, Addrs: cfg.Caps.Addrs, Limits: cfg.Connections, Slot: cfg.QPNSlot, Shared: cfg.Shared,
		ChannelUsable: channelUsable, ChannelDown: s.channelDown, ListenGrace: cfg.ListenGrace,
	}
	if !cfg.Settings.NoChallenge {
		c.Challenge = s.challenge
	}
	var m *cm.Manager
	a, err := s.gsi.Register(gsi.AgentConfig{
		Class: mad.ClassCM, Version: mad.CMClassVersion, Methods: []mad.Method{mad.MethodSend},
		Info:    mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.CMClassVersion, RespTimeValue: cm.DefaultResponseTimeout},
		Receive: func(now clock.Instant, r *gsi.Received) bool { return m.Receive(now, r) },
	})
	if err != nil {
		panic(err) // it is the first agent
	}
	c.Send, c.Answer, c.TID = a.Send, a.Answer, a.TID
	m = cm.New(c)
	return m
}
