package cm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// deal returns a source with these numbers, and fails at the end.
func deal(t *testing.T, numbers ...uint32) func() uint32 {
	return func() uint32 {
		if len(numbers) == 0 {
			t.Fatal("more numbers are drawn")
		}
		n := numbers[0]
		numbers = numbers[1:]
		return n
	}
}

// TestC3_IDsAreDrawn: communication IDs and starting PSNs come from the source
// of random numbers, so they are as unpredictable as it. An ID is never 0 and
// never one that is in use, on either side.
func TestC3_IDsAreDrawn(t *testing.T) {
	r := newRig(t)
	r.listen()
	r.m.cfg.Rand = deal(t, 0, 7, 0x1000001, 7, 0, 8, 2, 8, 7, 9, 3)
	for i, want := range []uint32{7, 8} {
		c := r.active(ReqSent)
		if q := last(r, mad.AttrREQ, &mad.REQ{}); c.LocalID() != want || q.LocalCommID != want || q.StartingPSN.Value() != uint32(i+1) {
			t.Errorf("connection %d: ID %#x, PSN %v", i, c.LocalID(), q.StartingPSN)
		}
	}
	if c := r.passive(RepSent); c.LocalID() != 9 || last(r, mad.AttrREP, &mad.REP{}).StartingPSN.Value() != 3 {
		t.Errorf("ID %#x", c.LocalID())
	}
}

// TestIDsTellTheSlot: where processes share an address, the upper byte of an ID
// is its process's slot, on either side, and the rest is random.
func TestIDsTellTheSlot(t *testing.T) {
	r := newRig(t)
	r.listen()
	r.m.cfg.Slot = 5
	r.m.cfg.Rand = deal(t, 0xff123456, 1, 0xee123456, 0xabcdef, 2)
	if c := r.active(ReqSent); c.LocalID() != 0x5123456 || last(r, mad.AttrREQ, &mad.REQ{}).LocalCommID != 0x5123456 {
		t.Errorf("active: ID %#x", c.LocalID())
	}
	if c := r.passive(RepSent); c.LocalID() != 0x5abcdef {
		t.Errorf("passive: ID %#x", c.LocalID())
	}
	r.m.cfg.Slot, r.m.cfg.Shared = 0, true
	r.m.cfg.Rand = deal(t, 0xff654321, 1)
	if c := r.active(ReqSent); c.LocalID() != 0x654321 {
		t.Errorf("the first of those who share: ID %#x", c.LocalID())
	}
}

// TestC3_NoIDLeft: a source that gives nothing new is an error, not a loop.
func TestC3_NoIDLeft(t *testing.T) {
	r := newRig(t)
	r.listen()
	r.active(ReqSent)
	r.m.cfg.Rand = func() uint32 { return 0 }
	r.clear()
	if err := r.m.NewConn(nil).SendREQ(r.now, r.reqParams()); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("error %v, want ENOMEM", err)
	}
	r.receive(mad.AttrREQ, r.req())
	r.wantSent("nothing")
	r.wantEvents("nothing")
	if n := r.m.Counters().Refused; n != 1 || r.m.HalfOpen() != 0 {
		t.Errorf("%d counted, %d half-open", n, r.m.HalfOpen())
	}
}

// TestC3_IDInUse: an ID is in use until TIMEWAIT is over.
func TestC3_IDInUse(t *testing.T) {
	r := newRig(t)
	c := r.active(Timewait)
	id := c.LocalID()
	r.m.cfg.Rand = deal(t, id, 1, 2, id, 3)
	if d := r.active(ReqSent); d.LocalID() != 1 {
		t.Errorf("ID %#x, which is in TIMEWAIT", d.LocalID())
	}
	r.fire()
	if c.State() != Idle {
		t.Fatal(c.State())
	}
	if d := r.active(ReqSent); d.LocalID() != id {
		t.Errorf("ID %#x, which nobody has", d.LocalID())
	}
}

