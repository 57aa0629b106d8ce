package storm

import (
	"time"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// choose draws an index by weight.
func (s *side) choose(weights ...int) int {
	sum := 0
	for _, n := range weights {
		sum += n
	}
	v := s.rand.IntN(sum)
	for i, n := range weights {
		if v -= n; v < 0 {
			return i
		}
	}
	panic("storm: weights do not add up")
}

// aWhile draws a time in which a peer repeats its message, and may give up.
func (s *side) aWhile() time.Duration {
	return time.Duration(s.rand.Int64N(int64(3*max(s.interval, s.host.w.plan.interval())) + 1))
}

// prompt reports whether programs now answer at once, because the storm is
// over.
func (s *side) prompt() bool { return s.host.w.Now >= s.host.w.Net.Healed }

// react is a program's reaction to an event.
func (s *side) react(on cm.EventType) {
	switch on {
	case cm.REQReceived, cm.REPReceived, cm.SIDRREQReceived, cm.DREQReceived:
		if on == cm.DREQReceived {
			s.sock.stop()
		}
		s.weigh()
	case cm.LAPReceived:
		s.weighLAP()
	case cm.RTUReceived, cm.UserEstablished:
		s.after(0, (*side).begin) // the queue pair may be in the middle of a packet
	case cm.SIDRREPReceived:
		s.talkLoosely()
		s.parted()
	default:
		if s.phase == quiet || s.phase == over {
			s.parted()
		}
	}
}

// yes gives the peer a positive answer.
func (s *side) yes() {
	switch s.phase {
	case asked, queried:
		s.accept()
	case answered:
		s.confirm()
	case left:
		s.agree()
	}
}

// no gives the peer a negative answer; DREQ has none.
func (s *side) no() {
	if s.phase == left {
		s.agree()
		return
	}
	s.reject(mad.RejConsumer)
}

// weigh decides the answer to the peer, and its time. Some programs never
// answer.
func (s *side) weigh() {
	if s.prompt() {
		s.yes()
		return
	}
	hesitates := 10
	if s.phase == left || s.phase == queried {
		hesitates = 0
	}
	switch s.choose(50, 14, hesitates, hesitates/2, 4, 4, 4, 3, 3) {
	case 0:
		s.yes()
	case 1:
		s.after(s.aWhile(), (*side).yes)
	case 2, 3:
		s.hesitate(s.rand.IntN(2) == 0)
		s.after(s.aWhile()+s.aWhile(), (*side).yes)
	case 4:
		s.no()
	case 5:
		s.after(s.aWhile(), (*side).no)
	case 6:
		s.destroy()
	case 7:
		if s.phase == asked || s.phase == queried {
			s.forget()
		}
	default:
		s.host.w.mark(markNever)
	}
}

// forget drops a request without an answer.
func (s *side) forget() {
	w := s.host.w
	w.Say(virtual.Nobody, "%s forgets the request", s)
	s.destroyed = true
	s.turn++
	s.end()
	s.conn.Forget(w.Now)
}

// weighLAP is weigh for an alternate path.
func (s *side) weighLAP() {
	if s.prompt() {
		s.answerLAP(mad.APRAccepted)
		return
	}
	switch s.choose(50, 15, 15, 15, 5) {
	case 0:
		s.answerLAP(mad.APRAccepted)
	case 1:
		s.after(s.aWhile(), (*side).acceptLAP)
	case 2:
		s.hesitate(false)
		if s.rand.IntN(3) > 0 {
			s.after(s.aWhile(), (*side).acceptLAP)
		}
	case 3:
		s.answerLAP(mad.APRRejected)
	}
}

// acceptLAP answers an unanswered LAP.
func (s *side) acceptLAP() {
	if s.lap == lapOwed {
		s.answerLAP(mad.APRAccepted)
	}
}

// begin uses an established connection.
func (s *side) begin() {
	w := s.host.w
	if s.prompt() {
		s.talk()
		return
	}
	for range s.rand.IntN(3) {
		s.after(s.aWhile(), (*side).talk)
	}
	if s.active && s.rand.IntN(6) == 0 {
		s.after(s.aWhile(), (*side).rerouteOnce)
	}
	if s.rand.IntN(3) > 0 {
		s.after(time.Duration(s.rand.Int64N(int64(40*w.plan.gap))), (*side).hangUp)
	}
}

func (s *side) rerouteOnce() {
	if s.active && s.lap == lapNone {
		s.reroute()
	}
}

// parted handles the end of a connection.
func (s *side) parted() {
	if s.sock != nil {
		s.sock.stop()
	}
	if s.phase == quiet {
		switch s.choose(75, 10, 15) {
		case 1:
			s.destroy()
		case 2:
			s.after(time.Duration(s.rand.Int64N(int64(mad.Timeout(s.ack)))), (*side).destroy)
		}
		return
	}
	s.layDown()
	again := 0
	if s.active && !s.prompt() && s.try < maxTries {
		again = 25
	}
	switch s.choose(45, 20, 10, again) {
	case 0:
		s.destroy()
	case 1:
		s.after(s.aWhile(), (*side).destroy)
	case 3:
		s.after(s.aWhile(), (*side).retry)
	}
}

// maxTries bounds the requests of one connection object.
const maxTries = 4

// retry sends another request on a used connection object.
func (s *side) retry() {
	w := s.host.w
	if s.kind != datagrams {
		if s.sock = s.host.take(s.kind, s.rand); s.sock == nil {
			return
		}
		s.sock.owner = s
	}
	w.mark(markRetried)
	if !s.request() {
		s.layDown()
	}
}

// layDown releases the queue pair of an ended connection for others.
func (s *side) layDown() {
	if s.sock != nil {
		s.sock.layDown()
		s.sock = nil
	}
}
