package cm

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// Limits bound what a manager holds.
type Limits struct {
	// MaxConns bounds the connections and resolutions in any state. Those in
	// TIMEWAIT give way, the oldest first.
	MaxConns     int
	MaxListeners int
	// MaxHalfOpen bounds the connections that a peer has asked for and that are
	// not established; one address may have three quarters of them. When there
	// are as many and another peer asks, one whose peer is silent is given up: of
	// the address that has the most the oldest, of the peer's own address only
	// one that is overdue. One that the consumer has not decided on stays: how
	// many those are is its to bound.
	MaxHalfOpen int
}

// DefaultLimits returns the limits of a manager that sets none.
func DefaultLimits() Limits {
	return Limits{MaxConns: 1 << 17, MaxListeners: 1 << 12, MaxHalfOpen: 1 << 14}
}

// Config says what a manager is made of.
type Config struct {
	GUID     uint64        // of this node
	AckDelay uint8         // 5-bit code of the time our adapter takes to acknowledge; 0 takes Linux rxe's 15
	Rand     func() uint32 // unpredictable in production, seeded in simulation
	MTU      ib.MTU        // the largest path MTU of the port
	PKeys    []ib.PKey     // of the port's table; empty takes the default partition
	Addrs    []netip.Addr  // of the port, in the order of its GID table
	// Slot, if not 0, is the upper byte of every communication ID: where processes
	// share an address, it tells whose a message is.
	Slot uint8
	// Shared makes it so for slot 0, too.
	Shared bool
	// TID makes the transaction ID of a request from a communication ID.
	TID func(id uint32) uint64
	// Send takes one MAD for the wire and copies it. An error is a lost packet.
	Send func(now clock.Instant, to gsi.Address, m *mad.MAD) error
	// Answer is Send for what a flood of requests makes us send in any number
	// and peers ask for again; nil takes Send.
	Answer func(now clock.Instant, to gsi.Address, m *mad.MAD) error
	// ChannelUsable reports whether the EE context of a reliable datagram channel
	// works, so that another connection may join it; nil: it always does.
	ChannelUsable func(*Channel) bool
	// ChannelDown ends the EE context of a channel that nobody uses any more; nil
	// leaves that to the consumer. It must not call verbs of connections.
	ChannelDown func(now clock.Instant, h *Channel)
	// Challenge finds out whether the peer of a queue pair of ours, of the connection that has
	// it, is alive: by requests on the path of the queue pair that a live peer must
	// acknowledge. It calls done once with the outcome, on the thread that holds the shard and
	// not before it returns; a queue pair that is moved or destroyed meanwhile may leave that
	// out. It reports false, and does not call done, if the queue pair cannot be asked: it is
	// not of RC, not in RTS, or not there. nil: a message that shows a connection to be
	// forgotten by its peer is believed at once.
	Challenge func(now clock.Instant, n ib.QPN, done func(now clock.Instant, alive bool)) bool
	// ListenGrace is how long a request for a service waits for somebody to listen,
	// before it is refused; 0: it is refused at once.
	ListenGrace time.Duration
	Limits      Limits
}

// rxeAckDelay is local_ca_ack_delay of Linux rxe.
const rxeAckDelay = 15

// Manager holds the connections and listeners of an adapter.
type Manager struct {
	cfg           Config
	local         map[uint32]*Conn
	peers         map[peerKey]*Conn
	qps           map[qpKey]*Conn // whose peers have answered
	sidr          map[sidrKey]*Conn
	channels      map[ib.EECN]*Channel // by our EE context, in any state
	far           map[farEnd]*Channel  // by the peer's, once it has answered and unless they are down
	listeners     map[mad.ServiceID]*Listener
	early         Early[*request]
	timers        deadline.Heap[Conn]
	exams         deadline.Heap[examination]
	challenges    uint64 // ever made
	remembered    uint64 // connections, ever
	halfOpen      int
	half          map[netip.Addr]int         // half-open connections by peer
	silent        map[silentKey]*silentGroup // those of them that wait for RTU or are in Timewait
	largest       deadline.Heap[silentGroup] // the same, the largest group first
	evictTimewait evictionList               // the others in Timewait
	evicting      bool                       // one of them
	counters      Counters
}

// peerKeyOf names a connection as its peer does: repeated REQs and REPs are known
// by it.
type peerKey struct {
	id   uint32
	guid uint64
	addr netip.Addr
}

// qpKeyOf names the peer's QP: a connection whose QP turns up anew is stale.
type qpKey struct {
	qpn  ib.QPN
	guid uint64
	addr netip.Addr
}

// sidrKey names a resolution that the consumer has not answered.
type sidrKey struct {
	id   uint32
	addr netip.Addr
}

