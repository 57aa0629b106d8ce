package cm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// network joins managers in virtual time.
type network struct {
	t     testing.TB
	now   clock.Instant
	nodes []*node
	queue deadline.Heap[packet] // by arrival
	todo  []errand
	sent  int
	// fate returns the delays with which the copies of a packet arrive: none
	// means that it is lost. Nil: one copy after a millisecond.
	fate func(p *packet) []time.Duration
	log  strings.Builder
}

// errand is a deferred action of a consumer.
type errand struct {
	at clock.Instant
	do func()
}

// later calls do after a time.
func (n *network) later(d time.Duration, do func()) {
	n.todo = append(n.todo, errand{n.now.Add(d), do})
}

// node is a manager on the network and its consumer.
type node struct {
	*network
	name    string
	addr    netip.Addr
	m       *Manager
	qpn     ib.QPN // next
	program Handler
	conns   []*Conn // that the consumer knows
	heard   []EventType
}

// packet is a MAD under way.
type packet struct {
	arrival  deadline.Link
	n        int // of all that were ever sent
	from, to *node
	tclass   uint8
	mad      mad.MAD
}

func (p *packet) kind() mad.AttrID { return p.mad.Header().AttrID }

const latency = time.Millisecond

// newNetwork returns two nodes, a and b, with well-behaved consumers.
func newNetwork(t testing.TB) (n *network, a, b *node) {
	n = &network{t: t, queue: deadline.New(func(p *packet) *deadline.Link { return &p.arrival })}
	return n, n.add("a", DefaultLimits()), n.add("b", DefaultLimits())
}

func (n *network) add(name string, l Limits) *node {
	e := &node{network: n, name: name, qpn: 0x100, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(len(n.nodes) + 1)})}
	e.program = e.polite
	n.nodes = append(n.nodes, e)
	e.boot(l, uint64(len(n.nodes)))
	return e
}

// boot gives the node a manager that knows nothing.
func (e *node) boot(l Limits, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	e.conns = nil
	e.m = New(Config{
		GUID: uint64(e.addr.As4()[3]), Rand: rng.Uint32, MTU: ib.MTU4096, Addrs: []netip.Addr{e.addr},
		TID:  func(id uint32) uint64 { return seed<<32 | uint64(id) },
		Send: e.send, Limits: l,
	})
}

func (e *node) send(now clock.Instant, to gsi.Address, m *mad.MAD) error {
	n := e.network
	var dst *node
	for _, o := range n.nodes {
		if o.addr == to.Remote {
			dst = o
		}
	}
	if dst == nil {
		return errors.New("no such node")
	}
	n.sent++
	p := &packet{n: n.sent, from: e, to: dst, tclass: to.TClass, mad: *m}
	delays := []time.Duration{latency}
	if n.fate != nil {
		delays = n.fate(p)
	}
	text := kindText(m)
	if len(delays) == 0 {
		text += ", lost"
	}
	n.note(e, "sends "+text)
	for _, d := range delays {
		copied := *p
		n.queue.Set(&copied, now.Add(d))
	}
	return nil
}

// onEvent is the handler of all connections of the node.
func (e *node) onEvent(now clock.Instant, c *Conn, ev *Event) {
	e.heard = append(e.heard, ev.Type)
	if ev.Type == REQReceived || ev.Type == SIDRREQReceived {
		e.conns = append(e.conns, c)
	}
	e.note(e, "hears "+ev.Type.String())
	e.program(now, c, ev)
}

// note writes a line of the log, which has all events.
func (n *network) note(e *node, what string) {
	fmt.Fprintf(&n.log, "%8.3f %s %s\n", time.Duration(n.now).Seconds(), e.name, what)
}

// polite accepts, finishes and answers whatever it is asked.
func (e *node) polite(now clock.Instant, c *Conn, ev *Event) {
	switch ev.Type {
	case REQReceived:
		e.do(c.SendREP(now, e.repParams()))
	case REPReceived:
		e.do(c.SendRTU(now, nil))
	case DREQReceived:
		e.do(c.SendDREP(now, nil))
	case SIDRREQReceived:
		e.do(c.SendSIDRREP(now, &SIDRREPParams{Status: mad.SIDRValid, QPN: 0x77, QKey: 0x1234567}))
	case LAPReceived:
		e.do(c.SendAPR(now, &APRParams{Status: mad.APRAccepted}))
	}
}

// idle does nothing: the test decides.
func (e *node) idle(clock.Instant, *Conn, *Event) {}

func (n *network) do(err error) {
	n.t.Helper()
	must.Do(n.t, err)
}

func (e *node) nextQPN() ib.QPN {
	e.qpn++
	return e.qpn
}

