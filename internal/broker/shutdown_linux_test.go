//go:build !portable

package broker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// The addresses of a broker, of a peer and of a third host, and the slot of a member.
var (
	ourAddr   = netip.AddrFrom4([4]byte{10, 0, 0, 1})
	peerAddr  = netip.AddrFrom4([4]byte{10, 0, 0, 2})
	otherAddr = netip.AddrFrom4([4]byte{10, 0, 0, 3})
)

const goneSlot = 3

// disconnectRig is a router with a member in goneSlot, in virtual time.
type disconnectRig struct {
	t         *testing.T
	r         *router
	connTable *connTable
	now       clock.Instant
	tid       uint64
}

func newDisconnectRig(t *testing.T) *disconnectRig {
	t.Helper()
	l, err := newConnTable()
	must.Do(t, err)
	t.Cleanup(func() { closeAll([]int{l.fd}) })
	p := &disconnectRig{t: t, r: newRouter(l), connTable: l}
	p.r.join(goneSlot)
	p.r.claim(goneSlot, service)
	return p
}

// comes has a message come from an address, with the next transaction ID.
func (p *disconnectRig) comes(from netip.Addr, attr mad.AttrID, msg interface{ Put(*mad.MAD) }) {
	p.tid++
	var m mad.MAD
	m.PutHeader(mad.CMHeader(attr, p.tid))
	msg.Put(&m)
	p.r.route(p.now, &m, &gsi.Address{Local: ourAddr, Remote: from})
}

// connected has the member be connected to a peer, with IDs that end alike.
func (p *disconnectRig) connected(from netip.Addr, n uint32) {
	p.comes(from, mad.AttrREQ, reqFor(service, n))
	p.comes(from, mad.AttrRTU, &mad.RTU{LocalCommID: n, RemoteCommID: goneSlot<<24 | n})
}

// dies returns what the peers hear of the member's death, a word for each.
func (p *disconnectRig) dies() string { return hear(p.r.leave(p.now, goneSlot)) }

func hear(left []*connection) string {
	var words []string
	for _, c := range left {
		switch {
		case c.ending.asked:
			words = append(words, fmt.Sprintf("DREP %d to %d", c.ending.tid, c.key.id))
		case c.localID != 0:
			words = append(words, fmt.Sprintf("DREQ to %d", c.key.id))
		default:
			words = append(words, fmt.Sprintf("REJ to %d", c.key.id))
		}
	}
	return strings.Join(words, ", ")
}

// parted is the messages before the death of a member that is connected to a peer, and
// the messages that the peer gets then.
type parted struct {
	what  string
	peer  netip.Addr
	then  func(p *disconnectRig)
	hears string
}

// run shows it.
func (c *parted) run(t *testing.T) {
	p := newDisconnectRig(t)
	p.connected(c.peer, 7)
	c.then(p)
	if got := p.dies(); got != c.hears {
		t.Errorf("the peer hears %q, want %q", got, c.hears)
	}
	if n := len(p.r.remote) + len(p.r.local); n != 0 {
		t.Errorf("%d entries are left of the dead", n)
	}
	if all, err := p.connTable.connections(p.now, goneSlot); err != nil || len(all) != 0 {
		t.Errorf("the connTable has %d of the dead (%v)", len(all), err)
	}
}

