package hca

import (
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/shard"
)

// Guard lets two threads run the planes of an adapter.
type Guard interface {
	// Enter runs a step of the control plane in the shard, and excludes the data path meanwhile.
	// Errors: that of the step, or why the shard has failed or the step did not run.
	Enter(step func() error) error
	// Reach runs a step of the control plane for the shard's thread, which does not leave the
	// shard. It reports false, and does nothing, if another thread holds the control plane.
	Reach(step func()) bool
}

// planes is the border between the control plane and the shard.
type planes struct {
	guard Guard // nil: one thread runs both planes
	over  handover
}

// SetGuard sets the guard. Without one, one thread runs both planes.
func (p *planes) SetGuard(g Guard) { p.guard = g }

// Enter runs a step of the control plane in the shard. The step must not block, and must not
// enter the shard again. Errors: that of the step, or of the shard if the step could not run.
func (p *planes) Enter(step func() error) error {
	if p.guard == nil {
		return step()
	}
	return p.guard.Enter(step)
}

// look is Enter for a step that cannot fail. A shard that has failed is not looked at.
func (p *planes) look(step func()) {
	_ = p.Enter(func() error {
		step()
		return nil
	})
}

// reach runs a step of the control plane for the shard: at once, or after what has been handed
// over if another thread holds the control plane.
func (p *planes) reach(now clock.Instant, step func(now clock.Instant)) {
	at := func() { step(now) }
	switch {
	case p.guard == nil:
		at()
	case !p.guard.Reach(at):
		p.over.notify(step)
	}
}

// Handed reports whether the shard has handed something over that waits for Run. Any
// goroutine may call it.
func (p *planes) Handed() bool { return p.over.waiting.Load() }

// Run processes what the shard has handed over before the call.
func (h *HCA) Run(now clock.Instant) {
	if !h.Handed() {
		return
	}
	h.over.take(func(i *handed) {
		if i.notice != nil {
			i.notice(now)
			return
		}
		h.deliver(now, i)
	})
}

// deliver passes an arrived MAD to its agent.
func (h *HCA) deliver(now clock.Instant, i *handed) {
	r := &i.received
	r.MAD = &i.mad
	if drop, ok := h.gsi.Deliver(now, r); !ok {
		h.look(func() { h.gsi.Refuse(now, r, drop) })
	}
}

// Expire fires the timers of the control plane that are due.
func (h *HCA) Expire(now clock.Instant) {
	h.gsi.Advance(now)
	h.cm.Advance(now)
}

// Expires returns when Expire is next needed; clock.Never when idle.
func (h *HCA) Expires() clock.Instant { return min(h.gsi.Deadline(), h.cm.Deadline()) }

// Owes reports whether MADs wait to be sent. Any goroutine may call it.
func (h *HCA) Owes() bool { return h.gsi.Pending(port1) }

// Single is an adapter of which one thread runs both planes, as in virtual time: what the shard
// hands over is processed at the end of each call.
type Single struct {
	*shard.Shard
	hca *HCA
}

// Single returns the adapter as a shard with its control plane.
func (h *HCA) Single() Single { return Single{h.shard, h} }

// Receive processes a datagram.
func (s Single) Receive(now clock.Instant, d *fabric.Datagram) {
	s.Shard.Receive(now, port1, d)
	s.hca.Run(now)
}

// Transmit appends packets to a batch, and reports whether there are more.
func (s Single) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	more = s.Shard.Transmit(now, port1, b)
	if !s.hca.Handed() {
		return more
	}
	s.hca.Run(now)
	return more || s.Pending()
}

// Pending reports whether Transmit has something to do.
func (s Single) Pending() bool { return s.Shard.Pending(port1) }

// Advance fires the timers that are due.
func (s Single) Advance(now clock.Instant) {
	s.Shard.Advance(now)
	s.hca.Run(now)
	s.hca.Expire(now)
}

// Deadline returns when Advance is next needed; clock.Never when idle.
func (s Single) Deadline() clock.Instant { return min(s.Shard.Deadline(), s.hca.Expires()) }

// AddressLost reports that the port has lost or regained a local address.
func (s Single) AddressLost(now clock.Instant, addr netip.Addr, lost bool) {
	s.Shard.AddressLost(now, addr, lost)
	s.hca.Run(now)
}

var _ shard.GSI = (*port)(nil)
