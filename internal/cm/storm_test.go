package cm

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

var stormSeed = flag.Uint64("storm", 0, "run the storm of this seed only, with its log")

// storm is a network that loses, repeats and delays packets, with consumers
// that behave in all ways.
type storm struct {
	*network
	rng *rand.Rand
}

// TestC6_Storm shows for many seeds that whatever the network does, every
// attempt comes to an end at both consumers, no end stays established whose
// other end no consumer has, and nothing is left.
func TestC6_Storm(t *testing.T) {
	from, to := uint64(1), uint64(1000)
	if *stormSeed != 0 {
		from, to = *stormSeed, *stormSeed
	}
	for seed := from; seed <= to && !t.Failed(); seed++ {
		s := newStorm(t, seed)
		s.run(time.Minute)
		s.fate = nil // the network heals
		s.finish()
		s.wantAgreement()
		for _, e := range s.nodes {
			for _, c := range e.conns {
				c.Destroy(s.now)
			}
		}
		s.wantEmpty()
		if t.Failed() || *stormSeed != 0 {
			t.Logf("seed %d (go test -run Storm -storm %d):\n%s", seed, seed, s.tail())
		}
	}
}

func newStorm(t *testing.T, seed uint64) *storm {
	n, _, _ := newNetwork(t)
	s := &storm{n, rand.New(rand.NewPCG(seed, 5))}
	n.add("c", Limits{MaxConns: 12, MaxListeners: 1, MaxHalfOpen: 4})
	loss, double, slow := s.rng.IntN(40), s.rng.IntN(40), time.Duration(s.rng.IntN(int(200*time.Millisecond)))
	n.fate = func(*packet) (d []time.Duration) {
		for range 1 + bool01(s.rng.IntN(100) < double) {
			if s.rng.IntN(100) >= loss {
				d = append(d, time.Duration(s.rng.Int64N(int64(slow)+1)))
			}
		}
		if s.rng.IntN(50) == 0 { // a very old one
			d = append(d, 10*time.Second)
		}
		return d
	}
	for _, e := range n.nodes {
		e.program = func(now clock.Instant, c *Conn, ev *Event) { s.react(e, c, ev.Type) }
		e.listen()
	}
	for range 3 + s.rng.IntN(12) {
		e, o := n.nodes[s.rng.IntN(3)], n.nodes[s.rng.IntN(3)]
		n.later(time.Duration(s.rng.Int64N(int64(10*time.Second))), func() { s.begin(e, o) })
	}
	return s
}

func bool01(b bool) int {
	if b {
		return 1
	}
	return 0
}

// begin asks for a connection, or for a resolution.
func (s *storm) begin(e, o *node) {
	c := e.m.NewConn(e.onEvent)
	p := e.reqParams(o)
	p.ResponseTimeout, p.MaxRetries, p.Path.Lifetime = uint8(14+s.rng.IntN(4)), uint8(1+s.rng.IntN(15)), uint8(10+s.rng.IntN(6))
	var err error
	if s.rng.IntN(5) == 0 {
		err = c.SendSIDRREQ(s.now, &SIDRREQParams{Service: service, Path: p.Path, ResponseTimeout: p.ResponseTimeout, MaxRetries: p.MaxRetries})
	} else {
		err = c.SendREQ(s.now, p)
	}
	if err == nil { // otherwise the manager is full
		e.conns = append(e.conns, c)
	}
	if s.rng.IntN(6) == 0 { // gives up
		s.later(s.pause(), func() { c.Destroy(s.now) })
	}
}

func (s *storm) pause() time.Duration { return time.Duration(s.rng.Int64N(int64(4 * time.Second))) }

// react handles an event as a consumer may: it answers at once or later,
// perhaps with MRA meanwhile, or gives up. Late calls may be refused.
func (s *storm) react(e *node, c *Conn, what EventType) {
	answer := s.answer(e, c, what)
	switch s.rng.IntN(10) {
	case 0:
		c.Destroy(s.now)
	case 1:
		_ = c.SendREJ(s.now, &REJParams{Reason: mad.RejConsumer})
		s.later(s.pause(), answer) // if it was not something to reject
	case 2, 3:
		_ = c.SendMRA(s.now, 20, nil)
		s.later(s.pause(), answer)
	case 4:
		_ = c.PrepareMRA(s.now, 20, nil)
		s.later(s.pause(), answer)
	case 5:
		s.later(s.pause(), answer)
	default:
		answer()
	}
}

func (s *storm) answer(e *node, c *Conn, what EventType) func() {
	return func() {
		switch what {
		case REQReceived:
			_ = c.SendREP(s.now, e.repParams())
			s.later(s.pause(), func() {
				if o := s.other(c); o != nil && o.State() == Established { // it sends data
					_ = c.Establish(s.now)
				}
			})
		case REPReceived:
			_ = c.SendRTU(s.now, nil)
			s.live(c)
		case RTUReceived, UserEstablished:
			s.live(c)
		case DREQReceived:
			_ = c.SendDREP(s.now, nil)
		case SIDRREQReceived:
			_ = c.SendSIDRREP(s.now, &SIDRREPParams{})
		case LAPReceived:
			_ = c.SendAPR(s.now, &APRParams{Status: mad.APRStatus(s.rng.IntN(2))})
		}
	}
}

// live uses a connection: alternate paths, and an end if not left open.
func (s *storm) live(c *Conn) {
	if s.rng.IntN(3) == 0 {
		path := c.Path()
		path.FlowLabel = s.rng.Uint32N(1 << 20)
		s.later(s.pause(), func() { _ = c.SendLAP(s.now, &path, nil) })
	}
	switch s.rng.IntN(3) {
	case 0:
		s.later(s.pause(), func() { _ = c.SendDREQ(s.now, nil) })
	case 1:
		s.later(s.pause(), func() { c.Destroy(s.now) })
	}
}

// wantAgreement checks that no connection is left in between, and that the
// other end of each established one still belongs to a consumer.
func (s *storm) wantAgreement() {
	s.t.Helper()
	for _, e := range s.nodes {
		for _, c := range e.conns {
			if c.State() != Idle && c.State() != Established || c.LAPState() != LAPIdle {
				s.t.Errorf("%s: a connection is left in %v, %v", e.name, c.State(), c.LAPState())
			}
			if c.State() == Established && s.other(c) == nil {
				s.t.Errorf("%s: connection %#x is up and nobody knows its peer", e.name, c.LocalID())
			}
		}
	}
}

// other returns the other end of a connection, nil if no consumer has it.
func (s *storm) other(c *Conn) *Conn {
	for _, e := range s.nodes {
		for _, d := range e.conns {
			if e.addr == c.Path().Remote && d.LocalID() == c.RemoteID() && d.RemoteID() == c.LocalID() {
				return d
			}
		}
	}
	return nil
}
