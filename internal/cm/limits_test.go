package cm

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// reqN is one of many different REQs of a peer.
func (r *rig) reqN(from netip.Addr, i int) *mad.REQ {
	q := r.req()
	q.LocalCommID, q.LocalQPN = uint32(i+1), ib.QPN(i+2)
	q.Primary.LocalGID = ib.GIDFromAddr(from)
	return q
}

// TestC6_MaxConns: connections and resolutions of both sides together.
func TestC6_MaxConns(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 4, MaxListeners: 1, MaxHalfOpen: 100})
	r.listen()
	up := r.active(Established)
	r.active(SIDRReqSent)
	r.receive(mad.AttrREQ, r.reqN(r.peer, 1))
	r.passive(SIDRReqRcvd)
	if r.m.Conns() != 4 {
		t.Fatalf("%d connections", r.m.Conns())
	}
	r.clear()
	c := r.m.NewConn(r.onEvent)
	for what, err := range map[string]error{
		"REQ":      c.SendREQ(r.now, r.reqParams()),
		"SIDR_REQ": c.SendSIDRREQ(r.now, &SIDRREQParams{Service: service, Path: r.path()}),
	} {
		if !errors.Is(err, ib.ENOMEM) || c.State() != Idle {
			t.Errorf("%s: error %v, want ENOMEM", what, err)
		}
	}
	r.receive(mad.AttrREQ, r.reqN(r.peer, 2))
	q := r.sidrReq()
	q.RequestID++
	r.receive(mad.AttrSIDRREQ, q)
	r.wantEvents("beyond the limit")
	r.wantSent("beyond the limit: the peer will repeat itself")
	if n := r.m.Counters().Refused; n != 2 {
		t.Errorf("%d refused", n)
	}
	up.Destroy(r.now)
	r.quiet() // it and the resolution are over
	r.do(c.SendREQ(r.now, r.reqParams()))
}

func TestC6_MaxListeners(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 1, MaxListeners: 2, MaxHalfOpen: 1})
	first, err := r.m.Listen(1, nil)
	r.do(err)
	_, err = r.m.Listen(2, nil)
	r.do(err)
	if _, err = r.m.Listen(3, nil); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("error %v, want ENOMEM", err)
	}
	first.Close()
	_, err = r.m.Listen(3, nil)
	r.do(err)
}

// TestC6_MaxHalfOpen: one peer gets three quarters of the limit, all together
// the limit, and ended connections make room.
func TestC6_MaxHalfOpen(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 100, MaxListeners: 1, MaxHalfOpen: 8})
	r.listen()
	ask := func(from netip.Addr, i int) bool {
		r.clear()
		r.receiveFrom(from, mad.AttrREQ, r.reqN(from, i))
		return len(r.events) == 1
	}
	var conns []*Conn
	for i := range 10 {
		if ask(r.peer, i) {
			conns = append(conns, r.conn)
		}
	}
	if len(conns) != 6 || r.m.HalfOpen() != 6 {
		t.Fatalf("one peer has %d of 8", len(conns))
	}
	q := r.sidrReq()
	r.receive(mad.AttrSIDRREQ, q)
	if r.m.HalfOpen() != 6 {
		t.Error("a resolution is not counted")
	}
	other, third := r.peer.Next(), r.peer.Next().Next()
	if !ask(other, 0) || !ask(third, 0) || ask(other, 1) {
		t.Error("the rest is not the others'")
	}
	// Neither established nor ended connections are half-open.
	r.do(conns[0].SendREP(r.now, r.repParams()))
	r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: conns[0].RemoteID(), RemoteCommID: conns[0].LocalID()})
	conns[1].Destroy(r.now)
	if r.m.HalfOpen() != 6 || !ask(r.peer, 20) || !ask(r.peer, 21) || ask(r.peer, 22) {
		t.Errorf("%d half-open", r.m.HalfOpen())
	}
	must.Do(t, invariants(r.m))
}

// TestC6_FailuresAreHalfOpen: a peer cannot fill the manager with connections
// that fail and stay in TIMEWAIT for as long as it has asked for.
func TestC6_FailuresAreHalfOpen(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 1000, MaxListeners: 1, MaxHalfOpen: 8})
	r.listen()
	for i := range 100 {
		q := r.reqN(r.peer, i)
		q.Primary.LocalAckTimeout = 31
		r.clear()
		r.receive(mad.AttrREQ, q)
		if len(r.events) == 0 {
			continue
		}
		c := r.conn
		switch i % 3 {
		case 0:
			r.receive(mad.AttrREJ, &mad.REJ{LocalCommID: q.LocalCommID, RemoteCommID: c.LocalID(), Message: mad.WhichOther, Reason: mad.RejStaleConnection})
		case 1:
			r.do(c.SendREP(r.now, r.repParams()))
			c.Destroy(r.now)
		default:
			r.do(c.SendREP(r.now, r.repParams()))
			r.receive(mad.AttrDREQ, &mad.DREQ{LocalCommID: q.LocalCommID, RemoteCommID: c.LocalID(), RemoteQPN: rigQPN})
			r.do(c.SendDREP(r.now, nil))
		}
		if c.State() != Timewait {
			t.Fatal(c.State())
		}
	}
	if r.m.Conns() != 6 || r.m.HalfOpen() != 6 {
		t.Errorf("%d connections, %d half-open", r.m.Conns(), r.m.HalfOpen())
	}
	r.quiet()
	must.Do(t, empty(r.m))
}

