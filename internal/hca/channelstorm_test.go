package hca_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

var (
	stormSeed  = flag.Uint64("channel-seed", 0, "run only this seed of TestC14_ChannelStorms")
	stormSeeds = flag.Uint64("channel-seeds", 100, "seeds of TestC14_ChannelStorms")
)

// channelStorm is two adapters whose programs connect queue pairs of reliable
// datagrams, over channels that there are and over new ones, from both sides at
// once, part and vanish, over a network that loses packets.
type channelStorm struct {
	*rig.Rig
	r       *rand.Rand
	loss    float64
	depth   uint8 // READs and atomics of each direction
	rdd     [2]*qp.RDD
	parties []*party
	users   map[*qp.EEC]int // parties that were to be connected over it
	met     map[string]int
}

// party is one end of a connection.
type party struct {
	s    *channelStorm
	side int
	conn *cm.Conn
	qp   *qp.QP
	eec  *qp.EEC

	peerQPN  ib.QPN
	peerQKey ib.QKey
}

func newChannelStorm(t testing.TB, seed uint64) *channelStorm {
	s := &channelStorm{
		Rig: &rig.Rig{T: t}, r: rand.New(rand.NewPCG(seed, 14)), users: make(map[*qp.EEC]int), met: make(map[string]int), depth: 1,
	}
	s.loss = s.r.Float64() * .25
	s.Drop = func(int, *roce.Packet) bool { return s.r.Float64() < s.loss }
	for i := range s.Sides {
		s.Sides[i] = rig.Config{Type: ib.RC, Cap: rig.Cap, Bytes: 4096}.NewSide(t, byte(i+1))
		h := s.Sides[i].HCA
		var err error
		s.rdd[i], err = h.AllocRDD()
		rig.Must(t, err)
		l, err := h.CM().Listen(siegeService, func(now clock.Instant, c *cm.Conn, e *cm.Event) {
			p := s.join(i, c)
			c.SetHandler(p.onEvent)
			p.onEvent(now, c, e)
		})
		rig.Must(t, err)
		l.RD = true
	}
	return s
}

// join makes a party and its queue pair.
func (s *channelStorm) join(side int, c *cm.Conn) *party {
	s.T.Helper()
	p, here := &party{s: s, side: side, conn: c}, s.Sides[side]
	var err error
	p.qp, err = here.HCA.CreateQP(here.PD, hca.QPConfig{
		Type: ib.RD, SendCQ: here.CQ, RecvCQ: here.CQ, RDD: s.rdd[side], Cap: rig.Cap, SigAll: true,
	})
	rig.Must(s.T, err)
	rig.Must(s.T, here.HCA.Prepare(s.Now, p.qp))
	s.parties = append(s.parties, p)
	return p
}

// take gives a party its EE context: nil makes one.
func (p *party) take(e *qp.EEC) {
	if e == nil {
		var err error
		e, err = p.s.Sides[p.side].HCA.CreateEEC(p.s.rdd[p.side])
		rig.Must(p.s.T, err)
	}
	p.eec = e
	p.s.users[e]++
}

// leave takes a party away whose connection is over, and with the last of a channel
// its EE context, as rdmacm does.
func (p *party) leave() {
	h := p.s.Sides[p.side].HCA
	h.DestroyQP(p.s.Sides[p.side].PD, p.qp)
	if p.eec == nil {
		return
	}
	if p.s.users[p.eec]--; p.s.users[p.eec] == 0 {
		delete(p.s.users, p.eec)
		h.DestroyEEC(p.s.Now, p.eec)
	}
}

// onEvent is the program's handler of its connection's events.
func (p *party) onEvent(now clock.Instant, c *cm.Conn, e *cm.Event) {
	s := p.s
	s.met[e.Type.String()]++
	switch e.Type {
	case cm.REQReceived:
		p.peerQPN, p.peerQKey = e.REQ.LocalQPN, e.REQ.LocalQKey
		if s.r.IntN(8) == 0 || !p.accept(now) {
			_ = c.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer}) // its channel may have ended meanwhile
		}
	case cm.REPReceived:
		p.peerQPN, p.peerQKey = e.REP.LocalQPN, e.REP.LocalQKey
		if s.Sides[p.side].HCA.EstablishRD(now, c, p.eec, p.qp) != nil {
			rig.Must(s.T, c.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer}))
			return
		}
		rig.Must(s.T, c.SendRTU(now, nil))
		if s.r.IntN(2) == 0 {
			p.say(0)
		}
	case cm.DREQReceived:
		rig.Must(s.T, c.SendDREP(now, nil))
	}
}

