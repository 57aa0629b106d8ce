package storm

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// receive delivers an arrived packet to the adapter, and checks that it is
// answered if necessary, and that a meaningless packet has no effect.
func (h *host) receive(p *virtual.Packet) {
	w := h.w
	b := p.Datagram.Bytes
	w.note(h, "arrives", b)
	r, isMAD := read(b)
	var want heard
	silent := uint32(0)
	if isMAD && !p.Damaged {
		r.from = p.Datagram.Src
		s, on := h.find(&r)
		s.paid(&r, on)
	}
	switch {
	case p.Damaged:
		h.step.quiet = "a damaged packet had an effect"
	case p.Forged != "":
		h.step.quiet = p.Forged
	case isMAD:
		if w.Now.Sub(p.Sent) > mad.Timeout(ackDelay+1) {
			w.Mark("MADs very late")
		}
		if want = h.expect(&r); want == (heard{}) {
			h.step.quiet, silent = "a message that means nothing had an effect", r.local
		}
	}
	h.step.heard = heard{}
	counts, to := h.HCA.CM().Counters(), ib.QPN(uint32(b[5])<<16|uint32(b[6])<<8|uint32(b[7]))
	h.HCA.Single().Receive(w.Now, &p.Datagram)
	h.weighDoubts(&counts, to)
	if s := h.step.knowsNot; s != nil && s.phase == up {
		w.Fail("examination", "adapter %d: the peer of %s says that it does not know it, and the connection stays", h.Index, s)
	}
	h.step.knowsNot = nil
	if want.side != nil && h.step.heard != want {
		w.Fail("event", "adapter %d: %s does not hear %v, but %v", h.Index, want.side, want.event, h.step.heard.event)
	}
	h.step.quiet, h.step.givesWay = "", false // timers of this instant may fire
	h.step.silent = silent
	h.pump()
}

// advance fires the timers that are due.
func (h *host) advance() {
	w := h.w
	before := w.before[:0]
	for _, s := range h.sides {
		before = append(before, where{s, s.conn.State(), s.conn.LAPState()})
	}
	w.before = before
	h.fire()
	for _, b := range before {
		switch {
		case b.conn.State() == b.state && b.conn.LAPState() == b.lap:
		case b.state == cm.Timewait:
			w.cells.count(b.state, b.lap, cm.TimerTimewait)
		default:
			w.cells.count(b.state, b.lap, cm.TimerExhausted)
		}
	}
	h.step.timers = true
	h.pump()
	h.step.timers = false
}

// where is the state of a connection before its timers fired.
type where struct {
	*side
	state cm.State
	lap   cm.LAPState
}
