package hca_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// cmVictim is a siege by a program: the hosts around the victim send it what
// they like, in anybody's name, and its consumer does what it likes with their
// connections. After every step check looks at what must hold all the same.
type cmVictim struct {
	*siege
	limits    cm.Limits
	bond      *link // established before, and to stay
	spare     *link // of the honest peer, which comes and goes
	broken    bool  // a sender who knew the bond's IDs has ended it with the peer's address
	guests    []*guest
	reaction  byte
	moves     []trace.Record // of the victim's QPs, since the last step
	states    map[ib.QPN]ib.QPState
	counts    cm.Counters
	past      []forgedMAD // the last of them
	last      mad.MAD
	forgeries int
	weight    int // of the adapter at the beginning
}

// guest is a connection that the victim's consumer knows but for the links'.
type guest struct {
	conn *cm.Conn
	qp   *qp.QP // nil: none yet
	over bool   // destroyed or forgotten
}

// forgedMAD is a MAD to the victim, with its claimed sender.
type forgedMAD struct {
	from netip.Addr
	mad  mad.MAD
}

// The hosts of a cmVictim, in addition to its sides.
var (
	stranger1 = netip.MustParseAddr("10.9.9.1")
	stranger2 = netip.MustParseAddr("10.9.9.2")
	stranger6 = netip.MustParseAddr("fd00::5")
)

// hostileGUID is the GUID of all strangers.
const hostileGUID = 0xbad

// maxCMGrowth bounds the growth of the victim's adapter under any attack, in
// bytes. Most of it is the batch of the last packet for a QP.
const maxCMGrowth = 256<<10 + 128<<10

func newCMVictim(t testing.TB, p *program) *cmVictim {
	v := &cmVictim{limits: cm.Limits{MaxConns: 12, MaxListeners: 2, MaxHalfOpen: 6}, states: make(map[ib.QPN]ib.QPState)}
	if opts := p.byte(); opts&1 != 0 {
		v.limits.MaxConns = 8
	}
	v.reaction = p.byte()
	c := hca.Config{Connections: v.limits, Limits: hca.DefaultLimits()}
	c.Limits.MaxQP = 24
	c.Trace = func(r *trace.Record) {
		if r.Kind == trace.State {
			v.moves = append(v.moves, *r)
		}
	}
	v.siege = newSiege(t, hca.Config{}, c)
	v.stranger = v.onEvent
	v.bond, v.spare = v.link(), v.link()
	v.bond.ask()
	v.settle(time.Second)
	if !v.bond.in(cm.Established) {
		t.Fatal("there is no connection to begin with")
	}
	v.weight = footprint(v.Sides[1].HCA)
	return v
}

// onEvent is the consumer of a stranger's connection. It makes at most one call.
func (v *cmVictim) onEvent(now clock.Instant, c *cm.Conn, e *cm.Event) {
	g, known := c.Consumer.(*guest)
	if !known {
		g = &guest{conn: c}
		c.Consumer = g
		v.guests = append(v.guests, g)
	}
	if g.over {
		v.T.Fatalf("a consumer that is gone hears %v", e.Type)
	}
	first := e.Type == cm.REQReceived || e.Type == cm.SIDRREQReceived
	if first == known {
		v.T.Fatalf("the consumer hears %v, known is %v", e.Type, known)
	}
	switch v.reaction % 8 {
	case 0:
	case 1:
		v.answer(now, g, e.Type)
	case 2:
		v.end(g)
	case 3:
		if first {
			g.over = true
			c.Forget(now)
		}
	case 4:
		_ = c.SendMRA(now, v.reaction>>3, nil) // no use for it in most states
	case 5:
		_ = c.PrepareMRA(now, v.reaction>>3, nil)
	case 6:
		_ = c.SendREJ(now, &cm.REJParams{Reason: mad.RejReason(v.reaction >> 3)})
	case 7:
		_ = c.SendREP(now, &cm.REPParams{QPN: 0x77})
	}
}

// answer does what the state of a connection asks for. Calls are refused in
// states that the program has led to, which is fine.
func (v *cmVictim) answer(now clock.Instant, g *guest, what cm.EventType) {
	c, h := g.conn, v.Sides[1].HCA
	switch what {
	case cm.REQReceived:
		if v.equip(g) && h.Establish(now, c, g.qp) == nil {
			_ = c.SendREP(now, &cm.REPParams{QPN: g.qp.Num(), ResponderResources: 1, InitiatorDepth: 1})
		}
	case cm.REPReceived:
		if v.equip(g) && h.Establish(now, c, g.qp) == nil {
			_ = c.SendRTU(now, nil)
		}
	case cm.DREQReceived:
		v.leave(g)
		_ = c.SendDREP(now, nil)
	case cm.LAPReceived:
		_ = c.SendAPR(now, &cm.APRParams{Status: mad.APRAccepted})
	case cm.SIDRREQReceived:
		_ = c.SendSIDRREP(now, &cm.SIDRREPParams{Status: mad.SIDRValid, QPN: 0x77, QKey: 1})
	case cm.REJReceived, cm.REPError, cm.REQError, cm.DREQError:
		v.leave(g)
	}
}