// accept agrees to the request of a peer.
func (p *party) accept(now clock.Instant) bool {
	c, k, n := p.conn, p.conn.Channel(), ib.EECN(0)
	if k.JoinedBy(c) {
		p.s.met["joined"]++
		p.take(k.Consumer.(*qp.EEC))
	} else {
		p.take(nil)
		n = p.eec.Num()
	}
	if p.s.Sides[p.side].HCA.EstablishRD(now, c, p.eec, p.qp) != nil {
		return false
	}
	p.hear()
	rig.Must(p.s.T, c.SendREP(now, &cm.REPParams{
		QPN: p.qp.Num(), QKey: p.qp.Query().QKey, EECN: n, ResponderResources: p.s.depth, InitiatorDepth: p.s.depth, RNRRetryCount: 7,
	}))
	return true
}

// hear posts a receive, and say a message for the peer.
func (p *party) hear() {
	_, err := p.qp.PostRecv(ib.RecvWR{})
	rig.Must(p.s.T, err)
}

func (p *party) say(id uint64) {
	_, err := p.qp.PostSend(ib.SendWR{WRID: id, Opcode: ib.WRSend, EEC: p.eec.Num(), RemoteQPN: p.peerQPN, RemoteQKey: p.peerQKey})
	rig.Must(p.s.T, err)
	p.s.Sides[p.side].HCA.Single().RingDoorbell(p.qp)
}

// works reports whether what a party sends leaves.
func (p *party) works() bool { return p.eec.State() == ib.RTS && p.qp.State() == ib.RTS }

// connect asks for a connection, over a channel of another party or a new one.
func (s *channelStorm) connect(side int, over *party) {
	here := s.Sides[side]
	c := here.HCA.CM().NewConn(nil)
	p := s.join(side, c)
	c.SetHandler(p.onEvent)
	req := cm.REQParams{
		Service: siegeService, Transport: mad.TransportRD, QPN: p.qp.Num(), QKey: p.qp.Query().QKey, RetryCount: 7, RNRRetryCount: 7,
		Path:            cm.Path{Local: here.Addr, Remote: s.Sides[1-side].Addr, MTU: ib.MTU1024, Lifetime: 8},
		ResponseTimeout: 10, MaxRetries: 7, ResponderResources: s.depth, InitiatorDepth: s.depth,
	}
	up := false
	if over != nil && over.conn.Channel() != nil {
		k := over.conn.Channel()
		up = k.State() == cm.ChannelUp && over.eec.State() == ib.RTS
		req.Channel = k
		p.take(over.eec)
	} else {
		p.take(nil)
		req.EECN = p.eec.Num()
	}
	if err := c.SendREQ(s.Now, &req); (err == nil) != (up || req.Channel == nil) {
		s.T.Fatalf("a connection over a channel that is up %v: %v", up, err)
	}
	if req.Channel != nil && up {
		s.met["asked to join"]++
	}
}

// act is something that a program does.
func (s *channelStorm) act() {
	var p *party
	if n := len(s.parties); n > 0 {
		p = s.parties[s.r.IntN(n)]
	}
	switch k := s.r.IntN(10); {
	case p == nil, k < 2 && len(s.parties) < 24:
		s.connect(s.r.IntN(2), nil)
	case k < 6 && len(s.parties) < 24:
		s.connect(p.side, p)
	case k < 7:
		s.met["destroyed"]++
		p.conn.Destroy(s.Now)
	case p.conn.State() == cm.Established:
		s.met["left"]++
		rig.Must(s.T, p.conn.SendDREQ(s.Now, nil))
	}
}

// pass lets time go by.
func (s *channelStorm) pass(d time.Duration) {
	end := s.Now.Add(d)
	s.Run(d, func() bool { s.check(); return s.Now >= end })
	s.Now = max(s.Now, end)
	for i := 0; i < len(s.parties); i++ {
		if p := s.parties[i]; p.conn.State() == cm.Idle {
			s.parties = append(s.parties[:i], s.parties[i+1:]...)
			p.leave()
			i--
		}
	}
}

// check checks every channel: its users are the connections over it, established
// or not, and its EE context is in ERR once it has no users, and before that only
// after its own failure.
func (s *channelStorm) check() {
	users, eecs := make(map[*cm.Channel]int), make(map[*cm.Channel]*qp.EEC)
	for _, p := range s.parties {
		k := p.conn.Channel()
		if k == nil {
			continue
		}
		eecs[k] = p.eec
		if st := p.conn.State(); st != cm.Idle && st <= cm.Established {
			users[k]++
		}
	}
	for k, e := range eecs {
		if k.Users() != users[k] {
			s.T.Fatalf("%d connections use channel %v, and it counts %d", users[k], k.Local(), k.Users())
		}
		if e == nil || k.Consumer == nil {
			continue // its first connection is being made
		}
		if st := e.State(); users[k] > 0 && k.State() == cm.ChannelUp && st != ib.RTS && st != ib.ERR || users[k] == 0 && st != ib.ERR {
			s.T.Fatalf("channel %v in %v has %d users, and its EE context is in %v", k.Local(), k.State(), users[k], st)
		}
	}
}