// TestParting shows what a peer that has sent DREQ gets when the member dies before it
// answers: a DREP, unless it is known to have one or not to need it.
func TestParting(t *testing.T) {
	const ours = goneSlot<<24 | 7
	dreq := &mad.DREQ{LocalCommID: 7, RemoteCommID: ours}
	drep := &mad.DREP{LocalCommID: ours, RemoteCommID: 7}
	for _, c := range []parted{
		{"nothing has come from the peer", peerAddr, func(*disconnectRig) {}, "DREQ to 7"},
		{"the peer has ended it", peerAddr, func(p *disconnectRig) { p.comes(peerAddr, mad.AttrDREQ, dreq) }, "DREP 3 to 7"},
		{"and says so again", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.now = p.now.Add(askedTime)
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.now = p.now.Add(askedTime)
		}, "DREP 4 to 7"},
		{"long ago", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.now = p.now.Add(askedTime + 1)
		}, ""},
		{"it has answered", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREP, &mad.DREP{LocalCommID: 7, RemoteCommID: ours})
		}, ""},
		{"both have ended it, and it has answered", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrDREP, &mad.DREP{LocalCommID: 7, RemoteCommID: ours})
		}, ""},
		{"the member has answered a peer on its own address", ourAddr, func(p *disconnectRig) {
			p.comes(ourAddr, mad.AttrDREQ, dreq)
			p.comes(ourAddr, mad.AttrDREP, drep)
		}, ""},
		{"the peer knows nothing of it any more", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrREJ, &mad.REJ{LocalCommID: 7, RemoteCommID: ours, Message: mad.WhichOther})
		}, ""},
		{"the peer asks for another one, under the same ID", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrREQ, reqFor(service, 7))
		}, "REJ to 7"},
		{"and has it, though our ID is the same", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.connected(peerAddr, 7)
		}, "DREQ to 7"},
		{"of nobody", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrREQ, reqFor(service+1, 7))
		}, ""},
		{"the peer accepts one, under the same ID", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrREP, &mad.REP{LocalCommID: 7, RemoteCommID: ours + 1})
		}, "DREQ to 7"},
		{"the member's ID is that of its next connection", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrREQ, reqFor(service, 8))
			p.comes(peerAddr, mad.AttrRTU, &mad.RTU{LocalCommID: 8, RemoteCommID: ours})
		}, "DREQ to 8"},
	} {
		t.Run(c.what, c.run)
	}
}

// TestPartingStrangers shows that messages from other addresses, or with only one of a
// connection's IDs, do not change what the peer gets.
func TestPartingStrangers(t *testing.T) {
	const ours = goneSlot<<24 | 7
	dreq := &mad.DREQ{LocalCommID: 7, RemoteCommID: ours}
	drep := &mad.DREP{LocalCommID: ours, RemoteCommID: 7}
	for _, c := range []parted{
		{"a stranger ends it", peerAddr, func(p *disconnectRig) { p.comes(otherAddr, mad.AttrDREQ, dreq) }, "DREQ to 7"},
		{"a stranger answers for the peer", peerAddr, func(p *disconnectRig) {
			p.comes(otherAddr, mad.AttrDREP, &mad.DREP{LocalCommID: 7, RemoteCommID: ours})
		}, "DREQ to 7"},
		{"who does not know our ID", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, &mad.DREQ{LocalCommID: 7, RemoteCommID: ours + 1})
			p.comes(peerAddr, mad.AttrDREP, &mad.DREP{LocalCommID: 7, RemoteCommID: ours + 1})
		}, "DREQ to 7"},
		{"who does not know the peer's ID", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, &mad.DREQ{LocalCommID: 8, RemoteCommID: ours})
			p.comes(peerAddr, mad.AttrDREP, &mad.DREP{LocalCommID: 8, RemoteCommID: ours})
		}, "DREQ to 7"},
		{"who names another member's connection", peerAddr, func(p *disconnectRig) {
			p.r.join(goneSlot + 1)
			p.comes(peerAddr, mad.AttrDREQ, &mad.DREQ{LocalCommID: 7, RemoteCommID: (goneSlot+1)<<24 | 7})
		}, "DREQ to 7"},
		{"a stranger answers for the member", peerAddr, func(p *disconnectRig) {
			p.comes(peerAddr, mad.AttrDREQ, dreq)
			p.comes(peerAddr, mad.AttrDREP, drep)
			p.comes(otherAddr, mad.AttrDREP, drep)
			p.comes(ourAddr, mad.AttrDREP, drep) // to another peer than this one
		}, "DREP 3 to 7"},
		{"or does not know whom", ourAddr, func(p *disconnectRig) {
			p.comes(ourAddr, mad.AttrDREQ, dreq)
			p.comes(ourAddr, mad.AttrDREP, &mad.DREP{LocalCommID: ours, RemoteCommID: 8})
		}, "DREP 3 to 7"},
		{"a DREP before anybody has ended it, in the member's name", ourAddr, func(p *disconnectRig) {
			p.comes(ourAddr, mad.AttrDREP, drep)
		}, "DREQ to 7"},
	} {
		t.Run(c.what, c.run)
	}
}

