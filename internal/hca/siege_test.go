package hca

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// siege is two adapters in virtual time: side 0 is an honest peer, side 1 the
// victim, whose QP1 gets whatever MADs the test makes, in the name of any host.
type siege struct {
	*rig
	links []*link
	// stranger decides what the victim's consumer does with the connections of
	// other hosts than the peer.
	stranger cm.Handler
	listener *cm.Listener       // of the victim; nil for none
	waiting  []*cm.Conn         // of strangers, for the consumer's decision
	energy   int                // of the consumer: how many strangers it accepts
	strays   map[mad.AttrID]int // MADs that the victim sent to hosts that are not there
	refused  int                // honest attempts that the victim's adapter or consumer refused
	wire     []byte             // of the hostile packet
	mad      mad.MAD            // in it
}

// link is a connection between the two sides, or one to be.
type link struct {
	s    *siege
	qp   [2]*qp.QP
	cq   [2]*qp.CQ
	conn [2]*cm.Conn
}

const (
	siegeService  = mad.ServiceID(0x0106_1d30)
	nobodyService = mad.ServiceID(0x0106_1d31)
)

// newSiege makes both sides as their configurations say.
func newSiege(t testing.TB, peer, victim Config) *siege {
	t.Helper()
	s := &siege{rig: &rig{t: t}, strays: make(map[mad.AttrID]int), wire: make([]byte, roce.Size(roce.UDSendOnly, mad.Size))}
	s.side[0] = rigConfig{hca: peer, typ: ib.RC, cap: rigCap, bytes: 16 << 10}.newSide(t, 1)
	s.side[1] = rigConfig{hca: victim, typ: ib.RC, cap: rigCap, bytes: 16 << 10}.newSide(t, 2)
	s.stranger = func(clock.Instant, *cm.Conn, *cm.Event) {}
	s.listen()
	return s
}

// listen has the victim take connections.
func (s *siege) listen() {
	s.t.Helper()
	var err error
	s.listener, err = s.side[1].hca.CM().Listen(siegeService, s.arrive)
	must(s.t, err)
}

// arrive is the victim's consumer when a request comes.
func (s *siege) arrive(now clock.Instant, c *cm.Conn, e *cm.Event) {
	for _, l := range s.links {
		if c.Path().Remote == s.side[0].addr && l.conn[1] == nil && l.conn[0] != nil && e.Type == cm.REQReceived &&
			l.conn[0].LocalID() == c.RemoteID() && l.qp[0].Num() == e.REQ.LocalQPN {
			l.conn[1] = c
			c.SetHandler(func(now clock.Instant, _ *cm.Conn, e *cm.Event) { l.hear(1, now, e) })
			l.hear(1, now, e)
			return
		}
	}
	c.SetHandler(s.stranger)
	s.stranger(now, c, e)
}

// link makes a queue pair for each side.
func (s *siege) link() *link {
	s.t.Helper()
	l := &link{s: s}
	for i, side := range s.side {
		var err error
		l.cq[i], err = side.hca.CreateCQ(64, nil)
		must(s.t, err)
		l.qp[i], err = side.hca.CreateQP(side.pd, QPConfig{Type: ib.RC, SendCQ: l.cq[i], RecvCQ: l.cq[i], Cap: rigCap, SigAll: true})
		must(s.t, err)
	}
	s.links = append(s.links, l)
	return l
}

// hear is what a polite consumer does with an event. What it was told to send
// too late is refused, and may be.
func (l *link) hear(i int, now clock.Instant, e *cm.Event) {
	h, c, q := l.s.side[i].hca, l.conn[i], l.qp[i]
	switch e.Type {
	case cm.REQReceived:
		if h.Establish(now, c, q) != nil {
			l.s.refused++
			c.Destroy(now)
			return
		}
		must(l.s.t, c.SendREP(now, &cm.REPParams{QPN: q.Num(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: 7}))
	case cm.REPReceived:
		if h.Establish(now, c, q) != nil {
			l.s.refused++
			c.Destroy(now)
			return
		}
		must(l.s.t, c.SendRTU(now, nil))
	case cm.DREQReceived:
		_ = h.Disconnect(now, q) // refused in RESET
		must(l.s.t, c.SendDREP(now, nil))
	case cm.REJReceived, cm.REQError, cm.REPError, cm.DREQError:
		_ = h.Disconnect(now, q)
	}
}

// ask has the honest peer ask for the connection.
func (l *link) ask() {
	l.s.t.Helper()
	side := l.s.side[0]
	l.conn[0] = side.hca.CM().NewConn(func(now clock.Instant, _ *cm.Conn, e *cm.Event) { l.hear(0, now, e) })
	must(l.s.t, side.hca.Prepare(l.s.now, l.qp[0]))
	must(l.s.t, l.conn[0].SendREQ(l.s.now, &cm.REQParams{
		Service: siegeService, QPN: l.qp[0].Num(), ResponderResources: 4, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 7,
		Path: cm.Path{Local: side.addr, Remote: l.s.side[1].addr, MTU: ib.MTU1024},
	}))
}

// leave has one side disconnect.
func (l *link) leave(i int) {
	l.s.t.Helper()
	must(l.s.t, l.s.side[i].hca.Disconnect(l.s.now, l.qp[i]))
	must(l.s.t, l.conn[i].SendDREQ(l.s.now, nil))
}

// in reports whether both ends are in a state.
func (l *link) in(want cm.State) bool {
	return l.conn[0] != nil && l.conn[1] != nil && l.conn[0].State() == want && l.conn[1].State() == want
}

// reset makes the queue pairs as new.
func (l *link) reset() {
	l.s.t.Helper()
	for i := range l.qp {
		must(l.s.t, l.qp[i].Modify(l.s.now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
		l.s.side[i].hca.Shard().Arm(l.qp[i])
		l.poll(i)
	}
	l.conn = [2]*cm.Conn{}
}

// send sends n bytes from a side to the other, where a receive is posted.
func (l *link) send(from, n int) {
	l.s.t.Helper()
	to := l.s.side[1-from]
	_, err := l.qp[1-from].PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{to.sge(0, n)}})
	must(l.s.t, err)
	_, err = l.qp[from].PostSend(ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{l.s.side[from].sge(0, n)}})
	must(l.s.t, err)
	l.s.side[from].hca.Shard().RingDoorbell(l.qp[from])
}

