package hca_test

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/mad"
)

var cmFlood = flag.Int("cm-flood", 20_000, "MADs of each flood of TestC6_C12_CMFloods, if it does not need more")

// hog is the host that most floods come from.
var hog = netip.AddrFrom4([4]byte{10, 9, 9, 9})

// spoofed is one of the hosts of 10.8.0.0/16, in no order.
func spoofed(i int) netip.Addr {
	n := uint32(i) * 40503
	return netip.AddrFrom4([4]byte{10, 8, byte(n >> 8), byte(n)})
}

// ignores is a behaviour of the victim's consumer towards strangers: it never
// answers.
func ignores(s *siege) cm.Handler {
	return func(_ clock.Instant, c *cm.Conn, _ *cm.Event) { s.waiting = append(s.waiting, c) }
}

// forgets is another one, which has no place left in its backlog.
func forgets(*siege) cm.Handler {
	return func(now clock.Instant, c *cm.Conn, _ *cm.Event) { c.Forget(now) }
}

// rejects rejects them.
func rejects(*siege) cm.Handler {
	return func(now clock.Instant, c *cm.Conn, _ *cm.Event) { c.Destroy(now) }
}

// accepts takes as many as a program can in a turn, and forgets the others.
func accepts(s *siege) cm.Handler {
	return func(now clock.Instant, c *cm.Conn, e *cm.Event) {
		request := e.Type == cm.REQReceived || e.Type == cm.SIDRREQReceived
		if request && s.energy == 0 {
			c.Forget(now)
			return
		}
		switch e.Type {
		case cm.REQReceived:
			_ = c.SendREP(now, &cm.REPParams{QPN: 0x77}) // what the QP is does not matter
		case cm.SIDRREQReceived:
			_ = c.SendSIDRREP(now, &cm.SIDRREPParams{QPN: 0x77})
		case cm.DREQReceived:
			_ = c.SendDREP(now, nil)
		}
		if request {
			s.energy--
		}
	}
}

// flood is MADs without end.
type flood struct {
	what     string
	reaction func(*siege) cm.Handler // nil: no event
	inject   func(s *siege, i int)
	most     int // connections of strangers at a time
	least    int // MADs that it takes to reach the limits
	limits   cm.Limits
}

// narrow are limits that a flood reaches soon.
var narrow = cm.Limits{MaxConns: 1 << 13, MaxListeners: 8, MaxHalfOpen: 1 << 12}

// share is what one host may have half-open.
func share(l cm.Limits) int { return l.MaxHalfOpen * 3 / 4 }

// floods are those that the victim must endure.
func floods() []flood {
	req := func(s *siege, i int, from netip.Addr, to mad.ServiceID) {
		q := hostileREQ(s, from, uint32(i)+1)
		q.ServiceID = to
		s.forge(from, mad.AttrREQ, uint64(i), q)
	}
	one := func(s *siege, i int) { req(s, i, hog, siegeService) }
	many := func(s *siege, i int) { req(s, i, spoofed(i), siegeService) }
	wide := cm.DefaultLimits()
	list := []flood{
		{"REQs that nobody decides on", ignores, one, share(wide), 200_000, wide},
		{"REQs that are accepted", accepts, one, share(narrow), 0, narrow},
		{"REQs that are rejected", rejects, one, 0, 0, narrow},
		{"one REQ again and again", accepts, func(s *siege, _ int) { one(s, 7) }, 1, 0, narrow},
		{"REQs of a whole network, accepted", accepts, many, narrow.MaxHalfOpen, 80_000, narrow},
		{"REQs of a whole network, rejected", rejects, many, 0, 0, narrow},
		{"REQs of a whole network, beyond the backlog", forgets, many, 0, 0, narrow},
		{"REQs for nobody", nil, func(s *siege, i int) { req(s, i, hog, nobodyService) }, 0, 0, narrow},
		{"REQs of a whole network, for nobody", nil, func(s *siege, i int) { req(s, i, spoofed(i), nobodyService) }, 0, 0, narrow},
		{"connections that are finished at once", accepts, finish, narrow.MaxConns, 120_000, narrow},
		{"SIDR_REQs that nobody decides on", ignores, func(s *siege, i int) {
			s.forge(hog, mad.AttrSIDRREQ, uint64(i), &mad.SIDRREQ{RequestID: uint32(i), PKey: ib.PKeyDefault, ServiceID: siegeService})
		}, share(narrow), 0, narrow},
		{"SIDR_REQs that are answered", accepts, func(s *siege, i int) {
			s.forge(spoofed(i), mad.AttrSIDRREQ, uint64(i), &mad.SIDRREQ{RequestID: uint32(i), PKey: ib.PKeyDefault, ServiceID: siegeService})
		}, 0, 0, narrow},
		{"SIDR_REQs for nobody", nil, func(s *siege, i int) {
			s.forge(hog, mad.AttrSIDRREQ, uint64(i), &mad.SIDRREQ{RequestID: uint32(i), PKey: ib.PKeyDefault, ServiceID: nobodyService})
		}, 0, 0, narrow},
	}
	for attr := mad.AttrMRA; attr <= mad.AttrAPR; attr++ {
		if attr == mad.AttrSIDRREQ {
			continue
		}
		list = append(list, flood{attr.String() + " for connections of nobody", nil, func(s *siege, i int) {
			s.forge(hog, attr, uint64(i), &ids{uint32(i), ^uint32(i)})
		}, 0, 0, narrow}, flood{attr.String() + " for the peer's connection", nil, func(s *siege, i int) {
			c := s.links[0].conn[1]
			s.forge(hog, attr, uint64(i), &ids{c.RemoteID(), c.LocalID()})
		}, 0, 0, narrow})
	}
	return append(list, flood{"bytes without a plan", accepts, func(s *siege, i int) {
		src := rand.NewPCG(uint64(i), 9)
		for k := range s.mad {
			s.mad[k] = byte(src.Uint64())
		}
		s.mad.PutHeader(mad.CMHeader(mad.AttrREQ+mad.AttrID(i%11), uint64(i)))
		s.hit(spoofed(i))
	}, 0, 0, narrow})
}

