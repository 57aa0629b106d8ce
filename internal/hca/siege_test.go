package hca_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// siege is two adapters in virtual time: side 0 is an honest peer, side 1 the
// victim, whose QP1 gets whatever MADs the test makes, in the name of any host.
type siege struct {
	*rig.Rig
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
func newSiege(t testing.TB, peer, victim hca.Config) *siege {
	t.Helper()
	s := &siege{Rig: &rig.Rig{T: t}, strays: make(map[mad.AttrID]int), wire: make([]byte, roce.Size(roce.UDSendOnly, mad.Size))}
	for i, c := range []hca.Config{peer, victim} {
		s.Sides[i] = rig.Config{HCA: c, Type: ib.RC, Cap: rig.Cap, Bytes: 16 << 10, Challenge: !c.Settings.NoChallenge}.NewSide(t, byte(i+1))
	}
	s.stranger = func(clock.Instant, *cm.Conn, *cm.Event) {}
	s.listen()
	return s
}

// listen has the victim take connections.
func (s *siege) listen() {
	s.T.Helper()
	var err error
	s.listener, err = s.Sides[1].HCA.CM().Listen(siegeService, s.arrive)
	rig.Must(s.T, err)
}

// arrive is the victim's consumer when a request comes.
func (s *siege) arrive(now clock.Instant, c *cm.Conn, e *cm.Event) {
	for _, l := range s.links {
		if c.Path().Remote == s.Sides[0].Addr && l.conn[1] == nil && l.conn[0] != nil && e.Type == cm.REQReceived &&
			l.conn[0].LocalID() == c.RemoteID() && l.qp[0].Num() == e.REQ.LocalQPN {
			l.conn[1] = c
			c.SetHandler(func(now clock.Instant, _ *cm.Conn, e *cm.Event) { l.onEvent(1, now, e) })
			l.onEvent(1, now, e)
			return
		}
	}
	c.SetHandler(s.stranger)
	s.stranger(now, c, e)
}

// link makes a queue pair for each side.
func (s *siege) link() *link {
	s.T.Helper()
	l := &link{s: s}
	for i, side := range s.Sides {
		var err error
		l.cq[i], err = side.HCA.CreateCQ(64, nil)
		rig.Must(s.T, err)
		l.qp[i], err = side.HCA.CreateQP(side.PD, hca.QPConfig{Type: ib.RC, SendCQ: l.cq[i], RecvCQ: l.cq[i], Cap: rig.Cap, SigAll: true})
		rig.Must(s.T, err)
	}
	s.links = append(s.links, l)
	return l
}

// onEvent handles an event as a well-behaved consumer does. Its late calls may
// be refused.
func (l *link) onEvent(i int, now clock.Instant, e *cm.Event) {
	h, c, q := l.s.Sides[i].HCA, l.conn[i], l.qp[i]
	switch e.Type {
	case cm.REQReceived:
		if h.Establish(now, c, q) != nil {
			l.s.refused++
			c.Destroy(now)
			return
		}
		rig.Must(l.s.T, c.SendREP(now, &cm.REPParams{QPN: q.Num(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: 7}))
	case cm.REPReceived:
		if h.Establish(now, c, q) != nil {
			l.s.refused++
			c.Destroy(now)
			return
		}
		rig.Must(l.s.T, c.SendRTU(now, nil))
	case cm.DREQReceived:
		_ = h.Disconnect(now, q) // refused in RESET
		rig.Must(l.s.T, c.SendDREP(now, nil))
	case cm.REJReceived, cm.REQError, cm.REPError, cm.DREQError:
		_ = h.Disconnect(now, q)
	}
}

// ask has the honest peer ask for the connection.
func (l *link) ask() {
	l.s.T.Helper()
	side := l.s.Sides[0]
	l.conn[0] = side.HCA.CM().NewConn(func(now clock.Instant, _ *cm.Conn, e *cm.Event) { l.onEvent(0, now, e) })
	rig.Must(l.s.T, side.HCA.Prepare(l.s.Now, l.qp[0]))
	rig.Must(l.s.T, l.conn[0].SendREQ(l.s.Now, &cm.REQParams{
		Service: siegeService, QPN: l.qp[0].Num(), ResponderResources: 4, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 7,
		Path: cm.Path{Local: side.Addr, Remote: l.s.Sides[1].Addr, MTU: ib.MTU1024},
	}))
}

// leave has one side disconnect.
func (l *link) leave(i int) {
	l.s.T.Helper()
	rig.Must(l.s.T, l.s.Sides[i].HCA.Disconnect(l.s.Now, l.qp[i]))
	rig.Must(l.s.T, l.conn[i].SendDREQ(l.s.Now, nil))
}

// in reports whether both ends are in a state.
func (l *link) in(want cm.State) bool {
	return l.conn[0] != nil && l.conn[1] != nil && l.conn[0].State() == want && l.conn[1].State() == want
}

// reset makes the queue pairs as new.
func (l *link) reset() {
	l.s.T.Helper()
	for i := range l.qp {
		rig.Must(l.s.T, l.qp[i].Modify(l.s.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
		l.poll(i)
	}
	l.conn = [2]*cm.Conn{}
}

// send sends n bytes from a side to the other, where a receive is posted.
func (l *link) send(from, n int) {
	l.s.T.Helper()
	to := l.s.Sides[1-from]
	_, err := l.qp[1-from].PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{to.SGE(0, n)}})
	rig.Must(l.s.T, err)
	_, err = l.qp[from].PostSend(ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{l.s.Sides[from].SGE(0, n)}})
	rig.Must(l.s.T, err)
	l.s.Sides[from].HCA.Single().RingDoorbell(l.qp[from])
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
	s.Sides[1].HCA.Single().Receive(s.Now, &d)
}

// sealed gives bytes that end with room for the ICRC the right one.
func (s *siege) sealed(from netip.Addr, b []byte) fabric.Datagram {
	d := fabric.Datagram{Bytes: b, Src: from, Dst: s.Sides[1].Addr, SrcPort: 0xd872, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 61}
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)))
	return d
}

