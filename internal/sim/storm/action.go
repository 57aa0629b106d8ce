package storm

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// action is a spontaneous action of a program, or a fault.
type action uint8

const (
	actCall action = iota
	actHangUp
	actBothHangUp
	actDestroy
	actAbort
	actTalk
	actDecide
	actReject
	actReroute
	actWrong
	actService
	actForge
	actRestart
	actCut
	actCutWay
	actBurst
	numActions
)

// actionTable holds the names of the actions, the minimum and the range of
// their weights, and whether they are faults.
var actionTable = [numActions]struct {
	name        string
	least, more int
	fate        bool
	do          func(*world, *rand.Rand)
}{
	actCall:       {"call", 100, 0, false, nil}, // the action's number is the connection's
	actHangUp:     {"hang up", 2, 12, false, one(inPhase(up), (*program).hangUp)},
	actBothHangUp: {"both hang up", 1, 6, false, (*world).actBothHangUp},
	actDestroy:    {"destroy", 2, 14, false, one(func(*side) bool { return true }, (*program).destroy)},
	actAbort:      {"destroy the queue pair too", 0, 4, false, (*world).actAbort},
	actTalk:       {"talk", 10, 30, false, one(inPhase(up), (*program).talk)},
	actDecide:     {"decide", 2, 10, false, one(func(s *side) bool { return s.phase.owes() }, (*program).yes)},
	actReject:     {"reject", 1, 6, false, (*world).actReject},
	actReroute:    {"load an alternate path", 1, 8, false, one(func(s *side) bool { return s.active && s.phase == up && s.lap == lapNone }, (*program).reroute)},
	actWrong:      {"wrong calls", 1, 5, false, (*world).actWrong},
	actService:    {"open or close a service", 0, 4, false, (*world).actService},
	actForge:      {"forge", 1, 8, true, (*world).actForge},
	actRestart:    {"restart an adapter", 0, 3, true, (*world).actRestart},
	actCut:        {"cut off an adapter", 0, 3, true, (*world).actCut},
	actCutWay:     {"cut one way", 0, 4, true, (*world).actCutWay},
	actBurst:      {"lose everything", 0, 3, true, (*world).actBurst},
}

// doAction does action number i. Its random choices depend only on i, so
// leaving out another action does not change them.
func (w *world) doAction(i int) {
	a := action(virtual.Draw(w.Rand, w.plan.acts[:]))
	w.Say(virtual.Nobody, "action %d: %s", i, actionTable[a].name)
	if a == actCall {
		w.call(uint64(i+1) << sideBits)
		return
	}
	actionTable[a].do(w, w.Rand)
}

// call makes one host request a connection or a service of another, or of
// itself.
func (w *world) call(id uint64) {
	r := w.Rand
	from := w.hosts[r.IntN(len(w.hosts))]
	to := w.hosts[(from.Index+1+r.IntN(len(w.hosts)-1))%len(w.hosts)]
	if r.IntN(12) == 0 {
		to = from // through the network and back
	}
	k := kind(max(r.IntN(6)-3, 0)) // most are reliable
	w.connect(from, to, id, k)
}

// connect makes one host request a connection of another.
func (w *world) connect(from, to *host, id uint64, k kind) {
	s := from.newSide(id, k, true)
	p, r := &w.plan, s.program.rand
	s.asks = terms{
		to: to, v6: r.IntN(3) == 0, service: serviceID(k, r.IntN(2)),
		response: p.response + uint8(r.IntN(p.spread)), lifetime: p.lifetime + uint8(r.IntN(p.spread)),
		retries: uint8(1 + r.IntN(p.retries)), serves: uint8(r.IntN(9)), depth: uint8(r.IntN(9)), mtu: ib.MTU256 + ib.MTU(r.IntN(5)),
	}
	s.conn = from.HCA.CM().NewConn(from.handle)
	s.conn.Consumer = s
	if k != datagrams {
		if s.sock = from.take(k, r); s.sock == nil {
			return
		}
		s.sock.owner = s
	}
	w.Mark("connections tried")
	if !s.program.request() {
		s.program.layDown()
		s.destroyed = true
		s.conn.Destroy(w.Now)
	}
	from.pump()
}

// pick returns a random living side for which fit is true, nil if there is
// none.
func (w *world) pick(r *rand.Rand, fit func(*side) bool) *side {
	all := slices.DeleteFunc(w.living(), func(s *side) bool { return !fit(s) })
	if len(all) == 0 {
		return nil
	}
	return all[r.IntN(len(all))]
}

// inPhase returns a function that reports whether a side is in a phase.
func inPhase(p phase) func(*side) bool { return func(s *side) bool { return s.phase == p } }