// TestC3_ConnectionUsedAgain: an ended connection can begin again, also to
// another peer, and keeps nothing from the first time.
func TestC3_ConnectionUsedAgain(t *testing.T) {
	n, a, b := newNetwork(t)
	e := n.add("e", DefaultLimits())
	b.listen()
	e.listen()
	c, d := a.connect(b)
	c.Consumer = "mine"
	path := a.pathTo(b)
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(10 * latency)
	n.do(d.SendDREQ(n.now, nil))
	n.finish()
	first := c.LocalID()
	n.do(c.SendREQ(n.now, a.reqParams(e)))
	if c.LocalID() == first || c.RemoteID() != 0 || c.RemoteQPN() != 0 || c.Alternate() != (mad.Path{}) || c.Consumer != "mine" {
		t.Errorf("left: %#x, %#x, %v, %+v, %v", c.LocalID(), c.RemoteID(), c.RemoteQPN(), c.Alternate(), c.Consumer)
	}
	n.run(10 * latency)
	if c.State() != Established || e.conns[0].State() != Established {
		t.Fatalf("%v:\n%s", c.State(), n.tail())
	}
	n.do(e.conns[0].SendDREQ(n.now, nil))
	n.finish()
	n.do(c.SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
	n.finish()
	n.do(c.SendREQ(n.now, a.reqParams(b))) // after a rejection
	for _, f := range b.conns {
		f.Destroy(n.now)
	}
	c.Destroy(n.now)
	n.run(latency)
	b.conns[len(b.conns)-1].Destroy(n.now)
	n.wantEmpty()
}

// TestC7_UsedAgainAfterREJ: an answer to the first request, still under way,
// is not one to the second.
func TestC7_UsedAgainAfterREJ(t *testing.T) {
	r := newRig(t)
	c := r.active(ReqSent)
	late := r.rej(c, mad.WhichREQ, mad.RejConsumer)
	r.receive(mad.AttrREJ, late)
	r.do(c.SendREQ(r.now, r.reqParams()))
	r.clear()
	r.receive(mad.AttrREJ, late)
	r.wantState(c, ReqSent)
	r.wantEvents("a REJ of the first")
}

// TestC6_RequestForgotten: a listener whose backlog is full drops the request
// silently, and the peer's repetition is a new request.
func TestC6_RequestForgotten(t *testing.T) {
	n, a, b := newNetwork(t)
	full := 2
	b.program = func(now clock.Instant, c *Conn, ev *Event) {
		if full > 0 {
			full--
			c.Forget(now)
			return
		}
		b.polite(now, c, ev)
	}
	b.listen()
	c := a.ask(b)
	n.finish()
	n.wantLog(`
		 0.000 a sends REQ
		 0.001 b hears REQ_RECEIVED
		 6.442 a sends REQ
		 6.443 b hears REQ_RECEIVED
		12.885 a sends REQ
		12.886 b hears REQ_RECEIVED
		12.886 b sends REP
		12.887 a hears REP_RECEIVED
		12.887 a sends RTU
		12.888 b hears RTU_RECEIVED`)
	c.Destroy(n.now)
	n.wantEmpty()

	full = 1
	n.do(a.m.NewConn(a.onEvent).SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
	n.log.Reset()
	n.finish()
	n.wantLog(fmt.Sprintf(`
		%.3f b hears SIDR_REQ_RECEIVED
		%.3f a sends SIDR_REQ
		%.3f b hears SIDR_REQ_RECEIVED
		%.3f b sends SIDR_REP: valid
		%.3f a hears SIDR_REP_RECEIVED`, seconds(n, -4.296), seconds(n, -0.002), seconds(n, -0.001), seconds(n, -0.001), seconds(n, 0)))
	n.wantEmpty()
}

func seconds(n *network, offset float64) float64 { return float64(n.now)/1e9 + offset }

// TestC6_ListenerCloses: its connections stay, and a new request finds no
// listener.
func TestC6_ListenerCloses(t *testing.T) {
	r := newRig(t)
	l := r.listen()
	if _, err := r.m.Listen(service, nil); !errors.Is(err, ib.EADDRINUSE) {
		t.Errorf("error %v, want EADDRINUSE", err)
	}
	c := r.passive(ReqRcvd)
	l.Close()
	l.Close()
	r.clear()
	r.do(c.SendREP(r.now, r.repParams()))
	q := r.req()
	q.LocalCommID, q.LocalQPN = 1, 2
	r.receive(mad.AttrREQ, q)
	r.wantSent("one that was taken, and one that is not", "REP", "REJ: invalid service id")
	again := r.listen()
	l.Close() // a closed one closes no other
	if r.m.listeners[service] != again {
		t.Error("the new listener is gone")
	}
}

// TestC6_NoCMMessage: attributes of the class that are no CM messages are not
// the manager's.
func TestC6_NoCMMessage(t *testing.T) {
	r := newRig(t)
	for _, attr := range []mad.AttrID{0, mad.AttrClassPortInfo, mad.AttrREQ - 1, mad.AttrAPR + 1, 0xffff} {
		d := build(attr, 1, &mad.RTU{})
		if r.m.Receive(r.now, &gsi.Received{MAD: d, From: gsi.Address{Remote: r.peer}}) {
			t.Errorf("%v was taken", attr)
		}
	}
	if r.m.Counters() != (Counters{}) {
		t.Error("they were counted")
	}
}
