package near

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/packet"
)

// key identifies a peer by the addresses of both sides and the peer's slot.
type key struct {
	local, remote netip.Addr
	slot          uint8
}

// route determines where packets to a destination go.
type route struct {
	key   key
	peer  *peer         // nil: through the wrapped port
	never bool          // it is this process itself
	next  clock.Instant // of the next invitation, at the earliest
	pause time.Duration // before it
}

const (
	maxRoutes  = 4096                   // destinations that a port remembers
	firstPause = 100 * time.Millisecond // before a process that did not answer is invited again; doubles each time
	mostPause  = 64 * time.Second
	// goodTime is the length of a meeting after which the pause begins again with firstPause. It
	// bounds the meetings if more than MaxPeers processes take each other's place.
	goodTime = 10 * time.Second
)

// again delays the next attempt to meet.
func (t *route) again(now clock.Instant) {
	t.pause = min(max(2*t.pause, firstPause), mostPause)
	t.next = now.Add(t.pause)
}

// routeOf returns the route to a destination.
func (p *Port) routeOf(k key) *route {
	t := p.routes[k]
	if t == nil {
		if len(p.routes) >= maxRoutes {
			p.forgetRoutes()
		}
		t = &route{key: k, never: k.local == k.remote && k.slot == p.cfg.Slot}
		p.routes[k] = t
	}
	return t
}

// forgetRoutes forgets the routes without a peer.
func (p *Port) forgetRoutes() {
	for k, t := range p.routes {
		if t.peer == nil {
			delete(p.routes, k)
		}
	}
	p.last = nil
}

// to returns the peer to whose ring a run goes, or nil if the run takes the wrapped port.
func (p *Port) to(r *fabric.Run) *peer {
	if r.Slot == fabric.NoSlot {
		return nil
	}
	t := p.last
	if t == nil || !t.leadsTo(&r.Path, r.Slot) {
		t = p.routeOf(key{r.Path.Src, r.Path.Dst, r.Slot})
		p.last = t
	}
	if t.peer == nil {
		p.consider(t)
		return nil
	}
	if !t.peer.sends() {
		p.unroute(t.peer)
	}
	return t.peer
}

// toward returns the peer to whose ring packets for a slot go at present, nil if there is none. It
// works after Close, too.
func (p *Port) toward(path *fabric.Path, slot uint8) *peer {
	if slot == fabric.NoSlot {
		return nil
	}
	t := p.last
	if t == nil || !t.leadsTo(path, slot) {
		if t = p.routes[key{path.Src, path.Dst, slot}]; t == nil {
			return nil
		}
		p.last = t
	}
	if t.peer == nil || !t.peer.sends() {
		return nil
	}
	return t.peer
}

// leadsTo reports whether a route is the one to a slot at the end of a path.
func (t *route) leadsTo(path *fabric.Path, slot uint8) bool {
	return t.key.slot == slot && t.key.remote == path.Dst && t.key.local == path.Src
}

// consider invites the process at the end of a route if an invitation is due.
func (p *Port) consider(t *route) {
	if t.never || p.now < t.next {
		return
	}
	t.again(p.now)
	p.system.Invite(t.key.local, meeting.Key{Addr: t.key.remote, Slot: t.key.slot})
}

// Send implements fabric.Port.
func (p *Port) Send(b *fabric.Batch) error {
	if !p.Enter() {
		return fabric.ErrClosed
	}
	defer p.Exit()
	if p.lentTo != b { // what this batch puts into rings goes before
		p.takeAllBack()
	}
	p.now = max(p.now, b.Now)
	p.full.Store(false)
	if p.news.Load() {
		p.mu.Lock()
		p.adopt()
		p.mu.Unlock()
	}
	defer p.publish()
	for {
		runs := b.Pending()
		if len(runs) == 0 {
			return nil
		}
		if r := p.to(&runs[0]); r != nil {
			if !p.put(r, &runs[0]) {
				p.full.Store(true)
				return fabric.ErrBlocked
			}
			b.Sent(1)
			continue
		}
		n := 0
		for n < len(runs) && (n == 0 || p.to(&runs[n]) == nil) {
			if runs[n].Bare { // its peer left after the run was built
				packet.SealRun(&runs[n])
			}
			n++
		}
		if err := b.SendFirst(n, p.Inner.Send); err != nil {
			return err
		}
	}
}

// fullTime is how long a port waits for room in the ring to a peer, which may be waiting for a
// CPU. After fullTime the port drops what it sends to this peer, as a full socket buffer does,
// until there is room, so that other destinations do not wait.
const fullTime = 10 * time.Millisecond

// put puts a run into the ring to its destination, or drops the run. It reports false if the
// port must wait for room, until the peer wakes it or fullTime is over.
func (p *Port) put(r *peer, run *fabric.Run) bool {
	n := len(run.Bytes)
	room := r.Out.Reserve(n, n)
	if room == nil {
		return p.noRoom(r, run)
	}
	if r.blocked {
		r.blocked, r.stopped = false, false
		r.Out.Disarm()
	}
	p.uses++
	r.used = p.uses
	if &room[0] != &run.Bytes[0] { // otherwise the run was built here
		copy(room, run.Bytes)
	}
	r.Out.Commit(n, run.Size, run.Count, tagOf(run))
	p.sent.add(run.Count, n)
	if !r.touched {
		r.touched = true
		p.touched = append(p.touched, r)
	}
	return true
}

// noRoom handles a run for which the ring has no room, with the result of put.
func (p *Port) noRoom(r *peer, run *fabric.Run) bool {
	now := p.system.Now()
	switch {
	case r.Out.Err() != nil:
		p.garbled(r, r.Out.Err())
	case r.stopped || len(run.Bytes) > r.Out.MaxRecord():
	case !r.blocked:
		r.blocked, r.filled = true, now
		return !r.Out.Arm(len(run.Bytes)) && p.put(r, run) // if it does not arm, there is room now
	case now.Sub(r.filled) < fullTime:
		return false
	default:
		r.stopped = true
	}
	r.Out.Drop(run.Count)
	p.countDropped(run.Count)
	return true
}

// publish makes the new records visible, and wakes the peers that sleep.
func (p *Port) publish() {
	for _, r := range p.touched {
		r.touched = false
		if r.Out.Publish() {
			r.wake()
		}
	}
	p.touched = p.touched[:0]
	p.countSent()
}

// The tag of a record contains the fields of the IP header that a path sets, and whether the
// packets have no ICRC.
const (
	hopShift  = 8
	flowShift = 16
	flowMask  = 1<<20 - 1
	tagBare   = 1 << 63
)

func tagOf(r *fabric.Run) uint64 {
	p := &r.Path
	tag := uint64(p.TClass) | uint64(p.HopLimit)<<hopShift | uint64(p.FlowLabel&flowMask)<<flowShift
	if r.Bare {
		tag |= tagBare
	}
	return tag
}
