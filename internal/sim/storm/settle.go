package storm

import (
	"time"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// settle ends the storm: the network heals, programs answer at once, and
// everything in progress must end. Then both ends of each connection must
// agree, all connections end, all hosts can connect again, and finally nothing
// may be left.
func (w *world) settle() {
	for _, stage := range []struct {
		name string
		do   func()
	}{
		{"the network is whole again, and programs answer", w.calmDown},
		{"the ends agree", w.compare},
		{"a stranger asks in everybody's name for connections with the same queue pairs", w.slander},
		{"a second later it asks again", w.slander},
		{"everybody parts", w.part},
		{"everybody connects again", w.connectAll},
		{"all of them are connected, and part", w.partAgain},
		{"nothing is left", w.destroyAll},
	} {
		if w.Violation != nil {
			return
		}
		w.Say(virtual.Nobody, "%s", stage.name)
		stage.do()
		w.rest(stage.name)
	}
	if w.Violation == nil {
		w.tearDown()
	}
}

// stageLimit is the maximum duration of a stage: old packets arrive, and then a
// connection may pass through all its states.
func (w *world) stageLimit() time.Duration {
	p := &w.plan
	most := func(code uint8) time.Duration { return mad.Timeout(code + uint8(p.spread)) }
	exchange := time.Duration(p.retries+1) * (2*most(p.lifetime) + most(p.response))
	quiet := mad.Timeout(mad.AckTimeout(ackDelay, p.lifetime+uint8(p.spread)) + 1)
	return w.plan.net.Again.Usual + 40*p.gap + 2*(4*exchange+2*most(p.mra)+16*quiet)
}

// rest waits until everything in progress has ended.
func (w *world) rest(stage string) {
	for end := w.Now.Add(w.stageLimit()); w.Violation == nil; {
		if w.Net.Len() == 0 && w.Tasks() == 0 && w.busy() == nil {
			return
		}
		if !w.Step(w, end) {
			s := w.busy()
			w.Fail("liveness", "%s, and %v later %s is not at rest, %d packets are on their way, and programs mean to do %d things",
				stage, w.stageLimit(), s, w.Net.Len(), w.Tasks())
		}
	}
}

// busy returns a side with something in progress, nil if there is none.
func (w *world) busy() *side {
	for _, h := range w.hosts {
		for _, s := range h.sides {
			if s.destroyed || s.phase.waits() || s.phase.owes() || s.pending > 0 || s.lap != lapNone || s.exam != nil && !s.exam.isOver(w.Now) {
				return s
			}
		}
	}
	return nil
}

// calmDown heals the network and makes all programs decide.
func (w *world) calmDown() {
	w.Net.Heal(w.Now)
	w.loss, w.burst = 0, 0
	clear(w.cut)
	for _, s := range w.living() {
		if s.phase.owes() {
			s.do((*program).yes)
		}
		s.do((*program).acceptLAP)
	}
}

// living returns all sides that are alive.
func (w *world) living() []*side {
	var all []*side
	for _, h := range w.hosts {
		for _, s := range h.sides {
			if s.alive() {
				all = append(all, s)
			}
		}
	}
	return all
}

// together reports whether both ends are connected to each other.
func (s *side) together() bool {
	p := s.peer
	return s.phase == up && p != nil && p.alive() && p.phase == up && p.peer == s && p.try == s.try
}

// compare looks for sides without a connected peer (C6). The peer of such a
// side has ended and could not report it, because of network faults.
func (w *world) compare() {
	for _, s := range w.living() {
		if s.phase != up || s.together() {
			continue
		}
		w.Mark("sides whose peer was gone")
		p := s.peer
		if p.unpaid() {
			continue // it could not report it
		}
		if w.plan.loss == 0 || p.of(s.try).ended >= w.Net.Healed.Add(p.interval) {
			w.Fail("half open", "adapter %d: %s is connected, and its peer, %s of adapter %d, ended at %d without a word (%v, alive %v)",
				s.host.Index, s, p, p.host.Index, p.of(s.try).ended, p.phase, p.alive())
		}
	}
}

// slander causes examinations of all connections that are established at both
// ends: they must stay (C7).
func (w *world) slander() {
	for _, s := range w.living() {
		if s.together() {
			s.do(func(p *program) { p.slander(p.rand.Uint32()) })
		}
	}
}

// part ends every connection: by one end, or both. An end without a peer
// detects that by data or by DREQ.
func (w *world) part() {
	for _, s := range w.living() {
		switch {
		case s.phase != up:
		case !s.together() && s.kind == reliable && s.program.rand.IntN(2) == 0:
			w.Mark("found out by data")
			s.do((*program).talk)
		case !s.together():
			s.do((*program).hangUp)
		case s.active:
			s.program.partFrom(&s.peer.program)
		}
	}
}

// partFrom ends a connection.
func (p *program) partFrom(peer *program) {
	p.do((*program).talk)
	who := p.rand.IntN(3)
	if who != 1 {
		p.after(p.aWhile(), (*program).hangUp)
	}
	if who != 0 {
		peer.after(peer.aWhile(), (*program).hangUp)
	}
}

// retriesEach bounds the connection objects of a host that are reused at the
// end.
const retriesEach = 3

// connectAll makes every host connect to the next, also with some used
// connection objects. Leaked state, such as the peer's ID or queue pair or a
// half-open count, would prevent it.
func (w *world) connectAll() {
	for _, h := range w.hosts {
		for _, id := range serviceIDs() {
			if h.services[id] == nil {
				h.listen(id)
			}
		}
		again := 0
		for _, s := range append([]*side(nil), h.sides...) {
			switch {
			case s.phase == up:
				w.Fail("liveness", "adapter %d: %s is still connected", h.Index, s)
			case s.active && again < retriesEach && w.plan.limits == (cm.Limits{}):
				again++
				s.do((*program).retry)
			default:
				s.do((*program).destroy)
			}
		}
	}
	for i, h := range w.hosts {
		w.connect(h, w.hosts[(i+1)%len(w.hosts)], uint64(w.Config.Ops+i+1)<<sideBits, reliable)
	}
}

// partAgain checks the connections of connectAll, and ends them.
func (w *world) partAgain() {
	for _, s := range w.living() {
		ok := s.together()
		if s.kind == datagrams {
			ok = s.phase == over && s.grant.status == mad.SIDRValid
		}
		if s.active && !ok {
			w.Fail("liveness", "adapter %d: %s asks a peer that answers, over a network that is whole, and is %v", s.host.Index, s, s.phase)
		}
	}
	w.part()
}

func (w *world) destroyAll() {
	for _, s := range w.living() {
		s.do((*program).destroy)
	}
}

// tearDown destroys everything: nothing may be left.
func (w *world) tearDown() {
	for _, h := range w.hosts {
		for id := range h.services {
			h.unlisten(id)
		}
		for _, t := range append(h.shelf, h.ud) {
			t.destroy()
		}
		m := h.HCA.CM()
		if m.Conns() != 0 || m.HalfOpen() != 0 || len(h.sides) != 0 || len(h.ids) != 0 {
			w.Fail("leak", "adapter %d: %d connections are left, %d of them half open", h.Index, m.Conns(), m.HalfOpen())
		}
		if len(h.slabs) != slabs || len(h.socks) != 0 {
			w.Fail("leak", "adapter %d: %d queue pairs are left", h.Index, len(h.socks))
		}
		w.Must(h.PD.DeregMR(h.mr))
		if err := h.HCA.CQs().Destroy(h.cq); err != nil {
			w.Fail("leak", "adapter %d: %v", h.Index, err)
		}
		w.Close(h.Adapter)
	}
}

// unanswered checks a request without an answer: on a healthy network there is
// one, unless a limit is reached. A side that gives up reports it (C6).
func (s *side) unanswered(e *cm.Event) {
	w, full := s.host.w, false
	switch e.Type {
	case cm.REQError, cm.SIDRREQError:
		full = s.asks.to.crowded(s.host.address(s.asks.v6))
	case cm.REPError, cm.DREQError, cm.LAPError:
	default:
		return
	}
	if e.Type == cm.REQError || e.Type == cm.REPError {
		s.owe(mad.AttrREJ, e.Type.String())
	}
	switch {
	case s.host.step.givesWay:
		w.Mark("given up for another")
	case s.since > w.Net.Healed && !full:
		w.Fail("liveness", "adapter %d: %s hears %v, and the network is whole since %d", s.host.Index, s, e.Type, w.Net.Healed)
	}
}