// peerOf returns the other end of an established connection, nil if that is gone.
func (s *channelStorm) peerOf(p *party) *party {
	for _, o := range s.parties {
		if o.side != p.side && o.conn.State() == cm.Established && o.conn.LocalID() == p.conn.RemoteID() && o.conn.RemoteID() == p.conn.LocalID() {
			return o
		}
	}
	return nil
}

// talk sends a message over each connection that both ends believe in. It arrives.
func (s *channelStorm) talk() {
	for i, p := range s.parties {
		o := s.peerOf(p)
		if p.conn.State() != cm.Established || o == nil {
			continue
		}
		if k, far := p.conn.Channel(), o.conn.Channel(); k.Remote() != far.Local() || far.Remote() != k.Local() {
			s.T.Fatalf("a connection over EE contexts %v and %v, says one end, and %v and %v, says the other", k.Local(), k.Remote(), far.Remote(), far.Local())
		}
		if p.peerQPN != o.qp.Num() || p.peerQKey != o.qp.Query().QKey {
			s.T.Fatalf("the peer is queue pair %v with Q_Key %v, and this end was told %v and %v", o.qp.Num(), o.qp.Query().QKey, p.peerQPN, p.peerQKey)
		}
		if !p.works() || !o.works() {
			continue // the channel has failed
		}
		o.hear()
		p.say(uint64(i))
		s.pass(time.Millisecond)
		for side := range s.Sides {
			if wcs := s.Poll(side); len(wcs) != 1 || wcs[0].Status != ib.WCSuccess {
				s.T.Fatalf("a message over a connection that both ends believe in ends with %+v at side %d; EE contexts in %v and %v",
					wcs, side, p.eec.State(), o.eec.State())
			}
		}
		s.met["messages"]++
	}
}

// settle ends the storm: the network is whole, what is under way ends, connections
// work, all part, and nothing is left.
func (s *channelStorm) settle() {
	s.loss = 0
	s.pass(5 * time.Second)
	for side := range s.Sides {
		s.Poll(side)
	}
	s.talk()
	for round := 0; len(s.parties) > 0; round++ {
		if round == 100 {
			s.T.Fatalf("%d connections do not end, the first in %v", len(s.parties), s.parties[0].conn.State())
		}
		for _, p := range s.parties {
			switch {
			case p.conn.State() != cm.Established:
			case s.r.IntN(4) == 0:
				p.conn.Destroy(s.Now)
			default:
				rig.Must(s.T, p.conn.SendDREQ(s.Now, nil))
			}
		}
		s.pass(time.Second)
	}
	for i, side := range s.Sides {
		rig.Must(s.T, side.HCA.DeallocRDD(s.rdd[i]))
		m, r := side.HCA.CM(), side.HCA.Resources()
		if m.Conns() != 0 || m.HalfOpen() != 0 || r.EECs != 0 || side.HCA.Single().Deadline() != clock.Never {
			s.T.Fatalf("side %d has %d connections left, %d half open, %d EE contexts, a timer at %v", i, m.Conns(), m.HalfOpen(), r.EECs, side.HCA.Single().Deadline())
		}
	}
}

// TestC14_ChannelStorms runs such storms. All of them together come to what can
// happen to a channel.
func TestC14_ChannelStorms(t *testing.T) {
	met := make(map[string]int)
	first, last := uint64(1), *stormSeeds
	if *stormSeed != 0 {
		first, last = *stormSeed, *stormSeed
	}
	for seed := first; seed <= last; seed++ {
		if !t.Run("", func(t *testing.T) {
			t.Logf("to run it again: -channel-seed=%d", seed)
			s := newChannelStorm(t, seed)
			for range 150 {
				s.act()
				s.pass(time.Duration(s.r.IntN(8)) * time.Millisecond)
			}
			s.settle()
			for what, n := range s.met {
				met[what] += n
			}
		}) {
			return
		}
	}
	t.Log(met)
	for _, want := range []string{
		"joined", "asked to join", "messages", "left", "destroyed", cm.REJReceived.String(), cm.DREQReceived.String(), cm.DREPReceived.String(),
		cm.UserEstablished.String(), cm.RTUReceived.String(), cm.TimewaitExit.String(),
	} {
		if met[want] == 0 && *stormSeed == 0 {
			t.Errorf("the storms never came to %q", want)
		}
	}
}
