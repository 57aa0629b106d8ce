package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
	"github.com/softhca/softhca/mad"
)

// connector moves the queue pairs and EE contexts of connections.
type connector struct {
	*planes
	cfg   *Config
	shard *shard.Shard
}

// CM returns the adapter's communication manager.
func (h *HCA) CM() *cm.Manager { return h.cm }

// Prepare moves a QP to INIT before there is a connection: receives can be
// posted, and remote access to memory is not allowed (C8). An RD queue pair
// gets an unpredictable Q_Key.
func (h *connector) Prepare(now clock.Instant, q *qp.QP) error {
	a := ib.QPAttr{State: ib.INIT, Port: 1}
	if q.Type() == ib.RD {
		a.QKey = ib.QKey(h.cfg.Rand()) &^ ib.QKeyControlled
		return h.modify(now, q, &a, ib.AttrState|ib.AttrQKey|ib.AttrPort|ib.AttrAccessFlags)
	}
	return h.modify(now, q, &a, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrAccessFlags)
}

// Establish moves a connection's QP to RTS with what both sides agreed on (C8).
// On the passive side, the first request completes the connection if the RTU is
// lost or late (Q9, C4). The connection's messages follow the QP when it
// migrates, and the connection tells its consumer (OnMove).
func (h *connector) Establish(now clock.Instant, c *cm.Conn, q *qp.QP) error {
	err := h.Enter(func() error {
		if err := h.climb(now, c, q); err != nil {
			return err
		}
		h.onMigrate(q, func(now clock.Instant, to cm.Path) { c.MigratedTo(now, to) })
		h.finishBy(&q.End, c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("connection %#08x: %w", c.LocalID(), err)
	}
	return nil
}

// modify modifies a QP or EE context.
func (h *connector) modify(now clock.Instant, m mover, a *ib.QPAttr, mask ib.AttrMask) error {
	return h.Enter(func() error { return m.Modify(now, a, mask) })
}

// onMigrate makes the shard report each migration of an end to the control plane, with its
// new path. It is called in the shard.
func (h *connector) onMigrate(m mover, moved func(now clock.Instant, to cm.Path)) {
	m.OnMigrate(func(clock.Instant) {
		to := h.pathOf(m)
		h.over.notify(func(now clock.Instant) { moved(now, to) })
	})
}

// climb moves a QP or EE context to RTS with what both sides agreed on, as far as the
// adapter has resources. It is called in the shard.
func (h *connector) climb(now clock.Instant, c *cm.Conn, m mover) error {
	var a ib.QPAttr // of all moves; Modify makes it escape
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		attr, mask, err := c.QPAttr(to)
		if err != nil {
			return err
		}
		a = attr
		a.MaxRDAtomic = min(a.MaxRDAtomic, h.cfg.Limits.MaxRDAtomic)
		a.MaxDestRDAtomic = min(a.MaxDestRDAtomic, h.cfg.Limits.MaxRDAtomic)
		if err := m.Modify(now, &a, mask); err != nil {
			return err
		}
	}
	return nil
}

// finishBy makes the next request to an end establish the connection, as an RTU
// would. It is called in the shard.
func (h *connector) finishBy(e *qp.End, c *cm.Conn) {
	if c.Role() != cm.Passive {
		return
	}
	id := c.LocalID()
	finish := func(now clock.Instant) {
		if s := c.State(); c.LocalID() == id && (s == cm.RepSent || s == cm.MRARepRcvd) {
			_ = c.Establish(now) // allowed in these states
		}
	}
	// If the control plane is free, the program gets its event before the completion.
	e.OnFirst(func(now clock.Instant) { h.reach(now, finish) })
}

// Disconnect moves a connection's QP to ERR: its work requests are flushed
// (C5).
func (h *connector) Disconnect(now clock.Instant, q *qp.QP) error {
	return h.modify(now, q, &ib.QPAttr{State: ib.ERR}, ib.AttrState)
}

// challenge challenges a QP; see cm.Config.
func (h *connector) challenge(now clock.Instant, n ib.QPN, done func(now clock.Instant, alive bool)) (begun bool) {
	h.look(func() {
		q := h.shard.QP(n)
		begun = q != nil && q.Challenge(now, func(_ clock.Instant, alive bool) {
			h.over.notify(func(now clock.Instant) { done(now, alive) })
		})
	})
	return begun
}

// peerRetries stores the RNR retries of a QP's peer; see cm.Config.
func (h *connector) peerRetries(_ clock.Instant, local, peer ib.QPN, n uint8) {
	h.look(func() {
		if q := h.shard.QP(local); q != nil {
			q.PeerRetries(peer, n)
		}
	})
}

// newCM returns the communication manager, which is the agent of its class on
// QP1.
func (h *HCA) newCM(mtu ib.MTU) *cm.Manager {
	cfg := &h.cfg
	c := cm.Config{
		GUID: cfg.NodeGUID, Rand: cfg.Rand, MTU: mtu, PKeys: cfg.PKeys, Addrs: cfg.Caps.Addrs, Limits: cfg.Connections, Slot: cfg.QPNSlot, Shared: cfg.Shared,
		ChannelUsable: channelUsable, ChannelDown: h.channelDown, ListenGrace: cfg.ListenGrace, RetrySpeedup: cfg.Settings.RetrySpeedup, Reject: cfg.Reject,
		Table: cfg.Table, Trace: cfg.Trace, Nasty: cfg.Nasty,
	}
	if !cfg.Settings.NoChallenge {
		c.Challenge = h.challenge
	}
	if cfg.Nasty.Has(nasty.RNR) {
		c.PeerRetries = h.peerRetries
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
