package script

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// connections are the connections of the adapter's manager.
type connections struct {
	*world
	all     []*connection
	talking *connection // the connection whose peer message is being delivered
	managed managed     // counters as of the last step
}

// connection is a connection, or a SIDR resolution, by its name: the adapter's
// side and the side of the peer, which the script plays.
type connection struct {
	of     *connections
	name   string
	conn   *cm.Conn // the adapter's side; nil until there is one
	id     uint32   // its last known communication ID
	over   bool     // its consumer has destroyed it
	qp     *pair    // nil for none
	eec    *pair    // RD: its EE context, nil for none
	rd     bool     // of service RD
	byHand bool     // the script moves the queue pair
	state  cm.State // as last shown
	lap    cm.LAPState

	peer    node
	service mad.ServiceID
	tids    tids
	sent    map[mad.AttrID]mad.MAD // the last message of each kind from the adapter
	got     map[mad.AttrID]mad.MAD // and from the peer
}

// node is the peer's side.
type node struct {
	id   uint32 // communication ID, or request ID
	qpn  ib.QPN
	guid uint64
	eecn ib.EECN
}

// listening is a listener and how its consumer answers a request at once.
type listening struct {
	l       *cm.Listener
	forgets bool
	refuses bool
}

// Defaults of the peer's connection manager.
const (
	peerCommID  = 0x5000 // and the numbers after it
	peerConnQPN = 0x777780
	peerGUID    = 0x020000fffe000002
	peerAgent   = 7 << 32 // upper half of its transaction IDs
	peerPort    = 7471    // TCP port of its service IDs
	peerQKey    = 0x01234567
)

// addConn names a connection: conn NAME [qp=QP] [eec=EEC] [rd] [by_hand].
func (cs *connections) addConn(a *args) error {
	name := a.word("a name")
	n := len(cs.all) + 1
	c := &connection{
		of: cs, name: name, byHand: a.flag("by_hand"), service: mad.IPServiceID(mad.PSTCP, peerPort),
		peer: node{id: peerCommID + uint32(n), qpn: peerConnQPN + ib.QPN(n), guid: peerGUID},
		sent: map[mad.AttrID]mad.MAD{}, got: map[mad.AttrID]mad.MAD{},
	}
	if a.has("qp") {
		q, err := find[*pair](&cs.registry, a.str("qp", ""))
		if err == nil && q.eec != nil {
			err = fmt.Errorf("%s is an EE context: want a queue pair", q.name)
		}
		if err != nil {
			return err
		}
		c.qp, c.peer.qpn = q, q.attr.DestQPN
	}
	if err := cs.takeRD(a, c, n); err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	cs.all = append(cs.all, c)
	return cs.add(name, c)
}

// addListener takes requests for a service: listen NAME SERVICE [rd]
// [forget|destroy].
func (cs *connections) addListener(a *args) error {
	name := a.word("a name")
	l := &listening{forgets: a.flag("forget"), refuses: a.flag("destroy")}
	rd := a.flag("rd")
	s, err := parseService(a.word("a service"))
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	if l.l, err = cs.HCA.CM().Listen(s, cs.heard); err == nil {
		l.l.Consumer, l.l.RD = l, rd
	}
	return cs.created(name, l, err)
}

// heard is the handler of all connections.
func (cs *connections) heard(now clock.Instant, k *cm.Conn, e *cm.Event) {
	c := cs.known(k)
	cs.settle()
	line := fmt.Sprintf("event %s %v", c.name, e.Type)
	for i := range kinds {
		for _, f := range kinds[i].told(cs.world, e) {
			line += " " + f
		}
	}
	cs.say("%s", line)
	switch l := k.Listener(); {
	case e.Type == cm.REJReceived && c.moves() && c.qp.State() != ib.RESET:
		cs.disconnect(now, c)
	case l != nil && (e.Type == cm.REQReceived || e.Type == cm.SIDRREQReceived):
		cs.prepareQP(now, c)
		cs.decide(now, c, l.Consumer.(*listening))
	}
}

// decide forgets or destroys a new request, as the listener's consumer does.
func (cs *connections) decide(now clock.Instant, c *connection, l *listening) {
	switch {
	case l.forgets:
		cs.cause = "forget"
		c.conn.Forget(now)
		cs.settle()
		c.conn = nil
	case l.refuses:
		cs.cause = "destroy"
		c.over = true
		c.conn.Destroy(now)
	}
}

// known returns the script's connection for one of the adapter. A connection
// that a request of the peer has just made gets the name in the request's
// command, or NAME.2 and so on if that is taken.
func (cs *connections) known(k *cm.Conn) *connection {
	for _, c := range cs.all {
		if c.conn == k {
			return c
		}
	}
	c := cs.talking
	if c == nil || !c.vacant() {
		c = cs.another(c)
	}
	c.conn, c.over, c.state, c.lap = k, false, cm.Idle, cm.LAPIdle
	return c
}

// another adds a connection with the name of an existing one and a number:
// NAME.2 and on.
func (cs *connections) another(c *connection) *connection {
	n := connection{of: cs, name: "conn"}
	if c != nil {
		n = *c
	}
	base := n.name
	for i := 2; cs.objects[n.name] != nil; i++ {
		n.name = fmt.Sprintf("%s.%d", base, i)
	}
	n.eec, n.qp, n.sent, n.got = nil, nil, map[mad.AttrID]mad.MAD{}, map[mad.AttrID]mad.MAD{}
	cs.objects[n.name] = &n
	cs.all = append(cs.all, &n)
	return &n
}

// vacant reports whether the name can be given to another connection of the
// adapter.
func (c *connection) vacant() bool { return c.conn == nil || c.conn.State() == cm.Idle }

// moves reports whether the consumer moves the queue pair as rdma_cm does.
func (c *connection) moves() bool { return c.qp != nil && !c.byHand }

// noteConns shows state changes of connections and their cause.
func (cs *connections) noteConns() {
	for _, c := range cs.all {
		if c.conn == nil {
			continue
		}
		if id := c.conn.LocalID(); id != 0 {
			c.id = id
		}
		if s := c.conn.State(); s != c.state {
			cs.say("%s: %v -> %v (%s)", c.name, c.state, s, cs.cause)
			c.state = s
		}
		if s := c.conn.LAPState(); s != c.lap {
			cs.say("%s: %v -> %v (%s)", c.name, c.lap, s, cs.cause)
			c.lap = s
		}
	}
}

// showConns shows how many connections the manager holds and its next deadline:
// conns.
func (cs *connections) showConns(*args) error {
	cs.flush()
	m := cs.HCA.CM()
	cs.say("connections %d, half open %d", m.Conns(), m.HalfOpen())
	if at := m.Deadline(); at != clock.Never {
		cs.say("next timer in %v", at.Sub(cs.now))
	}
	for _, c := range cs.all {
		if c.conn != nil && c.conn.State() != cm.Idle {
			cs.say("%s %v %v", c.name, c.conn.Role(), c.conn.State())
		}
	}
	return nil
}