// TestPartingBeforeRTU has a peer end a connection whose RTU was lost: its DREQ is the
// first that tells our ID. One that names another's ID ends nothing.
func TestPartingBeforeRTU(t *testing.T) {
	p := newDisconnectRig(t)
	p.connected(peerAddr, 1)
	for _, n := range []uint32{2, 3} {
		p.comes(peerAddr, mad.AttrREQ, reqFor(service, n))
	}
	p.comes(peerAddr, mad.AttrDREQ, &mad.DREQ{LocalCommID: 2, RemoteCommID: goneSlot<<24 | 2})
	p.comes(peerAddr, mad.AttrDREQ, &mad.DREQ{LocalCommID: 3, RemoteCommID: goneSlot<<24 | 1})
	if got := p.dies(); got != "DREQ to 1, DREP 5 to 2, REJ to 3" {
		t.Errorf("the peers hear %q", got)
	}
}

// TestAskedHostDies sends DREQs to the host, which dies before it answers: the next
// host answers.
func TestAskedHostDies(t *testing.T) {
	a := freeAddress(t)
	p, x := peerOf(t, a), enter(t, a)
	must.Do(t, x.Claim(service))
	enter(t, a)
	asked(t, p, x, service, 1)
	own := uint32(x.Slot)<<24 | 1
	p.send(mad.AttrRTU, &mad.RTU{LocalCommID: 1, RemoteCommID: own})
	p.send(mad.AttrDREQ, &mad.DREQ{LocalCommID: 1, RemoteCommID: own})
	want := p.tid
	for range 2 {
		receive(t, x.port)
	}
	began := time.Now()
	x.die()
	m, _ := receive(t, p.port)
	var d mad.DREP
	d.Decode(m)
	if h := m.Header(); h.AttrID != mad.AttrDREP || h.TID != want || d.LocalCommID != own || d.RemoteCommID != 1 || time.Since(began) > runnable(t)*toldLimit {
		t.Errorf("%s comes after %v", mad.Describe(m), time.Since(began))
	}
}

// TestDisconnectIsThePeersToEnd has strangers forge answers of a dead member's peer:
// the broker repeats the DREQ until the peer itself answers.
func TestDisconnectIsThePeersToEnd(t *testing.T) {
	b := serve(t, 2)
	p, x := newPeer(t, b), join(t, b)
	own := uint32(x.Slot)<<24 | 1
	p.send(mad.AttrREP, &mad.REP{LocalCommID: 20, RemoteCommID: own})
	receive(t, x.port)
	x.die()
	d := expect(t, p.port, mad.AttrDREQ, &mad.DREQ{})
	var before, after, ended bool
	must.Do(t, b.engine.do(func(now clock.Instant) {
		before = b.engine.disconnecting[own] != nil
		var m mad.MAD
		m.PutHeader(mad.CMHeader(mad.AttrDREP, 1))
		(&mad.DREP{LocalCommID: d.RemoteCommID, RemoteCommID: d.LocalCommID}).Put(&m)
		b.engine.heard(now, &m, &gsi.Address{Remote: otherAddr})
		(&mad.DREP{LocalCommID: d.RemoteCommID + 1, RemoteCommID: d.LocalCommID}).Put(&m)
		b.engine.heard(now, &m, &gsi.Address{Remote: p.port.Caps().Addrs[0]})
		after = b.engine.disconnecting[own] != nil
		(&mad.DREP{LocalCommID: d.RemoteCommID, RemoteCommID: d.LocalCommID}).Put(&m)
		b.engine.heard(now, &m, &gsi.Address{Remote: p.port.Caps().Addrs[0]})
		ended = b.engine.disconnecting[own] == nil
	}))
	if before && !after { // on a busy machine all may have been sent before
		t.Error("a stranger's answer has ended the disconnect")
	}
	if !ended {
		t.Error("the peer's answer has not ended the disconnect")
	}
}
