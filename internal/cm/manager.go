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
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// Limits bound what a manager holds.
type Limits struct {
	// MaxConns bounds the connections and resolutions in any state. At the
	// bound, new ones evict those in TIMEWAIT, the oldest first.
	MaxConns     int
	MaxListeners int
	// MaxHalfOpen bounds the connections that peers have requested and that are
	// not established; one address may have three quarters of them. At the bound,
	// a new request evicts a connection whose peer is silent: the oldest of the
	// address with the most, but of the requesting address only an overdue one.
	// Connections that the consumer has not accepted or rejected yet are not
	// evicted; the consumer bounds their number.
	MaxHalfOpen int
}

// DefaultLimits returns the limits of a manager that sets none.
func DefaultLimits() Limits {
	return Limits{MaxConns: 1 << 17, MaxListeners: 1 << 12, MaxHalfOpen: 1 << 14}
}

// Config configures a manager.
type Config struct {
	GUID     uint64        // of this node
	AckDelay uint8         // 5-bit code of the adapter's acknowledge delay; 0 means 15, as Linux rxe
	Rand     func() uint32 // unpredictable in production, seeded in simulation
	MTU      ib.MTU        // the largest path MTU of the port
	PKeys    []ib.PKey     // of the port's table; empty means the default partition
	Addrs    []netip.Addr  // of the port, in the order of its GID table
	// Slot, if not 0, is the upper byte of every communication ID: if processes
	// share an address, it identifies the process that a message is for.
	Slot uint8
	// Shared does the same for slot 0.
	Shared bool
	// TID returns the transaction ID for the communication ID of a request.
	TID func(id uint32) uint64
	// Send sends a copy of one MAD. An error counts as a lost packet.
	Send func(now clock.Instant, to gsi.Address, m *mad.MAD) error
	// Answer is Send for answers to requests that a flood may repeat in any
	// number, and that peers repeat if the answer is lost; nil means Send.
	Answer func(now clock.Instant, to gsi.Address, m *mad.MAD) error
	// ChannelUsable reports whether the EE context of a reliable datagram channel
	// is usable, so that another connection may join it; nil: always.
	ChannelUsable func(*Channel) bool
	// ChannelDown ends the EE context of a channel without users; nil leaves that
	// to the consumer. It must not call verbs of connections.
	ChannelDown func(now clock.Instant, h *Channel)
	// Challenge checks whether the peer of a local queue pair is alive, by requests on its
	// path that a live peer must acknowledge. It calls done once with the outcome, on the
	// thread of the manager and not before it returns; if the queue pair changes state
	// or is destroyed meanwhile, done may never be called. Challenge reports false, and does
	// not call done, if the queue pair is not RC, not in RTS, or does not exist. nil: a
	// message that suggests that the peer has forgotten a connection is believed at once.
	Challenge func(now clock.Instant, n ib.QPN, done func(now clock.Instant, alive bool)) bool
	// ListenGrace is how long a request waits for a listener before it is refused;
	// 0: it is refused at once.
	ListenGrace time.Duration
	Limits      Limits
	// RetrySpeedup makes the time between the repetitions of a message that many times shorter than the time before the
	// first, so that a test of failures need not wait; 0: all are equal.
	RetrySpeedup int
	// Reject is called for each request for a connection that a listener is about to get, with its sender. It returns
	// the reason with which the request is rejected instead, 0 if it is not. It must not call the manager. It is a
	// function because the rules for faults are outside of the engine. nil: none is rejected.
	Reject func(from netip.Addr) mad.RejReason
	// PeerRetries is called when the peer's QP is known, with the numbers of both QPs and with how often the
	// peer repeats a request after RNR NAKs. It must not call verbs of connections. nil: nothing is called.
	PeerRetries func(now clock.Instant, local, peer ib.QPN, n uint8)
	// Nasty delays and repeats messages; nil: neither.
	Nasty *nasty.Dice
	Table *restrack.Table // of the adapter's objects; nil for none
	// Trace gets a record of each connection that begins, ends or is refused; nil for none.
	Trace trace.Tracer
}

// rxeAckDelay is local_ca_ack_delay of Linux rxe.
const rxeAckDelay = 15