// batches is how many batches a driver sends before it receives again.
const batches = 8

// carry lets both sides transmit as a driver does, and delivers what they send
// to each other. It reports whether anything was sent.
func (s *siege) carry() (moved bool) {
	for i, side := range s.Sides {
		for range batches {
			more := side.HCA.Single().Transmit(s.Now, side.Batch)
			for k := range side.Batch.Pending() {
				moved = true
				s.deliver(i, &side.Batch.Pending()[k])
			}
			side.Batch.Reset()
			if !more {
				break
			}
		}
	}
	s.Now = s.Now.Add(rig.Latency)
	return moved
}

// deliver delivers a run to its receiver.
func (s *siege) deliver(from int, run *fabric.Run) {
	for i, side := range s.Sides {
		if run.Path.Dst == side.Addr && i != from {
			d := virtual.Arrival(run, 0, run.Count)
			side.HCA.Single().Receive(s.Now, &d)
			return
		}
	}
	for k := range run.Count {
		var p roce.Packet
		if f := p.Parse(run.Segment(k)); f != roce.FaultNone {
			s.T.Fatalf("side %d sends bytes to %v that are no packet: %v", from, run.Path.Dst, f)
		}
		switch {
		case p.Info.Service == roce.ServiceUD && len(p.Payload) == mad.Size: // no longer than what it answers
			s.strays[(*mad.MAD)(p.Payload).Header().AttrID]++
		case p.BTH.Opcode == roce.RCRDMAWriteOnly && p.RETH == (roce.RETH{}): // a probe of a challenge
		case p.Info.Flags&roce.FlagResponse == 0:
			s.T.Fatalf("side %d sends %v with %d bytes to %v", from, p.BTH.Opcode, len(p.Payload), run.Path.Dst)
		}
	}
}

// settle lets time pass until nothing is left to happen.
func (s *siege) settle(limit time.Duration) {
	s.T.Helper()
	for end := s.Now.Add(limit); ; {
		for s.carry() {
		}
		next := min(s.Sides[0].HCA.Single().Deadline(), s.Sides[1].HCA.Single().Deadline())
		if next > end {
			return
		}
		s.Now = max(s.Now, next)
		for _, side := range s.Sides {
			side.HCA.Single().Advance(s.Now)
		}
	}
}

// wantEmpty fails the test if a side holds anything that a connection needs.
func (s *siege) wantEmpty(why string) {
	s.T.Helper()
	for i, side := range s.Sides {
		m, shard := side.HCA.CM(), side.HCA.Single()
		if m.Conns() != 0 || m.HalfOpen() != 0 || shard.Deadline() != clock.Never || shard.Pending() {
			s.T.Fatalf("%s: side %d has %d connections, %d half-open, a deadline at %d, pending %v",
				why, i, m.Conns(), m.HalfOpen(), shard.Deadline(), shard.Pending())
		}
	}
}
