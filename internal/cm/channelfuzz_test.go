package cm

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// channelFuzzer runs a program of calls, messages and time on connections that
// share channels. Numbers come from a small range, so that they collide.
type channelFuzzer struct {
	*rdRig
	conns    []*Conn
	reaction byte
	depth    int
	down     map[*Channel]bool
	seen     map[*Channel]bool
}

// channelOpSize is the size of an operation: what, to which connection, and with
// what.
const channelOpSize = 3

func newChannelFuzzer(t testing.TB) *channelFuzzer {
	x := &channelFuzzer{rdRig: &rdRig{rig: newLimitedRig(t, Limits{MaxConns: 10, MaxListeners: 1, MaxHalfOpen: 6})}}
	x.rdRig.down = nil
	x.down, x.seen = map[*Channel]bool{}, map[*Channel]bool{}
	x.m.cfg.ChannelUsable = func(*Channel) bool { return !x.failed }
	x.m.cfg.ChannelDown = func(_ clock.Instant, h *Channel) {
		if x.down[h] || len(h.users) != 0 {
			t.Fatalf("the channel of %v ends with %d users, has ended before: %v", h.local, len(h.users), x.down[h])
		}
		x.down[h] = true
	}
	l, err := x.m.Listen(service, x.onEvent)
	x.do(err)
	l.RD = true
	x.conns = append(x.conns, x.m.NewConn(x.onEvent))
	return x
}

// onEvent is the consumer, whose handler does what the program's last operation
// chose.
func (x *channelFuzzer) onEvent(now clock.Instant, c *Conn, e *Event) {
	if e.Type == REQReceived {
		x.conns = append(x.conns, c)
	}
	if x.depth > 2 {
		return
	}
	x.depth++
	defer func() { x.depth-- }()
	switch other := x.conns[int(x.reaction>>3)%len(x.conns)]; x.reaction % 6 {
	case 1:
		c.Destroy(now)
	case 2:
		other.Destroy(now)
	case 3:
		if e.Type == REQReceived {
			c.Forget(now)
		}
	case 4:
		_ = c.SendREP(now, &REPParams{QPN: rigQPN, EECN: ib.EECN(x.reaction>>3)%4 + 1})
	case 5:
		x.open(other.channel, ib.EECN(x.reaction>>3)%4+1)
	}
}

// open asks for a connection over a channel, or a new one.
func (x *channelFuzzer) open(h *Channel, n ib.EECN) {
	p := x.reqParams()
	p.Transport, p.Channel, p.EECN = mad.TransportRD, h, n
	if h != nil {
		p.EECN = 0
	}
	c := x.m.NewConn(x.onEvent)
	if c.SendREQ(x.now, p) == nil {
		x.conns = append(x.conns, c)
	}
}

// asks sends a REQ of the peer, valid except for the errors that the last byte
// chooses.
func (x *channelFuzzer) asks(h *Channel, b byte) {
	q := x.asked(nil)
	q.LocalEECN = uint32(b%4) + 1
	if h != nil {
		q.RDCExists, q.LocalEECN, q.RemoteEECN = true, uint32(h.far.eecn), uint32(h.local)
		if b&0x10 != 0 {
			q.RemoteEECN = uint32(b % 4)
		}
		if b&0x20 != 0 {
			q.LocalCAGUID++
		}
	}
	from := x.peer
	if b&0x40 != 0 {
		from = from.Next()
	}
	q.Primary.LocalGID = ib.GIDFromAddr(from)
	x.receiveFrom(from, mad.AttrREQ, q)
}

