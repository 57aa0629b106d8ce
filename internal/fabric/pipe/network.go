package pipe

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/lock"
)

// Options are the settings of a Network. A zero field means its default.
type Options struct {
	QueueBytes  int // maximum size of a port's queue, including bookkeeping; default 1 MiB
	MTU         int // bytes of the largest segment; default 65507, as on Linux's loopback
	MaxSegments int // segments of a run; default 64
}

// Defaults of Options.
const (
	defaultQueue    = 1 << 20
	defaultMTU      = 65507
	defaultSegments = 64
)

// maxRunBytes bounds a run as an IPv4 datagram would.
const maxRunBytes = 65507

// Network connects ports of one process. All methods are safe for concurrent
// use.
type Network struct {
	opts Options

	mu     lock.RWMutex[lock.PipeNetwork] // guards what follows, and the groups of each port
	ports  map[netip.Addr]*Port
	groups map[netip.Addr][]*Port // in the order in which they joined
}

// NewNetwork returns a network without ports.
func NewNetwork(o Options) *Network {
	o.QueueBytes = cmp.Or(max(o.QueueBytes, 0), defaultQueue)
	o.MTU = cmp.Or(max(o.MTU, 0), defaultMTU)
	o.MaxSegments = cmp.Or(max(o.MaxSegments, 0), defaultSegments)
	return &Network{opts: o, ports: make(map[netip.Addr]*Port), groups: make(map[netip.Addr][]*Port)}
}

// Port attaches a port with the given addresses, IPv4 or IPv6, in the order of
// the GID table. Zones are dropped and v4-mapped addresses become IPv4. It
// fails when an address is unspecified or multicast, or belongs to a port that
// is open.
func (n *Network) Port(addrs ...netip.Addr) (*Port, error) {
	if len(addrs) == 0 {
		return nil, errors.New("pipe: a port needs an address")
	}
	own := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		own[i] = a.Unmap().WithZone("")
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			return nil, fmt.Errorf("pipe: %v is not the address of a port", a)
		}
	}
	p := newPort(n, own)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, a := range own {
		if n.ports[a] == nil {
			n.ports[a] = p
			continue
		}
		for _, undo := range own[:i] {
			delete(n.ports, undo)
		}
		return nil, fmt.Errorf("pipe: address %v: %w", a, ib.EADDRINUSE)
	}
	return p, nil
}

// detach frees the addresses of p and removes it from its groups.
func (n *Network) detach(p *Port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range p.caps.Addrs {
		delete(n.ports, a)
	}
	for a := range n.groups {
		n.drop(a, p)
	}
}

// drop removes p from a group, if it is a member. The mutex is held.
func (n *Network) drop(group netip.Addr, p *Port) {
	left := slices.DeleteFunc(n.groups[group], func(o *Port) bool { return o == p })
	if n.groups[group] = left; len(left) == 0 {
		delete(n.groups, group)
	}
}

// deliver puts a run into the queue of its destination port, or of every port
// of its group. It reports false if no port has the unicast address.
func (n *Network) deliver(r *fabric.Run) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if p := n.ports[r.Path.Dst]; p != nil {
		p.arrive(r)
		return true
	}
	for _, p := range n.groups[r.Path.Dst] {
		p.arrive(r)
	}
	return r.Path.Dst.IsMulticast()
}

// caps returns the capabilities of a port with these addresses.
func (n *Network) caps(addrs []netip.Addr) fabric.Caps {
	return fabric.Caps{
		Name:        "pipe",
		Addrs:       addrs,
		MTU:         n.opts.MTU,
		MaxSegments: n.opts.MaxSegments,
		MaxRunBytes: maxRunBytes,
		GRO:         true,
		RecvBuffer:  n.opts.QueueBytes,
		Verify:      fabric.VerifyFull,
	}
}
