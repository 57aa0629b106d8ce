//go:build !portable

package broker

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// peersOf returns the number of a slot's connections whose peers would be told that
// the member has ended.
func peersOf(t *testing.T, b *Broker, slot uint8) (all, asked int) {
	t.Helper()
	must.Do(t, b.engine.do(func(clock.Instant) {
		a := b.engine.router.members[slot]
		all, asked = a.known.Len(), a.asked.Len()
	}))
	return all, asked
}

// asksToEnd has a peer connect and ask to end the connection, as the member sees it.
func asksToEnd(t *testing.T, p *peer, x *process, peers uint32) (own uint32) {
	t.Helper()
	own = uint32(x.Slot)<<24 | peers
	p.send(mad.AttrREP, &mad.REP{LocalCommID: peers, RemoteCommID: own})
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: peers, RemoteCommID: own})
	receive(t, x.port)
	receive(t, x.port)
	return own
}

// TestLeave shows that a member which says that it has answered its peers keeps the broker
// from answering them again at its end, but not from disconnecting connected peers.
func TestLeave(t *testing.T) {
	b := serve(t, 2)
	p, x := newPeer(t, b), join(t, b)
	asksToEnd(t, p, x, 1)
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 2, RemoteCommID: uint32(x.Slot)<<24 | 2})
	receive(t, x.port)
	x.Leave()
	x.die()
	if d := expect(t, p.port, mad.AttrDREQ, &mad.DREQ{}); d.RemoteCommID != 2 {
		t.Errorf("%+v", d)
	}
	p.send(mad.AttrDREP, &mad.DREP{LocalCommID: 2, RemoteCommID: uint32(x.Slot)<<24 | 2})
}

// TestNextBrokerAnswers shows that a DREQ which the member had not answered is answered
// though the broker that saw it has ended, too.
func TestNextBrokerAnswers(t *testing.T) {
	b := serve(t, 2)
	p, x := newPeer(t, b), join(t, b)
	join(t, b) // keeps the sockets
	p.tid = 0x12345677fffffffe
	own := asksToEnd(t, p, x, 3)
	asked := p.tid
	must.Do(t, b.Close())
	x.die()
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	m, _ := receive(t, p.port)
	var d mad.DREP
	d.Decode(m)
	if h := m.Header(); h.AttrID != mad.AttrDREP || h.TID != asked || d.RemoteCommID != 3 || d.LocalCommID != own {
		t.Errorf("%s came, not an answer to %#x", mad.Describe(m), asked)
	}
}

// A DREQ that names other IDs than those of a connection ends none, nor do a REJ and a
// DREP: any process on the peer's host may send them.
func TestOthersEndNothing(t *testing.T) {
	b := serve(t, 2)
	p, x := newPeer(t, b), join(t, b)
	own := uint32(x.Slot) << 24
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 1, RemoteCommID: own | 1})
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 1, RemoteCommID: own | 9})
	p.send(mad.AttrDREP, &mad.DREP{LocalCommID: 1, RemoteCommID: own | 9})
	p.send(mad.AttrREJ, &mad.REJ{LocalCommID: 9, RemoteCommID: own | 1, Reason: mad.RejConsumer})
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 9, RemoteCommID: own | 1})
	for range 5 {
		receive(t, x.port)
	}
	if all, asked := peersOf(t, b, x.Slot); all != 1 || asked != 0 {
		t.Errorf("%d connections are left, of which %d end", all, asked)
	}
	p.send(mad.AttrREJ, &mad.REJ{RemoteCommID: own | 1, Reason: mad.RejConsumer}) // of a peer that has no ID
	receive(t, x.port)
	if all, _ := peersOf(t, b, x.Slot); all != 0 {
		t.Error("a REJ ends no connection")
	}
}

// asking enters a connection of a member, which its peer asks to end.
func asking(r *router, now clock.Instant, slot uint8, id uint32) {
	var rep, dreq mad.MAD
	from := &gsi.Address{}
	rep.PutHeader(mad.CMHeader(mad.AttrREP, 1))
	(&mad.REP{LocalCommID: id, RemoteCommID: uint32(slot)<<24 | id}).Put(&rep)
	dreq.PutHeader(mad.CMHeader(mad.AttrDREQ, uint64(id)))
	(&mad.DREQ{LocalCommID: id, RemoteCommID: uint32(slot)<<24 | id}).Put(&dreq)
	r.route(now, &rep, from)
	r.route(now, &dreq, from)
}

// nowhere is an unused connection table.
type nowhere struct{}

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// TestAsked shows the bounds of the records of ending connections: their number
// for a member, and their time. A reused ID is another connection.
func TestAsked(t *testing.T) {
	r := newRouter(nowhere{})
	r.join(1)
	for id := range uint32(maxAsked + 10) {
		asking(r, 0, 1, id+1)
	}
	if a := r.members[1]; a.asked.Len() != maxAsked || a.known.Len() != maxAsked || len(r.remote) != maxAsked {
		t.Errorf("%d of %d connections end", a.asked.Len(), a.known.Len())
	}
	late := clock.Instant(askedTime + time.Second)
	asking(r, late, 1, 12) // again
	asking(r, late, 1, 1)  // anew
	left := r.leave(late, 1)
	if len(left) != 2 || left[0].key.id+left[1].key.id != 13 {
		t.Errorf("%d peers are answered that may wait no more", len(left)-2)
	}
	if len(r.remote)+len(r.local) != 0 {
		t.Errorf("%d connections stay", len(r.remote))
	}
}
