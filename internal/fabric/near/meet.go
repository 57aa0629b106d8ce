package near

import (
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
)

// Met takes a process that was met, for the local address. It closes the bell if it refuses the
// process. Any goroutine may call it.
func (p *Port) Met(at netip.Addr, l Link) {
	r := &peer{Link: l, key: key{at, l.Identity.Addr, l.Identity.Slot}, fresh: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	r.id = p.ids
	idle := len(p.arrived) >= meeting.MaxPeers // the thread of the shard does not come
	if p.closed || idle || p.system.Watch(l.Bell, r.id) != nil {
		p.count(fabric.NearRefused, 1)
		_ = l.Close() // the other side sees the end
		return
	}
	p.countMet(r)
	p.arrived = append(p.arrived, r)
	p.news.Store(true)
	p.Wake() // a thread that waits arms the new ring, too
}

// seat adds a peer. An earlier one at its place leaves, or the one to which nothing was sent for
// the longest time. The caller is adopt.
func (p *Port) seat(r *peer) {
	n, left := 0, 0
	var idle, slow *peer
	for _, old := range p.peers {
		switch {
		case old.gone.Load(): // Receive forgets it
		case old.left.Load():
			left, slow = left+1, old
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
		p.end(slow)
	}
	p.uses++
	r.used = p.uses
	r.since, r.before = p.system.Now(), p.read
	p.peers = append(p.peers, r)
	p.takeBack(r) // from the earlier one
	p.routeOf(r.key).peer = r
	r.Out.Switch()
}

// unroute sends nothing more to a peer through memory. After a good meeting, the pause before the next
// one begins again with firstPause.
func (p *Port) unroute(r *peer) {
	p.takeBack(r)
	r.leave()
	if t := p.routes[r.key]; t != nil && t.peer == r {
		t.peer = nil
		if !r.garbled && p.system.Now().Sub(r.since) >= goodTime {
			t.pause = 0
		}
		t.again(p.now)
	}
}

// end notes that a peer has ended. Any goroutine may call it.
func (p *Port) end(r *peer) {
	r.gone.Store(true)
	p.news.Store(true)
	p.Wake()
}

// Ended ends the meeting with a peer whose bell or process has ended. Any goroutine may call it.
func (p *Port) Ended(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range [][]*peer{p.peers, p.arrived} {
		for _, r := range list {
			if r.id == id {
				p.system.Unwatch(r.Bell)
				p.end(r)
			}
		}
	}
}

// garbled ends the meeting with a peer that wrote garbage.
func (p *Port) garbled(r *peer, err error) {
	p.countGarbled(r)
	p.log("the process with slot %d at %s writes garbage into shared memory: %v", r.key.slot, r.key.remote, err)
	p.end(r)
}