func (x *channelFuzzer) run(op [channelOpSize]byte) {
	c, b := x.conns[int(op[1])%len(x.conns)], op[2]
	theirs, ours := c.remoteID, c.localID
	number := ib.QPN(0)
	if c.channel != nil {
		number = ib.QPN(c.channel.local)
	}
	switch op[0] % 17 {
	case 0:
		x.open(nil, ib.EECN(b)%4+1)
	case 1:
		x.open(c.channel, 1)
	case 2:
		x.asks(nil, b)
	case 3:
		x.asks(c.channel, b)
	case 4:
		p := x.answer(c)
		if p.LocalEECN = uint32(b)%4 + 1; c.joins && c.channel != nil && b&0x80 == 0 {
			p.LocalEECN = uint32(c.channel.far.eecn)
		}
		x.receive(mad.AttrREP, p)
	case 5:
		_ = c.SendRTU(x.now, nil)
	case 6:
		_ = c.SendREP(x.now, &REPParams{QPN: rigQPN, EECN: ib.EECN(b) % 5})
	case 7:
		x.receive(mad.AttrRTU, &mad.RTU{LocalCommID: theirs, RemoteCommID: ours})
	case 8:
		_ = c.SendDREQ(x.now, nil)
	case 9:
		x.receive(mad.AttrDREQ, &mad.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: number + ib.QPN(b&1)})
	case 10:
		_ = c.SendDREP(x.now, nil)
	case 11:
		x.receive(mad.AttrDREP, &mad.DREP{LocalCommID: theirs, RemoteCommID: ours})
	case 12:
		x.receive(mad.AttrREJ, &mad.REJ{LocalCommID: theirs, RemoteCommID: ours, Message: mad.Which(b & 3), Reason: mad.RejReason(b & 31)})
	case 13:
		c.Destroy(x.now)
	case 14:
		if x.m.Deadline() != clock.Never {
			x.fire()
		}
	case 15:
		x.failed = b&1 != 0
	case 16:
		x.reaction = b
	}
	x.clear()
	for _, c := range x.conns {
		if c.channel != nil {
			x.seen[c.channel] = true
		}
	}
}

// program runs all operations, and checks that nothing is left at the end.
func (x *channelFuzzer) program(p []byte) {
	for i := 0; i+channelOpSize <= len(p); i += channelOpSize {
		x.run([channelOpSize]byte(p[i:]))
		if err := invariants(x.m); err != nil {
			x.t.Fatalf("after operation %d, %v: %v", i/channelOpSize, p[i:i+channelOpSize], err)
		}
	}
	x.reaction = 0
	for _, c := range x.conns {
		c.Destroy(x.now)
	}
	x.quiet()
	if len(x.m.local)+len(x.m.channels)+len(x.m.far) != 0 {
		x.t.Fatalf("left are %d connections, %d channels by our EE context and %d by the peer's", len(x.m.local), len(x.m.channels), len(x.m.far))
	}
	for h := range x.seen {
		if !x.down[h] || h.state != ChannelOver {
			x.t.Fatalf("a channel is left in %v, has ended: %v", h.state, x.down[h])
		}
	}
}

// FuzzChannels gives connections that share channels messages, calls and time in any
// order, with consumers that do anything in their handlers (C14). What the manager
// holds must be consistent after each step, each channel ends once, when no connection uses
// it, and nothing is left in the end.
func FuzzChannels(f *testing.F) {
	for r := range byte(6) {
		f.Add([]byte{
			16, 0, r, 2, 0, 1, 6, 1, 1, 7, 1, 0, 3, 1, 0, 6, 2, 0, 1, 1, 0, 4, 3, 0, 5, 3, 0, 9, 1, 0, 8, 3, 0, 12, 2, 0, 14, 0, 0, 2, 0, 1,
		})
	}
	f.Fuzz(func(t *testing.T, p []byte) { newChannelFuzzer(t).program(p[:min(len(p), 400*channelOpSize)]) })
}

// TestC14_AnyOrder runs random programs of the same kind.
func TestC14_AnyOrder(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 14))
		p := make([]byte, 300*channelOpSize)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if !t.Run("", func(t *testing.T) { newChannelFuzzer(t).program(p) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}