func (e *node) repParams() *REPParams {
	return &REPParams{QPN: e.nextQPN(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: 7}
}

func (e *node) pathTo(o *node) Path {
	return Path{Local: e.addr, Remote: o.addr, FlowLabel: 0x12345, MTU: ib.MTU1024}
}

func (e *node) reqParams(o *node) *REQParams {
	return &REQParams{
		Service: service, QPN: e.nextQPN(), Path: e.pathTo(o), ResponderResources: 4, InitiatorDepth: 4,
		RetryCount: 7, RNRRetryCount: 7, ResponseTimeout: 20, MaxRetries: 3,
	}
}

func (e *node) listen() *Listener {
	e.t.Helper()
	l, err := e.m.Listen(service, e.onEvent)
	e.do(err)
	return l
}

// ask begins a connection to o.
func (e *node) ask(o *node) *Conn {
	e.t.Helper()
	c := e.m.NewConn(e.onEvent)
	e.conns = append(e.conns, c)
	e.do(c.SendREQ(e.now, e.reqParams(o)))
	return c
}

// connect makes a connection from e to o, which listens, and returns both
// sides. The log forgets it.
func (e *node) connect(o *node) (*Conn, *Conn) {
	e.t.Helper()
	c := e.ask(o)
	e.run(10 * latency)
	d := o.conns[len(o.conns)-1]
	if c.State() != Established || d.State() != Established {
		e.t.Fatalf("states %v and %v after set-up:\n%s", c.State(), d.State(), e.log.String())
	}
	e.log.Reset()
	e.heard, o.heard = nil, nil
	return c, d
}

// next returns the time of the next event.
func (n *network) next() clock.Instant {
	at := n.queue.Next()
	for _, e := range n.nodes {
		at = min(at, e.m.Deadline())
	}
	for _, t := range n.todo {
		at = min(at, t.at)
	}
	return at
}

// step carries out the next event.
func (n *network) step() {
	n.t.Helper()
	n.now = max(n.now, n.next())
	due := slices.IndexFunc(n.todo, func(t errand) bool { return t.at <= n.now })
	if due >= 0 {
		do := n.todo[due].do
		n.todo = slices.Delete(n.todo, due, due+1)
		do()
	} else if p := n.queue.Due(n.now); p != nil {
		p.to.m.Receive(n.now, &gsi.Received{MAD: &p.mad, From: gsi.Address{
			Local: p.to.addr, Remote: p.from.addr, QPN: 1, PKey: ib.PKeyDefault, TClass: p.tclass,
		}})
	} else {
		for _, e := range n.nodes {
			e.m.Advance(n.now)
		}
	}
	for _, e := range n.nodes {
		if err := invariants(e.m); err != nil {
			n.t.Fatalf("%s after\n%s%v", e.name, n.tail(), err)
		}
	}
}

// tail is the end of the log.
func (n *network) tail() string {
	s := n.log.String()
	return s[max(0, len(s)-4000):]
}

// run carries out the events of a time.
func (n *network) run(d time.Duration) {
	n.t.Helper()
	end := n.now.Add(d)
	for n.next() <= end {
		n.step()
	}
	n.now = end
}

// finish carries out events until none is left, within a number of steps that
// no test needs.
func (n *network) finish() {
	n.t.Helper()
	for range 1_000_000 {
		if n.next() == clock.Never {
			return
		}
		n.step()
	}
	n.t.Fatalf("there is no end:\n%s", n.tail())
}

// wantEmpty checks that nothing is left on both nodes.
func (n *network) wantEmpty() {
	n.t.Helper()
	n.finish()
	for _, e := range n.nodes {
		if err := empty(e.m); err != nil || e.m.Conns() != 0 || e.m.HalfOpen() != 0 {
			n.t.Errorf("%s at the end: %d connections, %d half-open, %v", e.name, e.m.Conns(), e.m.HalfOpen(), err)
		}
		for _, c := range e.conns {
			if c.State() != Idle {
				n.t.Errorf("%s at the end: a connection in %v", e.name, c.State())
			}
		}
	}
}

// wantLog compares the log; indentation does not matter.
func (n *network) wantLog(want string) {
	n.t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	var got []string
	for line := range strings.Lines(n.log.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(lines, "\n"); g != w {
		n.t.Errorf("what happened:\n%s\nwhat should:\n%s", g, w)
	}
	n.log.Reset()
}

// drop loses the first count packets of a kind from a node.
func (n *network) drop(e *node, kind mad.AttrID, count int) {
	n.fate = func(p *packet) []time.Duration {
		if p.from == e && p.kind() == kind && count > 0 {
			count--
			return nil
		}
		return []time.Duration{latency}
	}
}
