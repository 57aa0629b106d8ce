package cm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// Channel is one end of a reliable datagram channel (RDC) that RD connections
// use (C14): a local EE context and the peer's. The first connection sets it
// up, others join it ("RDC exists"), and it ends with the last that uses it.
type Channel struct {
	// Consumer is for the consumer's use: it holds the object that the consumer
	// moved for the channel.
	Consumer any

	m      *Manager
	state  ChannelState
	local  ib.EECN // 0: not known yet
	serial uint64  // of the REQ or REP that named the peer's EE context; increases over all connections
	far    farEnd  // number 0: not known yet
	path   Path    // path of the EE context
	moved  bool    // it has migrated at least once
	users  []*Conn // connections from REQ to ESTABLISHED; each stores its index
	held   int     // users, and connections that are ending
}

// farEnd names the EE context at the peer's side of a channel.
type farEnd struct {
	eecn ib.EECN
	guid uint64
	addr netip.Addr
}

// State returns the state of the channel.
func (h *Channel) State() ChannelState { return h.state }

// Local returns the number of the local EE context, 0 if there is none yet.
func (h *Channel) Local() ib.EECN { return h.local }

// Remote returns the number of the peer's EE context, 0 if it is not known.
func (h *Channel) Remote() ib.EECN { return h.far.eecn }

// Users returns how many connections use the channel.
func (h *Channel) Users() int { return len(h.users) }

// JoinedBy reports whether a connection joined the existing channel ("RDC
// exists").
func (h *Channel) JoinedBy(c *Conn) bool { return c.channel == h && c.joins }

// Path returns the path to the peer.
func (h *Channel) Path() Path { return h.path }

// Migrated reports that the EE context has moved to another path. The messages of
// all connections of the channel take it, whichever connection had agreed on it
// with the peer, and the alternate path of each is gone. Later connections join on
// the new path.
func (h *Channel) Migrated(to Path) {
	h.path, h.moved = h.path.over(&to), true
	for _, c := range h.m.local {
		if c.channel == h {
			h.lead(c)
		}
	}
}

// lead moves a connection to the path of its migrated channel, once the
// connection is established: before, the peer identifies it by the address of its
// REQ.
func (h *Channel) lead(c *Conn) {
	if h != nil && h.moved && c.state >= Established {
		c.follow(c.path.over(&h.path))
	}
}

// isFar reports whether f is the peer's EE context, at the original address or at
// the address of the present path.
func (h *Channel) isFar(f farEnd) bool {
	return f.eecn == h.far.eecn && f.guid == h.far.guid && (f.addr == h.far.addr || f.addr == h.path.Remote)
}

// step applies an input and reports false if the machine refuses it.
func (h *Channel) step(now clock.Instant, on ChannelInput) bool {
	e := channelMachine[h.state][on]
	if !e.defined {
		panic(fmt.Sprintf("cm: channel input %v in state %v", on, h.state))
	}
	if on == ChannelJoin && e.do == channelTake && !h.m.cfg.usable(h) {
		return false
	}
	h.state = e.next
	switch e.do {
	case channelNone, channelTake:
	case channelRefuse:
		return false
	case channelDown:
		h.forgetFar()
		if f := h.m.cfg.ChannelDown; f != nil {
			f(now, h)
		}
	case channelFree:
		if h.m.channels[h.local] == h {
			delete(h.m.channels, h.local)
		}
	default:
		panic(fmt.Sprintf("cm: no channel action %d", e.do))
	}
	return true
}

// usable reports whether the EE context of a channel is usable.
func (c *Config) usable(h *Channel) bool { return c.ChannelUsable == nil || c.ChannelUsable(h) }

// add makes a connection a user of the channel.
func (h *Channel) add(c *Conn) {
	c.channel, c.uses, c.place = h, true, int32(len(h.users))
	h.users = append(h.users, c)
	h.held++
}

// leave removes a connection from the users of the channel, if it is one.
func (h *Channel) leave(now clock.Instant, c *Conn) {
	if h == nil || !c.uses {
		return
	}
	c.uses = false
	last := len(h.users) - 1
	h.users[c.place] = h.users[last]
	h.users[c.place].place = c.place
	h.users[last] = nil
	if h.users = h.users[:last]; last == 0 {
		h.step(now, ChannelLeft)
	}
}

// release removes an ended connection from the channel.
func (h *Channel) release(now clock.Instant, c *Conn) {
	if h == nil {
		return
	}
	h.leave(now, c)
	c.channel = nil
	if h.held--; h.held == 0 {
		h.step(now, ChannelGone)
	}
}

// expire ends the connections of a channel that the peer has forgotten: the
// peer uses its EE context for another one.
func (h *Channel) expire(now clock.Instant) {
	for _, c := range slices.Clone(h.users) {
		c.expire(now)
	}
}

// established returns an established connection of the channel, preferably the one under
// examination; nil if there is none.
func (h *Channel) established() *Conn {
	var any *Conn
	for _, c := range h.users {
		switch {
		case c.state != Established:
		case c.exam != nil:
			return c
		case any == nil:
			any = c
		}
	}
	return any
}

// checkEECN returns the reason why a local EE context cannot serve a new
// channel.
func checkEECN(m *Manager, n ib.EECN) error {
	switch {
	case n == 0 || n > ib.EECNMask:
		return fmt.Errorf("EE context %v (1 to %v): %w", n, ib.EECNMask, ib.EINVAL)
	case m.channels[n] != nil:
		return fmt.Errorf("EE context %v serves another channel until that is out of TIMEWAIT: %w", n, ib.EBUSY)
	}
	return nil
}

