package storm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
)

// check checks the invariants between steps: each connection is in the state
// that its program expects, no wait exceeds its timers, and the manager holds
// exactly the connections of the programs and those that the protocol still
// needs.
func (h *host) check() {
	w := h.w
	conns, half, timer := 0, 0, clock.Never
	kept := h.sides[:0]
	for _, s := range h.sides {
		st := s.conn.State()
		if st == cm.Idle { // unknown to the manager
			delete(h.ids, s.localID)
			if s.destroyed {
				s.end()
				continue
			}
		}
		kept = append(kept, s)
		s.check(st)
		timer = min(timer, s.timer(st))
		if st != cm.Idle {
			conns++
		}
		if s.halfOpen(st) {
			half++
		}
	}
	h.sides = kept
	m := h.HCA.CM()
	if m.Conns() != conns {
		w.Fail("leak", "adapter %d: the manager holds %d connections, and there are %d", h.Index, m.Conns(), conns)
	}
	if d := m.Deadline(); d != timer {
		w.Fail("timer", "adapter %d: the manager's next timer is due at %d, and ought to be at %d", h.Index, d, timer)
	}
	if m.HalfOpen() != half {
		w.Fail("leak", "adapter %d: the manager counts %d half-open connections, and there are %d", h.Index, m.HalfOpen(), half)
	}
}

// halfOpen reports whether the connection, in a state, was requested by a peer
// and never established.
func (s *side) halfOpen(st cm.State) bool { return !s.active && st != cm.Idle && !s.tries[0].up }

// check checks one side, whose connection is in a state.
func (s *side) check(st cm.State) {
	h, w := s.host, s.host.w
	if w.Now > s.limit {
		w.Fail("liveness", "adapter %d: %s, %v, is still in %v, which should have ended at %d", h.Index, s, s.phase, st, s.limit)
	}
	if s.destroyed {
		if st == cm.Timewait && s.phase != quiet {
			s.enter(quiet)
		}
		if st != cm.DReqSent && st != cm.Timewait {
			w.Fail("state", "adapter %d: %s was destroyed and is in %v", h.Index, s, st)
		}
		return
	}
	if !s.phase.is(st) {
		w.Fail("state", "adapter %d: %s is in %v, and its program, which was not told, believes that it is %v", h.Index, s, st, s.phase)
	}
	if (s.phase == quiet || s.phase == over) && s.sock != nil {
		if q := s.sock.qp.State(); q == ib.RTR || q == ib.RTS {
			w.Fail("half open", "adapter %d: %s is %v and its queue pair in %v", h.Index, s, s.phase, q)
		}
	}
}

// timer returns when the next timer of a connection fires.
func (s *side) timer(st cm.State) clock.Instant {
	own := s.connTimer(st)
	if s.exam != nil {
		own = min(own, s.exam.next(s.host.w.Now))
	}
	return own
}

// connTimer is timer without examinations.
func (s *side) connTimer(st cm.State) clock.Instant {
	switch {
	case st == cm.Timewait:
		return s.limit
	case st == cm.DReqSent, s.phase == calling, s.phase == offered, s.phase == resolving, s.lap == lapAsked:
		return s.again()
	default:
		return clock.Never
	}
}

// String names the side by the action that started its connection and its index
// among the sides of that connection; 0 is the active one.
func (s *side) String() string {
	if s == nil {
		return "nobody"
	}
	name := fmt.Sprintf("side %d.%d", s.id>>sideBits-1, s.id&(1<<sideBits-1))
	if s.try > 1 {
		name += fmt.Sprintf(" (try %d)", s.try)
	}
	return name
}
