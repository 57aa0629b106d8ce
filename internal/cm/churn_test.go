package cm_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// churnNode is one manager of two, its consumer, and the model of its tables.
type churnNode struct {
	w     *churnWorld
	addr  netip.Addr
	peer  *churnNode
	m     *cm.Manager
	whole map[*cm.Conn]bool // established at some time
	owned map[*cm.Conn]bool // not destroyed by the consumer
	ready churn.Pool[*cm.Conn]
}

// churnMAD is a message under way.
type churnMAD struct {
	to  *churnNode
	mad mad.MAD
}

// churnWorld is the two of them, the wire between, and the time.
type churnWorld struct {
	t         *testing.T
	rng       *rand.Rand
	now       clock.Instant
	node      [2]*churnNode
	wire      []churnMAD
	listeners map[mad.ServiceID]*cm.Listener // of the second
	closed    churn.Pool[*cm.Listener]
	made      int
	connected int
}

const (
	churnServices = 50
	churnConns    = 300 // that a manager holds at most
	churnHalfOpen = 100
)

func newChurnWorld(t *testing.T) *churnWorld {
	w := &churnWorld{t: t, rng: churn.Rand(t), listeners: map[mad.ServiceID]*cm.Listener{}}
	for i := range w.node {
		n := &churnNode{
			w: w, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			whole: map[*cm.Conn]bool{}, owned: map[*cm.Conn]bool{},
		}
		n.m = cm.New(cm.Config{
			GUID: uint64(i + 1), Rand: w.rng.Uint32, MTU: ib.MTU4096, Addrs: []netip.Addr{n.addr},
			TID:    func(id uint32) uint64 { return uint64(id) },
			Limits: cm.Limits{MaxConns: churnConns, MaxListeners: churnServices / 2, MaxHalfOpen: churnHalfOpen},
			Send: func(_ clock.Instant, _ gsi.Address, m *mad.MAD) error {
				if w.rng.IntN(30) > 0 { // else it is lost
					w.wire = append(w.wire, churnMAD{n.peer, *m})
				}
				return nil
			},
		})
		w.node[i] = n
	}
	w.node[0].peer, w.node[1].peer = w.node[1], w.node[0]
	return w
}

// onEvent is the consumer of every connection.
func (n *churnNode) onEvent(now clock.Instant, c *cm.Conn, e *cm.Event) {
	w := n.w
	switch e.Type {
	case cm.REQReceived:
		n.owned[c] = true
		switch w.rng.IntN(8) {
		case 0:
			_ = c.SendREJ(now, &cm.REJParams{Reason: mad.RejConsumer})
			n.destroy(c)
		case 1:
			n.destroy(c)
		default:
			w.must(c.SendREP(now, &cm.REPParams{QPN: w.qpn()}))
		}
	case cm.REPReceived:
		n.partner(c)
		if w.rng.IntN(8) == 0 {
			n.destroy(c)
			return
		}
		w.must(c.SendRTU(now, nil))
		n.established(c)
	case cm.RTUReceived:
		n.partner(c)
		n.established(c)
	case cm.DREQReceived:
		if w.rng.IntN(4) > 0 {
			w.must(c.SendDREP(now, nil))
		}
		n.destroy(c)
	case cm.REQError, cm.REPError, cm.REJReceived, cm.DREQError, cm.DREPReceived, cm.TimewaitExit:
		n.destroy(c)
	}
}

// partner checks that the peer's connection with our ID has ours as its peer.
func (n *churnNode) partner(c *cm.Conn) {
	n.peer.m.EachConn(func(p *cm.Conn) {
		if p.LocalID() == c.RemoteID() && p.RemoteID() != c.LocalID() && p.RemoteID() != 0 {
			n.w.t.Fatalf("connection %#x of peer %#x, where that is of %#x", c.LocalID(), c.RemoteID(), p.RemoteID())
		}
	})
}

func (n *churnNode) established(c *cm.Conn) {
	n.whole[c] = true
	n.ready.Add(c)
	n.w.connected++
}

func (n *churnNode) destroy(c *cm.Conn) {
	if n.owned[c] {
		delete(n.owned, c)
		c.Destroy(n.w.now)
	}
}

func (w *churnWorld) must(err error) {
	if err != nil {
		w.t.Fatalf("after %d connections: %v", w.made, err)
	}
}

func (w *churnWorld) qpn() ib.QPN { return ib.QPN(2 + w.made%0xfffff0) }

// connect begins a connection to some service.
func (w *churnWorld) connect() {
	n := w.node[0]
	c := n.m.NewConn(n.onEvent)
	n.owned[c] = true
	w.made++
	err := c.SendREQ(w.now, &cm.REQParams{
		Service: mad.ServiceID(w.rng.IntN(churnServices)), QPN: w.qpn(),
		Path: cm.Path{Local: n.addr, Remote: n.peer.addr, MTU: ib.MTU1024, Lifetime: 1}, RetryCount: 7,
	})
	if errors.Is(err, ib.ENOMEM) && n.m.Conns() == churnConns {
		n.destroy(c)
		return
	}
	w.must(err)
}