// claim assigns the channel its local EE context.
func (h *Channel) claim(n ib.EECN) error {
	if err := checkEECN(h.m, n); err != nil {
		return err
	}
	h.local = n
	h.m.channels[n] = h
	return nil
}

// meet stores the peer's EE context.
func (h *Channel) meet(far farEnd) {
	h.far = far
	h.m.remembered++
	h.serial = h.m.remembered
}

func (h *Channel) forgetFar() {
	if h.m.far[h.far] == h {
		delete(h.m.far, h.far)
	}
}

// joinsRDC reports whether a REQ asks to use a channel that exists, and opensRDC
// whether it asks for a new one.
func joinsRDC(q *mad.REQ) bool { return q.Transport == mad.TransportRD && q.RDCExists }
func opensRDC(q *mad.REQ) bool { return q.Transport == mad.TransportRD && !q.RDCExists }

// joinable returns the channel that a REQ with "RDC exists" names; nil if there is
// none, it is another peer's, or is not usable. All cases look alike, so guessing
// reveals no channels.
func (x *stimulus) joinable(m *Manager) *Channel {
	q := x.ev.REQ
	h := m.channels[ib.EECN(q.RemoteEECN)]
	if h == nil || !h.isFar(farEnd{ib.EECN(q.LocalEECN), q.LocalCAGUID, x.from.From.Remote}) || !h.step(x.now, ChannelJoin) {
		return nil
	}
	return h
}

// enter adds a connection that the peer requests to its channel. It reports false
// if the channel named in the REQ has ended since the check, because its last
// connection was evicted to make room.
func (x *stimulus) enter(c *Conn, q *mad.REQ) bool {
	if q.Transport != mad.TransportRD {
		return true
	}
	h := &Channel{m: c.m, path: c.path}
	if c.joins = q.RDCExists; c.joins {
		if h = x.joinable(c.m); h == nil {
			return false
		}
	} else {
		h.meet(farEnd{ib.EECN(q.LocalEECN), c.guid, c.to.Remote})
	}
	h.add(c)
	return true
}

// checkChannel returns the reason why a local REQ cannot join the channel that
// it names, or open one with its EE context.
func (p *REQParams) checkChannel(m *Manager, path *Path) error {
	h := p.Channel
	switch {
	case p.Transport != mad.TransportRD && (h != nil || p.EECN != 0 || p.QKey != 0):
		return fmt.Errorf("channel, EE context and Q_Key are for RD, not for %v: %w", p.Transport, ib.EINVAL)
	case p.Transport != mad.TransportRD:
		return nil
	case h == nil:
		return checkEECN(m, p.EECN)
	case h.m != m:
		return fmt.Errorf("the channel is of another adapter: %w", ib.EINVAL)
	case p.EECN != 0 && p.EECN != h.local:
		return fmt.Errorf("EE context %v; that of the channel is %v: %w", p.EECN, h.local, ib.EINVAL)
	case h.path.Local != path.Local || h.path.Remote != path.Remote:
		return fmt.Errorf("the channel leads from %v to %v, the path from %v to %v: %w",
			h.path.Local, h.path.Remote, path.Local, path.Remote, ib.EINVAL)
	}
	return nil
}

// enterOwn adds a connection that this side requests to its channel.
func (x *stimulus) enterOwn(c *Conn) error {
	p := x.req
	if p.Transport != mad.TransportRD {
		return nil
	}
	h := p.Channel
	if c.joins = h != nil; c.joins {
		if !h.step(x.now, ChannelJoin) {
			return fmt.Errorf("EE context %v cannot be joined, in %v or failed: connect over a new channel: %w", h.local, h.state, ib.ENOTCONN)
		}
	} else {
		h = &Channel{m: c.m, path: c.path}
		if err := h.claim(p.EECN); err != nil {
			return err
		}
	}
	h.add(c)
	return nil
}

// agree sets the EE context of the REP to that of the connection's channel.
func (p *REPParams) agree(c *Conn) error {
	h := c.channel
	switch {
	case h == nil && (p.EECN != 0 || p.QKey != 0):
		return fmt.Errorf("EE context and Q_Key are for RD, not for %v: %w", c.ep.transport, ib.EINVAL)
	case h == nil:
		return nil
	case !c.joins:
		return h.claim(p.EECN)
	case p.EECN != 0 && p.EECN != h.local:
		return fmt.Errorf("EE context %v; the peer asks for %v: %w", p.EECN, h.local, ib.EINVAL)
	}
	return nil
}

// learnChannel stores the peer's EE context from a REP. It reports false if the
// number is impossible, after answering or counting the REP.
func (x *stimulus) learnChannel(c *Conn) bool {
	h := c.channel
	if h == nil {
		return true
	}
	p := x.ev.REP
	far := farEnd{ib.EECN(p.LocalEECN), p.LocalCAGUID, c.to.Remote}
	if far.eecn == 0 || c.joins && !h.isFar(far) {
		c.m.counters.Invalid++
		return false
	}
	if c.joins {
		return true
	}
	if old := c.m.far[far]; old != nil {
		if user := old.established(); user != nil && x.doubt(user) {
			return false
		}
		x.rejectStaleREP(c)
		old.expire(x.now)
		return false
	}
	h.meet(far)
	h.m.far[far] = h
	return true
}

// numbersOf returns the numbers of both ends in DREQ and LAP: the QPNs, or for RD
// the EE context numbers.
func numbersOf(c *Conn) (local, remote ib.QPN) {
	if h := c.channel; h != nil {
		return ib.QPN(h.local), ib.QPN(h.far.eecn)
	}
	return c.ep.localQPN, c.ep.remoteQPN
}

// isNamed reports whether n, from the peer, is the number of the local end.
func isNamed(c *Conn, n ib.QPN) bool {
	local, _ := numbersOf(c)
	return n == local
}
