//go:build !portable

package near

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
)

// ringSize is the size in bytes of the ring to each peer.
const ringSize = 1 << 20

// listen makes this process one that others can meet at an address.
func (p *Port) listen(a netip.Addr, generation uint64) {
	h, err := meeting.Listen(meeting.Config{
		Self: meeting.Identity{Addr: a, Slot: p.cfg.Slot, Generation: generation},
		Name: p.name, Ring: ringSize, Permit: p.permit, Met: func(m *meeting.Peer) { p.met(a, m) },
	})
	if err != nil {
		p.log("packets between %s and processes of this host take the network: %v", a, err)
		return
	}
	p.hosts[a] = h
}

// name returns what an address contributes to the names of its processes. Without a secret,
// another user may take the name: then the processes do not meet.
func (p *Port) name(a netip.Addr) string {
	if p.cfg.Secret == nil {
		return fmt.Sprintf("%d/%s", os.Geteuid(), a)
	}
	return p.cfg.Secret.Name(a)
}

// meet begins to meet the process at the end of a route. It does not block.
func (p *Port) meet(k key) {
	h := p.hosts[k.local]
	if h == nil {
		return
	}
	p.work.Go(func() {
		// An error means that packets take the network, as before.
		_ = h.Invite(p.ctx, meeting.Key{Addr: k.remote, Slot: k.slot})
	})
}

// errRemote is the error of a process that gives an address of another host as its own.
var errRemote = errors.New("near: not an address of this host")

// permit returns an error unless an address is one of this host, and packets to it may take
// shared memory.
func (p *Port) permit(a netip.Addr) error {
	if !a.IsLoopback() {
		if _, err := iface.Owner(a); err != nil {
			return fmt.Errorf("%w: %s: %w", errRemote, a, err)
		}
	}
	return p.cfg.Permit(a)
}

// met takes a process that was met. Any goroutine may call it.
func (p *Port) met(at netip.Addr, m *meeting.Peer) {
	r := &peer{Peer: m, key: key{at, m.Identity.Addr, m.Identity.Slot}, fresh: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	r.id = p.ids
	var err error
	if p.closed {
		err = context.Canceled
	}
	if err == nil && len(p.arrived) >= meeting.MaxPeers { // the thread of the shard does not come
		err = unix.EBUSY
	}
	if err == nil {
		err = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, m.FD(), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: r.id})
	}
	if err == nil {
		err = p.watch.add(m.FD(), unix.EPOLLRDHUP, r.id)
	}
	if err == nil && m.Process() >= 0 {
		err = p.watch.add(m.Process(), unix.EPOLLIN, r.id)
	}
	if err != nil {
		_ = m.Close() // the other side sees the end
		return
	}
	p.arrived = append(p.arrived, r)
	p.news.Store(true)
	p.Wake() // a thread that waits arms the new ring, too
}

// seat adds a peer. An earlier one at its place leaves, or the one to which nothing was sent for
// the longest time. The caller is adopt.
func (p *Port) seat(r *peer) {
	n, left := 0, 0
	var idle, gone *peer
	for _, old := range p.peers {
		switch {
		case !old.sends():
			left, gone = left+1, old
		case old.key == r.key:
			old.leave()
		default:
			if n++; idle == nil || old.used < idle.used {
				idle = old
			}
		}
	}
	if n >= meeting.MaxPeers {
		p.unroute(idle)
	}
	if left >= meeting.MaxPeers { // one that this process has left does not close its side
		p.end(gone)
	}
	p.uses++
	r.used = p.uses
	p.peers = append(p.peers, r)
	p.routeOf(r.key).peer = r
}

// unroute sends nothing more to a peer through memory.
func (p *Port) unroute(r *peer) {
	r.leave()
	if t := p.routes[r.key]; t != nil && t.peer == r {
		t.peer = nil
		t.again(time.Now())
	}
}

// end notes that a peer has ended. Any goroutine may call it.
func (p *Port) end(r *peer) {
	r.gone.Store(true)
	p.news.Store(true)
	p.Wake()
}

// ended ends the meeting with a peer whose socket or process has ended. The socket would end every Wait.
func (p *Port) ended(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range [][]*peer{p.peers, p.arrived} {
		for _, r := range list {
			if r.id == id {
				_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, r.FD(), nil) // it is in the set
				p.end(r)
			}
		}
	}
}

// garbled ends the meeting with a peer that wrote garbage.
func (p *Port) garbled(r *peer, err error) {
	p.log("the process with slot %d at %s writes garbage into shared memory: %v", r.key.slot, r.key.remote, err)
	p.end(r)
}
