package pipe

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/waiter"
)

// Port is one attachment to a Network. It implements fabric.Port. Packets
// dropped because the receiver's queue was full count in the receiver's
// Overflows.
type Port struct {
	fabric.Counts
	*waiter.Waiter
	net    *Network
	caps   fabric.Caps
	queue  *queue
	groups fabric.Groups // guarded by the network's mutex
}

var _ fabric.Port = (*Port)(nil)

func newPort(n *Network, addrs []netip.Addr) *Port {
	return &Port{Waiter: waiter.New(), net: n, caps: n.caps(addrs), queue: newQueue(n.opts.QueueBytes)}
}

// Caps implements fabric.Port. The caller must not change the addresses.
func (p *Port) Caps() fabric.Caps { return p.caps }

// Send implements fabric.Port. It never returns fabric.ErrBlocked: a run that
// does not fit its receiver's queue is lost, as on a network. A run to an
// address of no port, or from an address of another port, counts as refused; a
// run to an empty group is lost.
func (p *Port) Send(b *fabric.Batch) error {
	if p.Closed() {
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
		p.SendErrors.Add(uint64(r.Count))
		return
	}
	p.Sent(r.Count, len(r.Bytes))
}

// arrive queues a run for this port.
func (p *Port) arrive(r *fabric.Run) {
	if !p.queue.put(r) {
		p.Overflows.Add(uint64(r.Count))
		return
	}
	p.Arrived()
}

// Join implements fabric.Port. It does not block.
func (p *Port) Join(group netip.Addr) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.Closed() {
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
	if p.Closed() {
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
	if p.Closed() {
		return 0, fabric.ErrClosed
	}
	n := p.queue.take(ds)
	if n == 0 {
		return 0, nil
	}
	var packets, size int
	for i := range ds[:n] {
		packets += ds[i].Segments()
		size += len(ds[i].Bytes)
	}
	p.Received(packets, size)
	return n, nil
}

// Wait implements fabric.Port. There is always room to send.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	return p.Waiter.Wait(timeout, read, func() bool { return write || read && !p.queue.empty() })
}

// Close implements fabric.Port: the addresses become free, queued runs are
// lost. A second Close returns fabric.ErrClosed.
func (p *Port) Close() error {
	if !p.Shut() {
		return fabric.ErrClosed
	}
	p.net.detach(p)
	return nil
}