// Manager holds the connections and listeners of an adapter.
type Manager struct {
	Late

	cfg           Config
	local         map[uint32]*Conn
	peers         map[peerKey]*Conn
	qps           map[qpKey]*Conn // connections whose peers have answered
	sidr          map[sidrKey]*Conn
	channels      map[ib.EECN]*Channel // by local EE context, in any state
	far           map[farEnd]*Channel  // by the peer's EE context, from its answer until they are down
	listeners     map[mad.ServiceID]*Listener
	early         Early[*request]
	timers        deadline.Heap[Conn]
	exams         deadline.Heap[examination]
	challenges    uint64 // total number so far
	remembered    uint64 // total number of connections so far
	halfOpen      int
	half          map[netip.Addr]int         // half-open connections by peer
	silent        map[silentKey]*silentGroup // half-open connections that wait for RTU or are in Timewait
	largest       deadline.Heap[silentGroup] // the same, the largest group first
	evictTimewait evictionList               // other connections in Timewait
	evicting      bool                       // an eviction is in progress
	counters      Counters
	tracked       uint32 // number of listeners that got a row so far
}

// peerKeyOf identifies a connection by the peer's ID, to recognise repeated REQs
// and REPs.
type peerKey struct {
	id   uint32
	guid uint64
	addr netip.Addr
}

// qpKeyOf identifies the peer's QP: if another connection uses it, the older
// one is stale.
type qpKey struct {
	qpn  ib.QPN
	guid uint64
	addr netip.Addr
}

// sidrKey identifies a resolution that the consumer has not answered.
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

// NewConn returns a connection in Idle. It uses no resources of the manager
// until a verb sends.
func (m *Manager) NewConn(h Handler) *Conn { return &Conn{m: m, handler: h} }

// Conns returns the number of connections and resolutions that the manager
// holds, including those in Timewait and those that the consumer has destroyed
// while the protocol still needs them, but not those in Idle.
func (m *Manager) Conns() int { return len(m.local) + len(m.sidr) }

// HalfOpen returns the number of connections that peers requested and that were
// never established. A failed one counts until its Timewait is over, so that
// failures cannot fill the manager.
func (m *Manager) HalfOpen() int { return m.halfOpen }

// EachConn calls f for every connection, in no particular order.
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

// drawn bounds the draws of a communication ID. With the maximum number of
// connections, one draw in 2^15 hits a used ID.
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

// remember registers a connection under its peer's ID.
func (m *Manager) remember(c *Conn) {
	m.peers[peerKeyOf(c)] = c
	m.remembered++
	c.serial = m.remembered
}

func peerKeyOf(c *Conn) peerKey { return peerKey{c.remoteID, c.guid, c.to.Remote} }
func qpKeyOf(c *Conn) qpKey     { return qpKey{c.ep.remoteQPN, c.guid, c.to.Remote} }

// forgetQP frees the peer's QP for another connection.
func (c *Conn) forgetQP() {
	if c.m.qps[qpKeyOf(c)] == c {
		delete(c.m.qps, qpKeyOf(c))
	}
}

// forgetPeer also frees the peer's ID.
func (c *Conn) forgetPeer() {
	c.forgetQP()
	if c.m.peers[peerKeyOf(c)] == c {
		delete(c.m.peers, peerKeyOf(c))
	}
	if k := (sidrKey{c.remoteID, c.to.Remote}); c.m.sidr[k] == c {
		delete(c.m.sidr, k)
	}
}

// free removes a connection from the manager. A connection in Idle is unknown
// to the manager.
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
	c.track.Free()
	c.track = tracked{}
}

// transmit sends a MAD and counts it.
func (m *Manager) transmit(now clock.Instant, to gsi.Address, d *mad.MAD) {
	m.sent(m.cfg.Send(now, to, d), d)
}

// reply is transmit for answers that a peer can provoke at any rate, and
// provokes again if they are lost.
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

// sgid returns the index of a local address in the GID table.
func (c *Config) sgid(a netip.Addr) (uint8, bool) {
	i := slices.Index(c.Addrs, a)
	return uint8(max(i, 0)), i >= 0
}