// listen begins or ends a listener.
func (w *churnWorld) listen() {
	s := mad.ServiceID(w.rng.IntN(churnServices))
	n := w.node[1]
	if l := w.listeners[s]; l != nil && w.rng.IntN(2) == 0 {
		l.Close()
		delete(w.listeners, s)
		w.closed.Add(l)
		w.closed.Pick(w.rng).Close() // a second Close: another listener may have the service by now
		return
	}
	l, err := n.m.Listen(s, n.onEvent)
	switch want := error(nil); {
	case w.listeners[s] != nil:
		want = ib.EADDRINUSE
		fallthrough
	case len(w.listeners) == churnServices/2:
		if want == nil {
			want = ib.ENOMEM
		}
		if !errors.Is(err, want) {
			w.t.Fatalf("listener %d of %d: %v, want %v", s, len(w.listeners), err, want)
		}
	default:
		w.must(err)
		w.listeners[s] = l
	}
}

// deliver hands over the oldest message.
func (w *churnWorld) deliver() {
	d := w.wire[0]
	w.wire = w.wire[1:]
	d.to.m.Receive(w.now, &gsi.Received{MAD: &d.mad, From: gsi.Address{
		Local: d.to.addr, Remote: d.to.peer.addr, QPN: ib.QPNGSI, PKey: ib.PKeyDefault,
	}})
}

// part ends some established connection, from either side.
func (n *churnNode) part() {
	if n.ready.Len() == 0 {
		return
	}
	c := n.ready.Take(n.w.rng)
	if n.owned[c] && c.State() == cm.Established && n.w.rng.IntN(2) == 0 {
		n.w.must(c.SendDREQ(n.w.now, nil))
		return
	}
	n.destroy(c)
}

// pass advances the time to an instant, or to the next timer before it.
func (w *churnWorld) pass(to clock.Instant) {
	for _, n := range w.node {
		to = min(to, n.m.Deadline())
	}
	w.now = max(w.now, to)
	for _, n := range w.node {
		n.m.Advance(w.now)
		if at := n.m.Deadline(); at <= w.now {
			w.t.Fatalf("after all timers have fired at %v the manager wants to be woken at %v", w.now, at)
		}
	}
}

// same compares the sizes of tables with the model.
func (n *churnNode) same() {
	t := n.w.t
	seen, whole := map[uint32]bool{}, map[*cm.Conn]bool{}
	half, all := 0, 0
	n.m.EachConn(func(c *cm.Conn) {
		all++
		if seen[c.LocalID()] || c.LocalID() == 0 {
			t.Fatalf("two connections with ID %#x", c.LocalID())
		}
		seen[c.LocalID()] = true
		if whole[c] = n.whole[c]; c.Role() == cm.Passive && !whole[c] {
			half++
		}
	})
	n.whole = whole
	if all != n.m.Conns() || half != n.m.HalfOpen() || all > churnConns || half > churnHalfOpen {
		t.Fatalf("%d connections, %d of them half-open; the manager counts %d and %d", all, half, n.m.Conns(), n.m.HalfOpen())
	}
}

// TestChurnConnections connects, refuses, gives up and ends connections in
// disorder, over a wire that loses messages, while listeners come and go and
// both managers are full at times. Their counts are those of their tables, no ID
// names two, no timer is lost, and when no more calls follow, all that is
// left goes, TIMEWAIT at last.
func TestChurnConnections(t *testing.T) {
	w := newChurnWorld(t)
	// A connection is some ten messages and timers, so they are fewer.
	for objects, next := churn.Objects()/10, 0; w.made < objects; {
		switch op := w.rng.IntN(100); {
		case op < 10:
			w.connect()
		case op < 20:
			w.listen()
		case op < 30:
			w.node[w.rng.IntN(2)].part()
		case op < 35:
			w.pass(w.now.Add(time.Duration(w.rng.IntN(int(20 * time.Millisecond)))))
		case len(w.wire) > 0:
			w.deliver()
		}
		if w.made >= next {
			next += 10
			w.node[0].same()
			w.node[1].same()
		}
	}
	w.end()
	t.Logf("%d connections, %d ends of them established", w.made, w.connected)
	if w.connected < w.made/20 {
		t.Error("hardly a connection was established")
	}
}

// end destroys all that consumers hold and waits until it is quiet.
func (w *churnWorld) end() {
	for _, n := range w.node {
		for c := range n.owned {
			n.destroy(c)
		}
	}
	for len(w.wire) > 0 || w.node[0].m.Deadline() != clock.Never || w.node[1].m.Deadline() != clock.Never {
		if len(w.wire) > 0 {
			w.deliver()
		} else {
			w.pass(clock.Never)
		}
	}
	for _, n := range w.node {
		if n.same(); n.m.Conns() != 0 {
			w.t.Errorf("no timer runs, and %d connections are left", n.m.Conns())
		}
	}
}
