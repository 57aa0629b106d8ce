package near

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/lock"
)

// Inner is the port that a Port wraps.
type Inner interface {
	fabric.Port
	// Watch makes each Wait for something to read also end when a descriptor is readable.
	Watch(fd int)
	// Watched reports whether that descriptor was readable at the end of the last Wait. The
	// goroutine that calls Wait calls it.
	Watched() bool
	// Enter keeps Close from returning until Exit. It returns false after Close.
	Enter() bool
	// Exit undoes Enter.
	Exit()
}

// Config describes a Port.
type Config struct {
	Slot   uint8            // of the port's QPNs
	Secret *identity.Secret // of the user; nil: another user can compute the socket names, and take them
	Counts *fabric.Counts   // of the wrapped port
	Sealed bool             // a wrapper of this Port captures or damages packets, so they need an ICRC
	// Permit returns an error if packets to an address of this host must take the network.
	Permit func(netip.Addr) error
	Log    func(format string, args ...any)
}

// Port sends to processes that it has met through shared memory. It implements fabric.Port.
type Port struct {
	Inner
	cfg    Config
	caps   fabric.Caps
	system System

	// Only the shard's thread uses the fields from here to empty.
	now     clock.Instant // of the last Send, from its batch
	routes  map[key]*route
	last    *route
	lentTo  *fabric.Batch // the batch that may have lent memory
	touched []*peer       // have records that are not published
	sent    sent
	barred  map[pair]*barred
	uses    uint64 // runs that were put into rings, and peers
	calls   uint   // calls of Receive, for networkTurn
	turn    int    // index of the peer to read first
	held    []fabric.Datagram
	inbox   []fabric.Datagram
	sealed  []byte // copies of packets from rings, with an ICRC
	empty   bool   // the last read of the wrapped port found nothing
	read    uint64 // datagrams of the network

	waited atomic.Bool // a Wait has ended since the last read of the wrapped port
	full   atomic.Bool // the last Send found a ring full, and the port must wait
	news   atomic.Bool // arrived is not empty, or a peer is gone or drained

	mu      lock.Mutex[lock.Near] // guards what follows, and the rings from all peers
	peers   []*peer
	arrived []*peer // met, but not in peers yet
	ids     int32   // the number of the last peer
	closed  bool
}

var _ fabric.Port = (*Port)(nil)

// New returns a port that wraps p. It owns p and the system.
func New(p Inner, c Config, s System) *Port {
	n := &Port{Inner: p, cfg: c, caps: p.Caps(), system: s, routes: make(map[key]*route), inbox: make([]fabric.Datagram, inboxLen)}
	if !c.Sealed {
		n.caps.Lend = n.lend
	}
	return n
}

// Caps implements fabric.Port.
func (p *Port) Caps() fabric.Caps { return p.caps }

// Close implements fabric.Port.
func (p *Port) Close() error {
	if err := p.Inner.Close(); err != nil {
		return err
	}
	// From here on, no thread is in Send, Receive or Wait.
	p.mu.Lock()
	p.closed = true
	all := append(p.peers, p.arrived...)
	p.peers, p.arrived = nil, nil
	p.mu.Unlock()
	p.takeAllBack()
	err := p.system.Close()
	for _, r := range all {
		r.leave()
		err = errors.Join(err, p.closePeer(r))
	}
	return err
}

// Peer is a process that a port has met.
type Peer struct {
	Local, Remote netip.Addr
	Slot          uint8 // of the remote QPNs
}

// Peers returns the processes that the port has met. Any goroutine may call it.
func (p *Port) Peers() (all []Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.peers {
		if r.sends() {
			all = append(all, Peer{r.key.local, r.key.remote, r.key.slot})
		}
	}
	return all
}

// adopt moves the new peers from arrived to peers. The caller is the shard's thread and holds mu.
func (p *Port) adopt() {
	for _, r := range p.arrived {
		p.seat(r)
		p.empty = false // packets that the network brought before the meeting go first
	}
	p.arrived = nil
}

// attend adopts new peers, and closes those whose rings are drained. The caller is Receive, so the
// datagrams of earlier calls, which are in the memory of peers, are no longer used. It holds mu.
func (p *Port) attend() {
	p.news.Store(false)
	p.adopt()
	for i := 0; i < len(p.peers); {
		if p.peers[i].drained {
			p.forget(i)
			continue
		}
		i++
	}
}

// forget closes peer i.
func (p *Port) forget(i int) {
	r := p.peers[i]
	last := len(p.peers) - 1
	p.peers[i], p.peers[last] = p.peers[last], nil
	p.peers = p.peers[:last]
	p.unroute(r)
	if r.barred {
		p.gatherBarred()
	}
	_ = p.closePeer(r) // memory and a socket: no error to report
}

// arm arms all rings before a Wait. It reports false, so that the port does not wait, if there is
// something to read, or a peer to adopt or to close.
func (p *Port) arm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.arrived) > 0 || p.news.Load() {
		return false
	}
	for _, r := range p.peers {
		if !r.In.Arm() && !r.drained {
			return false
		}
	}
	return true
}

// disarm disarms all rings after a Wait.
func (p *Port) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.peers {
		r.In.Disarm()
	}
}

// Wait implements fabric.Port.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	if write && p.full.Load() { // the peer's wake-up when there is room ends only a wait for reading
		write, read = false, true
		if timeout < 0 || timeout > fullTime {
			timeout = fullTime
		}
	}
	if timeout == 0 || !read {
		return p.Inner.Wait(timeout, read, write)
	}
	if !p.Enter() {
		return fabric.ErrClosed
	}
	defer p.Exit()
	defer p.disarm()
	if !p.arm() {
		return nil
	}
	err := p.Inner.Wait(timeout, read, write)
	p.waited.Store(true)
	if p.Watched() {
		p.drainWakes()
	}
	return err
}

// drainWakes takes the wake-ups of the peers.
func (p *Port) drainWakes() {
	ids := p.system.Rung()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		for _, r := range p.peers {
			if r.id == id {
				_ = r.Woken() // the system reports the end
			}
		}
	}
}

// log logs with Config.Log, if there is one.
func (p *Port) log(format string, args ...any) {
	if p.cfg.Log != nil {
		p.cfg.Log(format, args...)
	}
}