// do makes the program of a side, unless that is nil, perform what, and lets its host transmit.
func (s *side) do(what func(*program)) {
	if s != nil {
		what(&s.program)
		s.host.pump()
	}
}

// one returns an action that makes the program of a side for which fit is true perform what.
func one(fit func(*side) bool, what func(*program)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) { w.pick(r, fit).do(what) }
}

// actBothHangUp ends a connection at both ends at once (C5).
func (w *world) actBothHangUp(r *rand.Rand) {
	if s := w.pick(r, (*side).together); s != nil {
		w.Mark("left by both at once")
		s.do((*program).hangUp)
		s.peer.do((*program).hangUp)
	}
}

// actAbort ends a program at any point: first its queue pair is destroyed.
func (w *world) actAbort(r *rand.Rand) {
	s := w.pick(r, func(s *side) bool { return s.sock != nil })
	if s == nil {
		return
	}
	s.sock.destroy()
	s.host.pump()
	s.do((*program).destroy)
}

func (w *world) actReject(r *rand.Rand) {
	s := w.pick(r, func(s *side) bool { return s.phase == queried || s.phase.allows(cm.CallREJ) })
	s.do(func(p *program) { p.reject(mad.RejConsumer) })
}

// actWrong makes every call that a connection does not allow now: each must be
// refused and change nothing (C6).
func (w *world) actWrong(r *rand.Rand) {
	s := w.pick(r, func(s *side) bool { return s.phase != fresh })
	if s == nil {
		return
	}
	before := s.conn.State()
	for verb := range cm.CallDestroy {
		if s.may(verb) {
			continue
		}
		s.cell(verb)
		w.tell(s, "calls, and may not,", verb)
		err := s.wrong(verb)
		if !errors.Is(err, ib.EINVAL) && !errors.Is(err, ib.EISCONN) || s.conn.State() != before {
			w.Fail("verb", "adapter %d: %s, %v, in %v: %v: %v, and now in %v", s.host.Index, s, s.phase, before, verb, err, s.conn.State())
		}
	}
	s.host.pump()
}

// wrong makes a call.
func (s *side) wrong(verb cm.Input) error {
	c, now, path := s.conn, s.host.w.Now, cm.Path{}
	switch verb {
	case cm.CallREQ:
		return c.SendREQ(now, &cm.REQParams{})
	case cm.CallREP:
		return c.SendREP(now, &cm.REPParams{})
	case cm.CallRTU:
		return c.SendRTU(now, nil)
	case cm.CallREJ:
		return c.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer})
	case cm.CallMRA:
		return c.SendMRA(now, 1, nil)
	case cm.CallMRALater:
		return c.PrepareMRA(now, 1, nil)
	case cm.CallEstablish:
		return c.Establish(now)
	case cm.CallDREQ:
		return c.SendDREQ(now, nil)
	case cm.CallDREP:
		return c.SendDREP(now, nil)
	case cm.CallLAP:
		return c.SendLAP(now, &path, nil)
	case cm.CallAPR:
		return c.SendAPR(now, &cm.APRParams{})
	case cm.CallSIDRREQ:
		return c.SendSIDRREQ(now, &cm.SIDRREQParams{})
	default:
		return c.SendSIDRREP(now, &cm.SIDRREPParams{})
	}
}

func (w *world) actService(r *rand.Rand) {
	h, ids := w.hosts[r.IntN(len(w.hosts))], serviceIDs()
	id := ids[r.IntN(len(ids))]
	if h.services[id] != nil {
		h.unlisten(id)
	} else {
		h.listen(id)
	}
}

func (w *world) actRestart(r *rand.Rand) {
	w.Mark("adapters restarted")
	w.hosts[r.IntN(len(w.hosts))].restart()
}

// faultTime draws the duration of a fault: some last longer than all retries.
func (w *world) faultTime(r *rand.Rand) time.Duration {
	most := 4 * w.plan.interval()
	if r.IntN(4) == 0 {
		most *= 6
	}
	return time.Duration(r.Int64N(int64(most)))
}

func (w *world) actCut(r *rand.Rand) {
	h, until := w.hosts[r.IntN(len(w.hosts))], w.Now.Add(w.faultTime(r))
	for _, o := range w.hosts {
		w.cut[way{h, o}], w.cut[way{o, h}] = until, until
	}
}

func (w *world) actCutWay(r *rand.Rand) {
	from, to := w.hosts[r.IntN(len(w.hosts))], w.hosts[r.IntN(len(w.hosts))]
	w.cut[way{from, to}] = w.Now.Add(w.faultTime(r))
}

func (w *world) actBurst(r *rand.Rand) { w.burst = w.Now.Add(w.faultTime(r) / 4) }