// poll returns how many work requests of a side have completed with success.
func (l *link) poll(i int) (n int) {
	var wcs [64]ib.WC
	for _, wc := range wcs[:l.cq[i].Poll(wcs[:])] {
		if wc.Status == ib.WCSuccess {
			n++
		}
	}
	return n
}

// forge gives the victim a MAD of the CM in the name of a host.
func (s *siege) forge(from netip.Addr, attr mad.AttrID, tid uint64, msg interface{ Put(*mad.MAD) }) {
	s.mad = mad.MAD{}
	s.mad.PutHeader(mad.CMHeader(attr, tid))
	msg.Put(&s.mad)
	s.hit(from)
}

// hit gives the victim s.mad in the name of a host.
func (s *siege) hit(from netip.Addr) {
	p := roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
		DETH:    roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		Payload: s.mad[:],
	}
	p.Build(s.wire)
	d := s.sealed(from, s.wire)
	s.side[1].hca.Shard().Receive(s.now, &d)
}

// sealed gives bytes that end with room for the ICRC the right one.
func (s *siege) sealed(from netip.Addr, b []byte) fabric.Datagram {
	d := fabric.Datagram{Bytes: b, Src: from, Dst: s.side[1].addr, SrcPort: 0xd872, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 61}
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)))
	return d
}

// batches is how many batches a driver sends before it receives again.
const batches = 8

// carry lets both sides transmit as a driver does, and delivers what they send
// to each other. It reports whether anything was sent.
func (s *siege) carry() (moved bool) {
	for i, side := range s.side {
		for range batches {
			more := side.hca.Shard().Transmit(s.now, side.batch)
			for k := range side.batch.Pending() {
				moved = true
				s.deliver(i, &side.batch.Pending()[k])
			}
			side.batch.Reset()
			if !more {
				break
			}
		}
	}
	s.now = s.now.Add(rigLatency)
	return moved
}

// deliver hands a run to whom it is for.
func (s *siege) deliver(from int, run *fabric.Run) {
	for i, side := range s.side {
		if run.Path.Dst == side.addr && i != from {
			d := datagram(run, run.Bytes, 0)
			d.Stride = run.Size
			side.hca.Shard().Receive(s.now, &d)
			return
		}
	}
	for k := range run.Count {
		var p roce.Packet
		if f := p.Parse(run.Segment(k)); f != roce.FaultNone {
			s.t.Fatalf("side %d sends bytes to %v that are no packet: %v", from, run.Path.Dst, f)
		}
		switch {
		case p.Info.Service == roce.ServiceUD && len(p.Payload) == mad.Size: // no longer than what it answers
			s.strays[(*mad.MAD)(p.Payload).Header().AttrID]++
		case p.Info.Flags&roce.FlagResponse == 0:
			s.t.Fatalf("side %d sends %v with %d bytes to %v", from, p.BTH.Opcode, len(p.Payload), run.Path.Dst)
		}
	}
}

// settle lets time pass until nothing is left to happen.
func (s *siege) settle(limit time.Duration) {
	s.t.Helper()
	for end := s.now.Add(limit); ; {
		for s.carry() {
		}
		next := min(s.side[0].hca.Shard().Deadline(), s.side[1].hca.Shard().Deadline())
		if next > end {
			return
		}
		s.now = max(s.now, next)
		for _, side := range s.side {
			side.hca.Shard().Advance(s.now)
		}
	}
}

// wantEmpty fails the test if a side holds anything that a connection needs.
func (s *siege) wantEmpty(why string) {
	s.t.Helper()
	for i, side := range s.side {
		m, shard := side.hca.CM(), side.hca.Shard()
		if m.Conns() != 0 || m.HalfOpen() != 0 || shard.Deadline() != clock.Never || shard.Pending() {
			s.t.Fatalf("%s: side %d has %d connections, %d half-open, a deadline at %d, pending %v",
				why, i, m.Conns(), m.HalfOpen(), shard.Deadline(), shard.Pending())
		}
	}
}
