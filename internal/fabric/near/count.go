package near

import (
	"errors"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
)

// sent is what a Send has put into rings and not counted yet. So the shared counters change
// once in a Send.
type sent struct{ packets, bytes int }

func (s *sent) add(packets, bytes int) { s.packets, s.bytes = s.packets+packets, s.bytes+bytes }

// countSent counts what was put into rings.
func (p *Port) countSent() {
	if s := &p.sent; s.packets > 0 {
		p.cfg.Counts.Sent(s.packets, s.bytes)
		p.count(fabric.NearSent, s.packets)
		*s = sent{}
	}
}

// countReceived counts packets from rings.
func (p *Port) countReceived(packets, bytes int) {
	p.cfg.Counts.Received(packets, bytes)
	p.count(fabric.NearReceived, packets)
}

// countDropped counts packets for which a ring has no room.
func (p *Port) countDropped(packets int) {
	p.cfg.Counts.Overflows.Add(uint64(packets))
	p.count(fabric.NearDropped, packets)
}

// countInvited counts an invitation that the other process has refused.
func (p *Port) countInvited(err error) {
	if errors.Is(err, meeting.ErrRefused) || errors.Is(err, meeting.ErrUser) || errors.Is(err, meeting.ErrVersion) {
		p.count(fabric.NearRefused, 1)
	}
}

// countMet counts a meeting.
func (p *Port) countMet(r *peer) {
	p.count(fabric.NearMet, 1)
	p.count(fabric.NearPeers, 1)
	p.count(fabric.NearMemory, r.Out.Bytes())
}

// countGarbled counts a meeting that ends because the peer wrote garbage, into either ring.
func (p *Port) countGarbled(r *peer) {
	if !r.garbled {
		r.garbled = true
		p.count(fabric.NearGarbage, 1)
	}
}

// closePeer closes a peer that countMet has counted.
func (p *Port) closePeer(r *peer) error {
	p.count(fabric.NearPeers, -1)
	p.count(fabric.NearMemory, -r.Out.Bytes())
	return r.Close()
}

// count adds to a count; n is negative only for what the port has now.
func (p *Port) count(c fabric.NearCount, n int) { p.cfg.Counts.Near[c].Add(uint64(n)) }
