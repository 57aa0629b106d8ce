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
func (h *HCA) CM() *cm.Manager { return h.cm }

// Prepare moves a QP to INIT before there is a connection: receives can be
// posted, and remote access to memory is not allowed (C8). An RD queue pair
// gets an unpredictable Q_Key.
func (h *HCA) Prepare(now clock.Instant, q *qp.QP) error {
	a := ib.QPAttr{State: ib.INIT, Port: 1}
	if q.Type() == ib.RD {
		a.QKey = ib.QKey(h.cfg.Rand()) &^ ib.QKeyControlled
		return q.Modify(now, &a, ib.AttrState|ib.AttrQKey|ib.AttrPort|ib.AttrAccessFlags)
	}
	return q.Modify(now, &a, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags)
}

// Establish moves a connection's QP to RTS with what both sides agreed on (C8).
// On the passive side, the first request completes the connection if the RTU is
// lost or late (Q9, C4). The connection's messages follow the QP when it
// migrates, and the connection tells its consumer (OnMove).
func (h *HCA) Establish(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	if err := h.climb(now, c, q); err != nil {
		return fmt.Errorf("connection %#08x: %w", c.LocalID(), err)
	}
	q.OnMigrate(func(now clock.Instant) { c.Migrated(now) })
	finishBy(&q.End, c)
	return nil
}

// climb moves a QP or EE context to RTS with what both sides agreed on, as far as the
// adapter has resources.
func (h *HCA) climb(now clock.Instant, c *cm.Conn, m mover) error {
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		a, mask, err := c.QPAttr(to)
		if err != nil {
			return err
		}
		a.MaxRDAtomic = min(a.MaxRDAtomic, h.cfg.Limits.MaxRDAtomic)
		a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, h.cfg.Limits.MaxRDAtomic)
		if err := m.Modify(now, &a, mask); err != nil {
			return err
		}
	}
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
	return q.Modify(now, &ib.QPAttr{State: ib.ERR}, ib.AttrState)
}

// newCM returns the communication manager, which is the agent of its class on
// QP1.
func (h *HCA) newCM(mtu ib.MTU) *cm.Manager {
	cfg := &h.cfg
	c := cm.Config{
		GUID: cfg.NodeGUID, Rand: cfg.Rand, MTU: mtu, PKeys: cfg.PKeys, Addrs: cfg.Caps.Addrs, Limits: cfg.Connections, Slot: cfg.QPNSlot, Shared: cfg.Shared,
		ChannelUsable: channelUsable, ChannelDown: channelDown, ListenGrace: cfg.ListenGrace,
	}
	if !cfg.Settings.NoChallenge {
		c.Challenge = func(now clock.Instant, n ib.QPN, result func(now clock.Instant, alive bool)) bool {
			q := h.shard.QP(n)
			return q != nil && q.Challenge(now, result)
		}
	}
	var m *cm.Manager
	a, err := h.gsi.Register(gsi.AgentConfig{
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
