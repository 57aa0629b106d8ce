package storm

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// program decides for one side of a connection, and makes its calls. The side holds the state of
// the connection, and the oracle's expectations.
type program struct {
	*side
	rand    *rand.Rand              // of its decisions
	lastTry [mad.AttrAPR + 1]uint32 // last try in which it gave private data, by message
	sent    uint32                  // number of its last message
}

// aWhile draws a time in which a peer repeats its message, and may give up.
func (p *program) aWhile() time.Duration {
	return time.Duration(p.rand.Int64N(int64(3*max(p.interval, p.host.w.plan.interval())) + 1))
}

// after schedules an action. It is skipped if the side's phase has changed by then. With a time
// of 0 it runs after the adapter's current work.
func (p *program) after(d time.Duration, do func(*program)) {
	turn := p.turn
	p.host.w.After(d, func() {
		if p.alive() && p.turn == turn {
			do(p)
			p.host.pump()
		}
	})
}

// prompt reports whether programs now answer at once, because the storm is
// over.
func (p *program) prompt() bool { return p.host.w.Now >= p.host.w.Net.Healed }

// react is a program's reaction to an event.
func (p *program) react(on cm.EventType) {
	switch on {
	case cm.REQReceived, cm.REPReceived, cm.SIDRREQReceived, cm.DREQReceived:
		if on == cm.DREQReceived {
			p.sock.stop()
		}
		p.weigh()
	case cm.LAPReceived:
		p.weighLAP()
	case cm.RTUReceived, cm.UserEstablished:
		p.after(0, (*program).begin) // the queue pair may be in the middle of a packet
	case cm.SIDRREPReceived:
		p.talkLoosely()
		p.parted()
	default:
		if p.phase == quiet || p.phase == over {
			p.parted()
		}
	}
}

// yes gives the peer a positive answer.
func (p *program) yes() {
	switch p.phase {
	case asked, queried:
		p.accept()
	case answered:
		p.confirm()
	case left:
		p.agree()
	}
}

// no gives the peer a negative answer; DREQ has none.
func (p *program) no() {
	if p.phase == left {
		p.agree()
		return
	}
	p.reject(mad.RejConsumer)
}

// weigh decides the answer to the peer, and its time. Some programs never
// answer.
func (p *program) weigh() {
	if p.prompt() {
		p.yes()
		return
	}
	hesitates := 10
	if p.phase == left || p.phase == queried {
		hesitates = 0
	}
	switch virtual.Draw(p.rand, []int{50, 14, hesitates, hesitates / 2, 4, 4, 4, 3, 3}) {
	case 0:
		p.yes()
	case 1:
		p.after(p.aWhile(), (*program).yes)
	case 2, 3:
		p.hesitate(p.rand.IntN(2) == 0)
		p.after(p.aWhile()+p.aWhile(), (*program).yes)
	case 4:
		p.no()
	case 5:
		p.after(p.aWhile(), (*program).no)
	case 6:
		p.destroy()
	case 7:
		if p.phase == asked || p.phase == queried {
			p.forget()
		}
	default:
		p.host.w.Mark("never answered")
	}
}

// forget drops a request without an answer.
func (p *program) forget() {
	w := p.host.w
	w.Say(virtual.Nobody, "%s forgets the request", p)
	p.destroyed = true
	p.turn++
	p.end()
	p.conn.Forget(w.Now)
}

// weighLAP is weigh for an alternate path.
func (p *program) weighLAP() {
	if p.prompt() {
		p.answerLAP(mad.APRAccepted)
		return
	}
	switch virtual.Draw(p.rand, []int{50, 15, 15, 15, 5}) {
	case 0:
		p.answerLAP(mad.APRAccepted)
	case 1:
		p.after(p.aWhile(), (*program).acceptLAP)
	case 2:
		p.hesitate(false)
		if p.rand.IntN(3) > 0 {
			p.after(p.aWhile(), (*program).acceptLAP)
		}
	case 3:
		p.answerLAP(mad.APRRejected)
	}
}

// acceptLAP answers an unanswered LAP.
func (p *program) acceptLAP() {
	if p.lap == lapOwed {
		p.answerLAP(mad.APRAccepted)
	}
}

// begin uses an established connection.
func (p *program) begin() {
	w := p.host.w
	if p.prompt() {
		p.talk()
		return
	}
	for range p.rand.IntN(3) {
		p.after(p.aWhile(), (*program).talk)
	}
	if p.active && p.rand.IntN(6) == 0 {
		p.after(p.aWhile(), (*program).reroute)
	}
	if p.rand.IntN(3) > 0 {
		p.after(time.Duration(p.rand.Int64N(int64(40*w.plan.gap))), (*program).hangUp)
	}
}

// parted handles the end of a connection.
func (p *program) parted() {
	if p.sock != nil {
		p.sock.stop()
	}
	if p.phase == quiet {
		switch virtual.Draw(p.rand, []int{75, 10, 15}) {
		case 1:
			p.destroy()
		case 2:
			p.after(time.Duration(p.rand.Int64N(int64(mad.Timeout(p.ack)))), (*program).destroy)
		}
		return
	}
	p.layDown()
	again := 0
	if p.active && !p.prompt() && p.try < maxTries {
		again = 25
	}
	switch virtual.Draw(p.rand, []int{45, 20, 10, again}) {
	case 0:
		p.destroy()
	case 1:
		p.after(p.aWhile(), (*program).destroy)
	case 3:
		p.after(p.aWhile(), (*program).retry)
	}
}

// maxTries bounds the requests of one connection object.
const maxTries = 4

// retry sends another request on a used connection object.
func (p *program) retry() {
	w := p.host.w
	if p.kind != datagrams {
		if p.sock = p.host.take(p.kind, p.rand); p.sock == nil {
			return
		}
		p.sock.owner = p.side
	}
	w.Mark("tried again")
	if !p.request() {
		p.layDown()
	}
}

// layDown releases the queue pair of an ended connection for others.
func (p *program) layDown() {
	if p.sock != nil {
		p.sock.layDown()
		p.sock = nil
	}
}