// hostileREQ is a REQ that the victim's listener takes.
func hostileREQ(s *siege, from netip.Addr, id uint32) *mad.REQ {
	return &mad.REQ{
		LocalCommID: id, ServiceID: siegeService, LocalCAGUID: 0xbad, LocalQPN: ib.QPN(id%0xfffff0 + 2),
		ResponderResources: 255, InitiatorDepth: 255, RemoteResponseTimeout: 31, LocalResponseTimeout: 31, MaxCMRetries: 15,
		PKey: ib.PKeyDefault, PathMTU: ib.MTU1024,
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(from), RemoteGID: ib.GIDFromAddr(s.Sides[1].Addr), HopLimit: 64, LocalAckTimeout: 31},
	}
}

// ids is a message that has only the IDs of a connection.
type ids struct{ local, remote uint32 }

// Put writes the IDs, where every message of a connection has them.
func (m *ids) Put(d *mad.MAD) { (&mad.RTU{LocalCommID: m.local, RemoteCommID: m.remote}).Put(d) }

// finish makes a connection, whose answer the hog reads, and ends it.
func finish(s *siege, i int) {
	id := uint32(i) + 1
	var c *cm.Conn
	reaction := s.stranger
	s.stranger = func(now clock.Instant, got *cm.Conn, e *cm.Event) {
		if e.Type == cm.REQReceived {
			c = got
		}
		reaction(now, got, e)
	}
	s.forge(hog, mad.AttrREQ, uint64(i), hostileREQ(s, hog, id))
	s.stranger = reaction
	if c != nil && c.State() == cm.RepSent {
		s.forge(hog, mad.AttrRTU, uint64(i), &ids{id, c.LocalID()})
		s.forge(hog, mad.AttrDREQ, uint64(i), &mad.DREQ{LocalCommID: id, RemoteCommID: c.LocalID(), RemoteQPN: 0x77})
	}
}

// endurance is a flood under way, and what goes on meanwhile.
type endurance struct {
	*siege
	flood
	n      int // MADs so far
	rounds int
	data   int // messages over the connection that was there before
	cycles int // connections of the peer that were made, used and ended
}

const (
	perRound = 1000 // MADs of a flood for each turn of the honest
	perTurn  = 100  // requests of a flood that the victim's consumer accepts in one
)

// round lets the flood go on, and gives the honest one turn: a message over
// the connection that was there before, which must arrive in this turn.
func (e *endurance) round() {
	e.energy = perTurn
	for range perRound {
		e.inject(e.siege, e.n)
		e.n++
	}
	e.links[0].send(0, 4096)
	e.carry() // the message goes out, and its acknowledgement comes back
	e.carry()
	e.rounds++
	e.data += min(e.links[0].poll(1), e.links[0].poll(0))
}