// New returns a manager without connections.
func New(c Config) *Manager {
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if len(c.PKeys) == 0 {
		c.PKeys = []ib.PKey{ib.PKeyDefault}
	}
	if c.Answer == nil {
		c.Answer = c.Send
	}
	c.AckDelay = cmp.Or(c.AckDelay, rxeAckDelay)
	return &Manager{
		cfg: c, local: make(map[uint32]*Conn), peers: make(map[peerKey]*Conn), qps: make(map[qpKey]*Conn),
		sidr: make(map[sidrKey]*Conn), listeners: make(map[mad.ServiceID]*Listener),
		channels: make(map[ib.EECN]*Channel), far: make(map[farEnd]*Channel), half: make(map[netip.Addr]int),
		silent: make(map[silentKey]*silentGroup), largest: newGroups(func(g *silentGroup) *deadline.Link { return &g.ofAll }),
		exams:  deadline.New(func(e *examination) *deadline.Link { return &e.timer }),
		timers: deadline.New(func(c *Conn) *deadline.Link { return &c.timer }), early: Early[*request]{Grace: c.ListenGrace},
	}
}

// NewConn returns a connection in Idle. It costs nothing until a verb sends.
func (m *Manager) NewConn(h Handler) *Conn { return &Conn{m: m, handler: h} }

// Conns returns the number of connections and resolutions that the manager
// holds, those in Timewait and those that the consumer has destroyed but the
// protocol not among them. Of one in Idle it knows nothing.
func (m *Manager) Conns() int { return len(m.local) + len(m.sidr) }

// HalfOpen returns the number of those that a peer has asked for and that were
// never established. One that fails is among them until its Timewait is over:
// no peer shall fill the manager with failures.
func (m *Manager) HalfOpen() int { return m.halfOpen }

// EachConn calls f for every connection, in no order.
func (m *Manager) EachConn(f func(*Conn)) {
	for _, c := range m.local {
		f(c)
	}
	for _, c := range m.sidr {
		f(c)
	}
}

// Counters returns the counts so far.
func (m *Manager) Counters() Counters { return m.counters }

func (m *Manager) psn() ib.PSN { return ib.NewPSN(m.cfg.Rand()) }

// drawn bounds the draws of a communication ID. With the most connections that
// a manager may hold, one draw fails in 2^15 times.
const drawn = 64

// newID returns a communication ID that no connection has.
func (m *Manager) newID(now clock.Instant) (uint32, error) {
	if !m.makeRoom(now) {
		return 0, fmt.Errorf("%d connections are all there can be: %w", m.Conns(), ib.ENOMEM)
	}
	for range drawn {
		if id := m.cfg.inSlot(m.cfg.Rand()); id != 0 && m.local[id] == nil {
			return id, nil
		}
	}
	return 0, fmt.Errorf("no communication ID was found: %w", ib.ENOMEM)
}

// inSlot returns id in the slot of this process.
func (c *Config) inSlot(id uint32) uint32 {
	if c.Slot == 0 && !c.Shared {
		return id
	}
	return uint32(c.Slot)<<24 | id&0xffffff
}

// remember makes a connection known by its peer's ID.
func (m *Manager) remember(c *Conn) {
	m.peers[peerKeyOf(c)] = c
	m.remembered++
	c.serial = m.remembered
}

func peerKeyOf(c *Conn) peerKey { return peerKey{c.remoteID, c.guid, c.to.Remote} }
func qpKeyOf(c *Conn) qpKey     { return qpKey{c.ep.remoteQPN, c.guid, c.to.Remote} }

// forgetQP makes the peer's QP free for another connection.
func (c *Conn) forgetQP() {
	if c.m.qps[qpKeyOf(c)] == c {
		delete(c.m.qps, qpKeyOf(c))
	}
}

// forgetPeer makes the peer's ID free as well.
func (c *Conn) forgetPeer() {
	c.forgetQP()
	if c.m.peers[peerKeyOf(c)] == c {
		delete(c.m.peers, peerKeyOf(c))
	}
	if k := (sidrKey{c.remoteID, c.to.Remote}); c.m.sidr[k] == c {
		delete(c.m.sidr, k)
	}
}

// free takes a connection out of the manager, which knows nothing of one in
// Idle.
func (m *Manager) free(now clock.Instant, c *Conn) {
	c.forgetPeer()
	c.channel.release(now, c)
	c.stopTimer()
	unlist(m, c)
	m.leaveHalfOpen(c)
	c.sent, c.answer = nil, nil
	if m.local[c.localID] == c {
		delete(m.local, c.localID)
	}
}

// transmit sends a MAD and counts it.
func (m *Manager) transmit(now clock.Instant, to gsi.Address, d *mad.MAD) {
	m.sent(m.cfg.Send(now, to, d), d)
}

// reply is transmit for what a peer can have us send as often as it likes, and
// asks for again if it is lost.
func (m *Manager) reply(now clock.Instant, to gsi.Address, d *mad.MAD) {
	m.sent(m.cfg.Answer(now, to, d), d)
}

func (m *Manager) sent(err error, d *mad.MAD) {
	if err != nil {
		m.counters.Unsent++
		return
	}
	m.counters.Sent[kindOf(d)]++
}

func (m *Manager) retried(d *mad.MAD) { m.counters.Retries[kindOf(d)]++ }

// sgid returns the place of a local address in the GID table.
func (c *Config) sgid(a netip.Addr) (uint8, bool) {
	i := slices.Index(c.Addrs, a)
	return uint8(max(i, 0)), i >= 0
}