// heap returns the bytes in use after a collection.
func heapBytes() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestC6_REQFlood: a million REQs of one source, to a listener that is slow,
// accepts all or rejects all, cost no more than the limits allow, and an honest
// connection succeeds meanwhile.
func TestC6_REQFlood(t *testing.T) {
	for what, program := range map[string]func(e *node) Handler{
		"slow": func(e *node) Handler {
			return func(now clock.Instant, c *Conn, ev *Event) {
				if c.Path().Remote != netip.MustParseAddr("10.9.9.9") {
					e.polite(now, c, ev)
				}
			}
		},
		"accepts": func(e *node) Handler { return e.polite },
		"rejects": func(e *node) Handler {
			return func(now clock.Instant, c *Conn, ev *Event) {
				if c.Path().Remote == netip.MustParseAddr("10.9.9.9") {
					c.Destroy(now)
					return
				}
				e.polite(now, c, ev)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			flood := 1_000_000
			if what != "slow" {
				flood /= 10
			}
			n, a, b := newNetwork(t)
			handle := program(b)
			_, err := b.m.Listen(service, func(now clock.Instant, c *Conn, ev *Event) { handle(now, c, ev) })
			n.do(err)
			from := netip.MustParseAddr("10.9.9.9")
			before := heapBytes()
			var q mad.REQ
			p := (&rig{us: b.addr, peer: from}).req()
			d := build(mad.AttrREQ, 1, p)
			for i := range flood {
				if i%(flood/4) == flood/8 {
					c := a.ask(b)
					for (c.State() != Established || n.queue.Len() > 0) && n.now < clock.Instant(1e9) {
						n.now = n.now.Add(latency)
						flush(n)
					}
					if c.State() != Established {
						t.Fatalf("an honest connection is in %v after %d REQs", c.State(), i)
					}
					n.now = 0
				}
				binary.BigEndian.PutUint32(d.Data()[0:], uint32(i+1))
				binary.BigEndian.PutUint32(d.Data()[32:], uint32(i+2)<<8)
				b.m.Receive(n.now, &gsi.Received{MAD: d, From: gsi.Address{Local: b.addr, Remote: from, QPN: 1, PKey: ib.PKeyDefault}})
			}
			q.Decode(d)
			grown := int64(heapBytes()) - int64(before)
			share := DefaultLimits().MaxHalfOpen * 3 / 4
			t.Logf("%d REQs: %d half-open, %d refused, %d KiB", flood, b.m.HalfOpen(), b.m.Counters().Refused, grown>>10)
			if b.m.HalfOpen() > share || grown > int64(share)*1024 {
				t.Errorf("%d half-open, %d bytes", b.m.HalfOpen(), grown)
			}
			must.Do(t, invariants(b.m))
		})
	}
}

// flush delivers arrived packets on a network, without timers and checks of
// invariants.
func flush(n *network) {
	for p := n.queue.Due(n.now); p != nil; p = n.queue.Due(n.now) {
		p.to.m.Receive(n.now, &gsi.Received{MAD: &p.mad, From: gsi.Address{Local: p.to.addr, Remote: p.from.addr, QPN: 1, PKey: ib.PKeyDefault}})
	}
}

// TestC6_OtherFloods: messages of every other kind for connections that do not
// exist, and for one that does, leave nothing.
func TestC6_OtherFloods(t *testing.T) {
	const flood = 20_000
	for on := firstMsg; on < firstTimer; on++ {
		for _, known := range []bool{false, true} {
			if known && (on == MsgREJ || on == MsgREJStale || on == MsgDREQ) {
				continue // these end it
			}
			r := newRig(t)
			c := r.active(Established)
			at := &Conn{localID: c.localID, ep: c.ep, state: c.state}
			before := r.m.Conns()
			for i := range flood {
				if !known {
					at.localID = uint32(i)
				}
				tell(r, at, on)
				r.clear()
			}
			if r.m.Conns() != before || c.State() != Established {
				t.Errorf("%v: %d connections, %v", on, r.m.Conns(), c.State())
			}
			if err := invariants(r.m); err != nil {
				t.Errorf("%v: %v", on, err)
			}
		}
	}
}