// equip gives a guest a QP, and reports false if there is none left.
func (v *cmVictim) equip(g *guest) bool {
	if g.qp != nil {
		return true
	}
	side := v.Sides[1]
	var err error
	g.qp, err = side.HCA.CreateQP(side.PD, hca.QPConfig{Type: ib.RC, SendCQ: side.CQ, RecvCQ: side.CQ, Cap: rig.Cap})
	return err == nil
}

func (v *cmVictim) leave(g *guest) {
	if g.qp != nil {
		_ = v.Sides[1].HCA.Disconnect(v.Now, g.qp) // refused in RESET
	}
}

// end ends a guest's connection for the consumer.
func (v *cmVictim) end(g *guest) {
	if !g.over {
		g.over = true
		g.conn.Destroy(v.Now)
	}
}

// disarm destroys a guest's QP, which no handler may do.
func (v *cmVictim) disarm(g *guest) {
	v.T.Helper()
	v.checkMoves()
	if g.qp != nil {
		v.Sides[1].HCA.DestroyQP(v.Sides[1].PD, g.qp)
		delete(v.states, g.qp.Num())
		g.qp = nil
	}
}

// replies counts what the victim has sent of its own accord or in answer.
func (v *cmVictim) replies() (n uint64) {
	for _, k := range v.Sides[1].HCA.CM().Counters().Sent {
		n += k
	}
	g := v.Sides[1].HCA.GSI().Counters()
	return n + g.Unsupported + g.Informed
}

// meet delivers v.mad to the victim from its claimed sender. The victim answers with at
// most one MAD. But a REQ or REP can end an older connection, at once or by the DREP that
// ends an examination, and a request can evict one, and then their peers get messages too.
func (v *cmVictim) meet(from netip.Addr) {
	v.T.Helper()
	v.last = v.mad
	v.past = append(v.past[max(0, len(v.past)-31):], forgedMAD{from, v.mad})
	if v.ends(from) {
		v.broken = true
	}
	before, most := v.replies(), uint64(1)
	switch v.mad.Header().AttrID {
	case mad.AttrREQ, mad.AttrREP, mad.AttrSIDRREQ, mad.AttrDREP:
		most = 2
	}
	v.hit(from)
	v.forgeries++
	if n := v.replies() - before; n > most {
		v.T.Fatalf("%v from %v is answered by %d MADs", v.mad.Header().AttrID, from, n)
	}
}

// ends reports whether v.mad, from its claimed sender, may end the bond: it
// comes from the peer's address, and is a REJ or a DREQ with the IDs of both
// sides, or names the peer's QP for another connection (C5, C7).
func (v *cmVictim) ends(from netip.Addr) bool {
	h, peer := v.mad.Header(), v.Sides[0]
	if from != peer.Addr || h.Class != mad.ClassCM || v.bond.conn[1] == nil {
		return false
	}
	ours, theirs, guid := v.bond.conn[1].LocalID(), v.bond.conn[1].RemoteID(), peer.HCA.NodeGUID()
	switch h.AttrID {
	case mad.AttrREJ:
		var m mad.REJ
		m.Decode(&v.mad)
		timeout := m.Reason == mad.RejTimeout && m.RemoteCommID == 0 && binary.BigEndian.Uint64(m.Info[:]) == guid
		return m.LocalCommID == theirs && (timeout || m.RemoteCommID == ours && m.Message != mad.WhichREQ)
	case mad.AttrDREQ:
		var m mad.DREQ
		m.Decode(&v.mad)
		return m.LocalCommID == theirs && m.RemoteCommID == ours && m.RemoteQPN == v.bond.qp[1].Num()
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(&v.mad)
		return m.LocalQPN == v.bond.qp[0].Num() && m.LocalCAGUID == guid && m.LocalCommID != theirs
	case mad.AttrREP:
		var m mad.REP
		m.Decode(&v.mad)
		return m.LocalQPN == v.bond.qp[0].Num() && m.LocalCAGUID == guid
	}
	return false
}

// check looks at everything that must hold after every step.
func (v *cmVictim) check() {
	v.T.Helper()
	v.checkConns()
	v.checkMoves()
	v.checkCounters()
	v.checkBond()
}