// until goes on until something is so.
func (e *endurance) until(what string, so func() bool) {
	e.T.Helper()
	for n := 0; !so(); n++ {
		if n == 50 {
			e.T.Fatalf("%s: after %d MADs, %d rounds without %s", e.what, e.n, n, what)
		}
		e.round()
	}
}

// cycle makes a connection, uses it both ways, and ends it.
func (e *endurance) cycle(l *link) {
	e.T.Helper()
	l.ask()
	e.until("a connection", func() bool { return l.in(cm.Established) })
	for from := range 2 {
		l.send(from, 64)
		done := [2]int{}
		e.until("its message", func() bool {
			done[0], done[1] = done[0]+l.poll(0), done[1]+l.poll(1)
			return done == [2]int{1, 1}
		})
	}
	l.leave(e.cycles % 2)
	e.until("its end", func() bool { return l.in(cm.Timewait) })
	l.reset()
	e.cycles++
}

// heapInUse returns the bytes in use after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestC6_C12_CMFloods floods the victim with MADs of the CM, each kind on its
// own: a thousand for each turn of the honest peer, who meanwhile connects,
// sends and disconnects, and loses nothing that waits for a timer; the data of
// a connection that is there passes in every turn, what the victim holds is
// bounded, and it answers no MAD with more than one, but a request that it
// gives up. When it is over nothing is left.
func TestC6_C12_CMFloods(t *testing.T) {
	for _, f := range floods() {
		t.Run(f.what, func(t *testing.T) {
			start := time.Now()
			s := newSiege(t, hca.Config{}, hca.Config{Connections: f.limits})
			// The MADs that wait in QP1 do not fit into the batches of one
			// turn.
			s.Sides[1].Batch = fabric.NewBatch(2*rig.MaxPacket, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65000})
			first, second := s.link(), s.link()
			first.ask()
			s.settle(time.Second)
			if !first.in(cm.Established) {
				t.Fatal("there is no connection to begin with")
			}
			if f.reaction != nil {
				s.stranger = f.reaction(s)
			}
			e := &endurance{siege: s, flood: f}
			before := heapInUse()
			grown, most := int64(0), 0
			for total := max(*cmFlood, f.least); e.n < total; {
				e.cycle(second)
				most = max(most, s.Sides[1].HCA.CM().Conns()-1-e.cycles)
				if e.cycles%16 == 1 || e.n >= total {
					grown = max(grown, heapInUse()-before)
				}
			}
			e.wantBounded(most, grown)
			t.Logf("%d MADs, %d connections meanwhile; up to %d of strangers, %d KiB more; sent to strangers %v; %v",
				e.n, e.cycles, most, grown>>10, s.strays, time.Since(start).Round(time.Millisecond))
			for _, c := range s.waiting {
				c.Destroy(s.Now)
			}
			first.leave(0)
			s.settle(24 * time.Hour)
			s.wantEmpty("when it is over")
		})
	}
}

// wantBounded checks the memory that the flood has taken.
func (e *endurance) wantBounded(most int, grown int64) {
	e.T.Helper()
	m := e.Sides[1].HCA.CM()
	n := m.Counters()
	answers := 0
	for _, k := range e.strays {
		answers += k
	}
	if most > e.most+1 || m.HalfOpen() > e.limits.MaxHalfOpen {
		e.T.Errorf("%d connections of strangers, %d half-open; want %d at most", most, m.HalfOpen(), e.most)
	}
	if limit := int64(e.most)*2048 + 2<<20; grown > limit {
		e.T.Errorf("the heap grows by %d bytes, want %d at most", grown, limit)
	}
	if uint64(answers) > uint64(e.n)+n.GivenUp {
		e.T.Errorf("%d answers to %d MADs, %d given up", answers, e.n, n.GivenUp)
	}
	if e.data != e.rounds {
		e.T.Errorf("%d messages arrive in %d turns", e.data, e.rounds)
	}
	for i, side := range e.Sides {
		c := side.HCA.CM().Counters()
		for kind, k := range c.Retries {
			if cm.KindName(kind) == "REP" && k <= c.Duplicates[cm.MsgREQ] { // each answers a repeated REQ
				continue
			}
			if k != 0 {
				e.T.Errorf("side %d repeats %s %d times", i, cm.KindName(kind), k)
			}
		}
	}
	if e.refused != 0 {
		e.T.Errorf("%d honest attempts were refused", e.refused)
	}
}
