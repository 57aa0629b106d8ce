package pipe

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/fabric"
)

// Port is one attachment to a Network. It implements fabric.Port.
type Port struct {
	net    *Network
	caps   fabric.Caps
	queue  *queue
	timer  *time.Timer   // used by Wait only
	groups fabric.Groups // guarded by the network's mutex

	arrived chan struct{} // holds a token after an arrival
	woken   chan struct{} // holds a token after Wake
	closing chan struct{} // closed by Close
	closed  atomic.Bool

	sentPackets, sentBytes         atomic.Uint64
	receivedPackets, receivedBytes atomic.Uint64
	sendErrors, overflows          atomic.Uint64
}

var _ fabric.Port = (*Port)(nil)

func newPort(n *Network, addrs []netip.Addr) *Port {
	p := &Port{
		net:     n,
		caps:    n.caps(addrs),
		queue:   newQueue(n.opts.QueueBytes),
		timer:   time.NewTimer(time.Hour),
		arrived: make(chan struct{}, 1),
		woken:   make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	p.timer.Stop()
	return p
}

// Caps implements fabric.Port. The caller must not change the addresses.
func (p *Port) Caps() fabric.Caps { return p.caps }

// Send implements fabric.Port. It never returns fabric.ErrBlocked: a run that
// its receiver has no room for is lost, as on a network. A run for an address
// that no port has, or from one that is not this port's, counts as refused;
// one for a group that nobody is in is lost.
func (p *Port) Send(b *fabric.Batch) error {
	if p.closed.Load() {
		return fabric.ErrClosed
	}
	runs := b.Pending()
	for i := range runs {
		p.send(&runs[i])
	}
	b.Sent(len(runs))
	return nil
}

func (p *Port) send(r *fabric.Run) {
	if r.Size > p.caps.MTU || !slices.Contains(p.caps.Addrs, r.Path.Src) || !p.net.deliver(r) {
		p.sendErrors.Add(uint64(r.Count))
		return
	}
	p.sentPackets.Add(uint64(r.Count))
	p.sentBytes.Add(uint64(len(r.Bytes)))
}

// arrive queues a run that somebody sent.
func (p *Port) arrive(r *fabric.Run) {
	if !p.queue.put(r) {
		p.overflows.Add(uint64(r.Count))
		return
	}
	offer(p.arrived)
}

// Join implements fabric.Port. It does not block.
func (p *Port) Join(group netip.Addr) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.closed.Load() {
		return fabric.ErrClosed
	}
	first, err := p.groups.Join(group, p.caps.Addrs)
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	if first {
		p.net.groups[group] = append(p.net.groups[group], p)
	}
	return nil
}

// Leave implements fabric.Port. It does not block.
func (p *Port) Leave(group netip.Addr) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.closed.Load() {
		return fabric.ErrClosed
	}
	last, err := p.groups.Leave(group)
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	if last {
		p.net.drop(group, p)
	}
	return nil
}

// Receive implements fabric.Port.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if p.closed.Load() {
		return 0, fabric.ErrClosed
	}
	n := p.queue.take(ds)
	if n == 0 {
		return 0, nil
	}
	var packets, size int
	for i := range ds[:n] {
		packets += segments(&ds[i])
		size += len(ds[i].Bytes)
	}
	p.receivedPackets.Add(uint64(packets))
	p.receivedBytes.Add(uint64(size))
	return n, nil
}

// segments returns how many packets d is made of.
func segments(d *fabric.Datagram) int {
	if d.Stride == 0 {
		return 1
	}
	return (len(d.Bytes) + d.Stride - 1) / d.Stride
}

// Wait implements fabric.Port. There is always room to send.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	if timeout == 0 {
		runtime.Gosched()
	}
	var expired <-chan time.Time
	if timeout >= 0 {
		p.timer.Reset(timeout)
		defer p.timer.Stop()
		expired = p.timer.C
	}
	arrived := p.arrived
	if !read {
		arrived = nil
	}
	for {
		if p.closed.Load() {
			return fabric.ErrClosed
		}
		if write || (read && !p.queue.empty()) {
			return nil
		}
		select {
		case <-arrived: // perhaps of something received since: look again
		case <-p.woken:
			return nil
		case <-expired:
			return nil
		case <-p.closing:
			return fabric.ErrClosed
		}
	}
}

// Wake implements fabric.Port.
func (p *Port) Wake() { offer(p.woken) }

// Stats implements fabric.Port. Packets that were dropped for want of room at
// the receiver are in the receiver's Overflows.
func (p *Port) Stats() fabric.Stats {
	return fabric.Stats{
		SentPackets:     p.sentPackets.Load(),
		SentBytes:       p.sentBytes.Load(),
		ReceivedPackets: p.receivedPackets.Load(),
		ReceivedBytes:   p.receivedBytes.Load(),
		SendErrors:      p.sendErrors.Load(),
		Overflows:       p.overflows.Load(),
	}
}

// Close implements fabric.Port: the addresses become free, what waits is lost.
// A second Close returns fabric.ErrClosed.
func (p *Port) Close() error {
	if p.closed.Swap(true) {
		return fabric.ErrClosed
	}
	p.net.detach(p)
	close(p.closing)
	return nil
}

// offer leaves a token in c unless one is there already.
func offer(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