func (v *cmVictim) checkConns() {
	v.T.Helper()
	m := v.Sides[1].HCA.CM()
	if m.Conns() > v.limits.MaxConns || m.HalfOpen() > v.limits.MaxHalfOpen {
		v.T.Fatalf("%d connections, %d half-open; the limits are %+v", m.Conns(), m.HalfOpen(), v.limits)
	}
	held := map[*cm.Conn]bool{}
	m.EachConn(func(c *cm.Conn) {
		held[c] = true
		g, _ := c.Consumer.(*guest)
		switch st := c.State(); {
		case st == cm.Idle || st == cm.Listen || st >= cm.Unknown:
			v.T.Fatalf("a connection is held in %v", st)
		case g != nil && g.over && st != cm.DReqSent && st != cm.Timewait:
			v.T.Fatalf("a connection that the consumer is done with is in %v", st)
		}
	})
	for _, g := range v.guests {
		if st := g.conn.State(); !g.over && st != cm.Idle && !held[g.conn] {
			v.T.Fatalf("a connection in %v is not held", st)
		}
	}
	v.guests = slices.DeleteFunc(v.guests, func(g *guest) bool {
		if g.over {
			v.disarm(g)
		}
		return g.over && !held[g.conn]
	})
}

// checkMoves follows the moves of the victim's QPs since the last step.
func (v *cmVictim) checkMoves() {
	v.T.Helper()
	for _, m := range v.moves {
		legal := deviceMoves
		if m.Cause == "modify" {
			legal = softwareMoves
		}
		from, known := v.states[m.QPN]
		if !known {
			from = ib.RESET
		}
		if m.From != from || !slices.Contains(legal[m.From], m.To) || m.To == ib.SQE {
			v.T.Fatalf("QP %v in %v moves from %v to %v: %s", m.QPN, from, m.From, m.To, m.Cause)
		}
		v.states[m.QPN] = m.To
	}
	v.moves = v.moves[:0]
}

// checkCounters checks that no counter has decreased. The structure has only
// 64-bit counts.
func (v *cmVictim) checkCounters() {
	v.T.Helper()
	now := v.Sides[1].HCA.CM().Counters()
	const n = unsafe.Sizeof(now) / 8
	old := (*[n]uint64)(unsafe.Pointer(&v.counts))
	for i, c := range (*[n]uint64)(unsafe.Pointer(&now)) {
		if c < old[i] {
			v.T.Fatalf("counter %d went from %d to %d", i, old[i], c)
		}
	}
	v.counts = now
}

// checkBond checks that the honest connection is still there, unless a message
// was allowed to end it.
func (v *cmVictim) checkBond() {
	v.T.Helper()
	if v.broken {
		return
	}
	a, b := v.bond.conn[0], v.bond.conn[1]
	if !v.bond.in(cm.Established) || a.LocalID() != b.RemoteID() || b.LocalID() != a.RemoteID() {
		v.T.Fatalf("the honest connection is in %v and %v", a.State(), b.State())
	}
	for i, q := range v.bond.qp {
		if q.State() != ib.RTS || q.Query().DestQPN != v.bond.qp[1-i].Num() {
			v.T.Fatalf("the honest connection's QP is in %v, its peer is %v", q.State(), q.Query().DestQPN)
		}
	}
}

// talk sends over the honest connection, which must work at once.
func (v *cmVictim) talk() {
	v.T.Helper()
	if v.broken {
		return
	}
	for from := range 2 {
		v.bond.send(from, 64)
		for v.carry() {
		}
		if a, b := v.bond.poll(0), v.bond.poll(1); a != 1 || b != 1 {
			v.T.Fatalf("side %d sends a message over the honest connection: %d and %d completions", from, a, b)
		}
	}
}

// finish has the consumer end everything and the peers fall silent: nothing is
// left after a day.
func (v *cmVictim) finish() {
	v.T.Helper()
	v.talk()
	v.reaction = 0
	for _, g := range v.guests {
		v.end(g)
		v.disarm(g)
	}
	if v.listener != nil {
		v.listener.Close()
	}
	v.broken = true
	for _, l := range v.links {
		for _, c := range l.conn {
			if c != nil {
				c.Destroy(v.Now)
			}
		}
	}
	v.settle(24 * time.Hour)
	v.check()
	v.wantEmpty("at the end")
	for i, side := range v.Sides {
		for _, l := range v.links {
			side.HCA.DestroyQP(side.PD, l.qp[i])
		}
	}
	if n := v.Sides[1].HCA.Resources().QPs; n != 1 { // the rig's own
		v.T.Fatalf("%d QPs are left", n)
	}
	if v.forgeries%4 == 0 { // it takes longer than all the rest
		v.checkWeight()
	}
}

// checkWeight bounds what the victim's adapter holds in memory.
func (v *cmVictim) checkWeight() {
	v.T.Helper()
	if n := footprint(v.Sides[1].HCA) - v.weight; n > maxCMGrowth {
		v.T.Fatalf("the adapter has grown by %d bytes", n)
	}
}
