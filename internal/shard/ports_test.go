package shard_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard/rig"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// world is two shards with two ports each, in virtual time. Port n of one is connected to
// port n of the other.
type world struct {
	t     testing.TB
	now   clock.Instant
	sides [2]*rig.Side
	full  [2][rig.Ports]bool // ports that send nothing
	batch int                // bytes
	sent  [2][rig.Ports]int  // packets
}

func newWorld(t testing.TB) *world {
	return &world{t: t, now: 1e9, sides: [2]*rig.Side{rig.New(t, 1), rig.New(t, 2)}, batch: 64 << 10}
}

// send lets a port of a side fill a batch, and delivers what is in it. Every packet must have the
// address and the first P_Key of the port. It reports whether there was any.
func (w *world) send(side int, port uint8) bool {
	w.t.Helper()
	b := fabric.NewBatch(w.batch, virtual.Caps())
	w.sides[side].Shard.Transmit(w.now, port, b)
	if b.Now != w.now {
		w.t.Fatalf("the batch has the time %d, want %d", b.Now, w.now)
	}
	for _, run := range b.Pending() {
		if want := rig.Addr(byte(side+1), port); run.Path.Src != want {
			w.t.Fatalf("port %d sends %d packets from %v, want %v", port, run.Count, run.Path.Src, want)
		}
		var p roce.Packet
		p.Parse(run.Segment(0))
		if want := rig.PKeys[port-1]; p.BTH.PKey != want && p.BTH.DestQP != ib.QPNGSI {
			w.t.Fatalf("port %d sends packets with P_Key %#04x, want %#04x", port, uint16(p.BTH.PKey), uint16(want))
		}
		w.sent[side][port-1] += run.Count
		d := virtual.Arrival(&run, 0, run.Count)
		w.sides[1-side].Shard.Receive(w.now, port, &d)
	}
	return len(b.Pending()) > 0
}

// run delivers packets and fires timers until done returns true, for at most a second.
func (w *world) run(what string, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(time.Second); !done(); {
		moved := false
		for side := range w.sides {
			for port := range uint8(rig.Ports) {
				moved = !w.full[side][port] && w.send(side, port+1) || moved
			}
		}
		if moved {
			w.now = w.now.Add(rig.Latency)
			continue
		}
		if w.now = max(w.now, min(w.sides[0].Shard.Deadline(), w.sides[1].Shard.Deadline())); w.now > end {
			w.t.Fatalf("%s did not happen within a second", what)
		}
		for _, s := range w.sides {
			s.Shard.Advance(w.now)
		}
	}
}

// complete runs until a side has a completion, which must be successful.
func (w *world) complete(side int) ib.WC {
	w.t.Helper()
	var wcs []ib.WC
	w.run("a completion", func() bool { wcs = w.sides[side].Poll(); return len(wcs) > 0 })
	if len(wcs) != 1 || wcs[0].Status != ib.WCSuccess {
		w.t.Fatalf("completions %+v, want one success", wcs)
	}
	return wcs[0]
}

// pair returns a connected queue pair of each side.
func (w *world) pair(typ ib.QPType, port uint8) (p, q *qp.QP) {
	w.t.Helper()
	p, q = w.sides[0].QP(typ), w.sides[1].QP(typ)
	rig.Pair{A: w.sides[0], B: w.sides[1], P: p, Q: q}.Connect(w.now, port)
	return p, q
}

// armed returns a pair on port 1 that has port 2 as an armed alternate path.
func (w *world) armed(typ ib.QPType) (p, q *qp.QP) {
	w.t.Helper()
	a, b := w.sides[0], w.sides[1]
	p, q = w.pair(typ, 1)
	rig.Pair{A: a, B: b, P: p, Q: q}.Arm(w.now, 2)
	a.Post(p, a.Write(b, 0, 8))
	w.complete(0)
	b.Post(q, b.Write(a, 0, 8))
	w.complete(1)
	a.Post(p, a.Write(b, 0, 8)) // a is armed by now
	w.complete(0)
	for _, x := range []*qp.QP{p, q} {
		if s := x.Query().PathMigState; s != ib.ARMED {
			w.t.Fatalf("%v: the migration state is %v, want ARMED", typ, s)
		}
	}
	return p, q
}

// pending checks for which ports a side has something to send.
func (w *world) pending(what string, side int, want ...bool) {
	w.t.Helper()
	s := w.sides[side].Shard
	for i, want := range want {
		if got := s.Pending(uint8(i + 1)); got != want {
			w.t.Errorf("%s: port %d has something to send: %v, want %v", what, i+1, got, want)
		}
	}
}

// TestTurnAtThePortOfThePath shows that queue pairs of each service send from the port of their
// path and from no other, and that any port answers doorbells.
func TestTurnAtThePortOfThePath(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		w := newWorld(t)
		a, b := w.sides[0], w.sides[1]
		for port := range uint8(rig.Ports) {
			port++
			p, q := w.pair(typ, port)
			wr := a.Write(b, 0, 100)
			if typ == ib.UD {
				wr = ib.SendWR{Opcode: ib.WRSend, SGList: wr.SGList, AH: a.AH(2, port), RemoteQPN: q.Num(), RemoteQKey: rig.QKey}
				_, err := q.PostRecv(ib.RecvWR{SGList: []ib.SGE{{Addr: b.MR.Addr(), Length: 140, LKey: b.MR.LKey()}}})
				must.Do(t, err)
			}
			a.Post(p, wr)
			other := rig.Ports + 1 - port
			if w.send(0, other) {
				t.Errorf("%v on port %d sends from port %d", typ, port, other)
			}
			w.pending(typ.String(), 0, port == 1, port == 2)
			w.complete(0)
			if typ == ib.UD {
				w.complete(1)
			}
			w.send(0, port) // nothing: the last answer has woken the queue pair
			if s := a.Shard; s.Owes() || s.Pending(1) || s.Pending(2) {
				t.Errorf("%v on port %d is not done when its request is complete", typ, port)
			}
		}
		if w.sent[0][0] != w.sent[0][1] || w.sent[0][0] == 0 {
			t.Errorf("%v: the ports have sent %v packets, want the same number", typ, w.sent[0])
		}
	}
}

// TestFullPortStopsNoOther shows that queue pairs of one port complete while the other port is
// full, and those of the full port once it has room.
func TestFullPortStopsNoOther(t *testing.T) {
	for full := range uint8(rig.Ports) {
		w := newWorld(t)
		a, b := w.sides[0], w.sides[1]
		var qps [rig.Ports]*qp.QP
		for i := range qps {
			qps[i], _ = w.pair(ib.RC, uint8(i+1))
		}
		w.full[0][full] = true
		for _, q := range qps {
			a.Post(q, a.Write(b, 0, 64<<10))
		}
		if wc := w.complete(0); wc.QPN != qps[1-full].Num() {
			t.Errorf("with port %d full QP %v completes", full+1, wc.QPN)
		}
		w.send(0, 2-full) // nothing: the last answer has woken the queue pair
		w.pending("the other port is done", 0, full == 0, full == 1)
		w.full[0][full] = false
		if wc := w.complete(0); wc.QPN != qps[full].Num() {
			t.Errorf("with room in port %d QP %v completes", full+1, wc.QPN)
		}
	}
}

// TestTurnMovesWithThePath shows that an end which waits for its turn at a full port goes to the
// port of its new path: when its host loses an address in the middle of a message, and when
// software migrates it. The peer follows.
func TestTurnMovesWithThePath(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC} {
		for _, lost := range []bool{true, false} {
			w := newWorld(t)
			a, b := w.sides[0], w.sides[1]
			p, q := w.armed(typ)
			for i := range a.Buf {
				a.Buf[i] = byte(i * 7)
			}
			a.Post(p, a.Write(b, 0, 256<<10))
			w.send(0, 1) // the first batch arrives
			w.full[0][0] = true
			w.pending("in mid-message", 0, true, false)
			before := w.sent[0][0]
			if lost {
				a.Shard.AddressLost(w.now, rig.Addr(1, 1), true)
			} else {
				must.Do(t, p.Modify(w.now, &ib.QPAttr{PathMigState: ib.MIGRATED}, ib.AttrPathMigState))
			}
			w.pending("after migration", 0, false, true)
			w.complete(0)
			if w.sent[0][0] != before || w.sent[0][1] == 0 {
				t.Errorf("%v: after migration the ports have sent %v packets, %d of them by the first before it", typ, w.sent[0], before)
			}
			if a := p.Query(); a.Port != 2 || a.AV.Port != 2 {
				t.Errorf("%v: the queue pair is on port %d with a path from port %d", typ, a.Port, a.AV.Port)
			}
			if typ == ib.UC {
				continue // the message lost no packet, but UC follows only after silence
			}
			if !bytes.Equal(b.Buf[:256<<10], a.Buf[:256<<10]) || q.Query().Port != 2 {
				t.Errorf("the peer has the path from port %d, or other bytes", q.Query().Port)
			}
			b.Post(q, b.Write(a, 0, 100))
			if w.complete(1); w.sent[1][1] == 0 {
				t.Error("the peer sends nothing from its second port")
			}
		}
	}
}

// TestNewPortInSQD shows that a queue pair in SQD which gets a path from another port waits and
// sends there, with a P_Key of that port, whether the call names the port or only the path.
func TestNewPortInSQD(t *testing.T) {
	for _, mask := range []ib.AttrMask{ib.AttrAV, ib.AttrAV | ib.AttrPort} {
		w := newWorld(t)
		a, b := w.sides[0], w.sides[1]
		p, q := w.pair(ib.RC, 1)
		for _, x := range []*qp.QP{p, q} {
			must.Do(t, x.Modify(w.now, &ib.QPAttr{State: ib.SQD}, ib.AttrState))
		}
		a.Post(p, a.Write(b, 0, 100))
		w.send(0, 2) // answers the doorbell
		w.pending("in SQD", 0, true, false)
		for i, x := range []*qp.QP{p, q} {
			attr := rig.Attr(w.sides[1-i], q, 2)
			must.Do(t, x.Modify(w.now, &attr, mask))
			attr.State = ib.RTS
			must.Do(t, x.Modify(w.now, &attr, ib.AttrState))
		}
		w.pending("on the new path", 0, false, true)
		if w.complete(0); w.sent[0] != [rig.Ports]int{0, 1} {
			t.Errorf("the ports have sent %v packets, want one by the second", w.sent[0])
		}
		if a := p.Query(); a.Port != 2 {
			t.Errorf("the queue pair is on port %d", a.Port)
		}
	}
}

// TestPathIsAtThePort shows that a queue pair cannot get a port that is not that of its path.
func TestPathIsAtThePort(t *testing.T) {
	w := newWorld(t)
	p, _ := w.pair(ib.RC, 1)
	must.Do(t, p.Modify(w.now, &ib.QPAttr{State: ib.SQD}, ib.AttrState))
	if err := p.Modify(w.now, &ib.QPAttr{Port: 2}, ib.AttrPort); !errors.Is(err, ib.EINVAL) {
		t.Errorf("port 2 for a path from port 1: %v, want EINVAL", err)
	}
	if a := p.Query(); a.Port != 1 {
		t.Errorf("the refused call has moved the queue pair to port %d", a.Port)
	}
}

// TestEndLeavesItsPort shows that a queue pair which waits at the second port leaves it with RESET
// and when it is destroyed, and can be used on the first port.
func TestEndLeavesItsPort(t *testing.T) {
	w := newWorld(t)
	a, b := w.sides[0], w.sides[1]
	p, q := w.pair(ib.RC, 2)
	r, _ := w.pair(ib.RC, 2)
	for _, x := range []*qp.QP{p, r} {
		a.Post(x, a.Write(b, 0, 100))
	}
	w.send(0, 1) // answers the doorbells
	w.pending("posted", 0, false, true)
	for _, x := range []*qp.QP{p, q} {
		must.Do(t, x.Modify(w.now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	}
	a.Shard.Remove(r)
	r.Destroy()
	if w.send(0, 2) {
		t.Error("queue pairs send after RESET or destruction")
	}
	rig.Pair{A: a, B: b, P: p, Q: q}.Connect(w.now, 1)
	a.Post(p, a.Write(b, 0, 100))
	if w.complete(0); w.sent[0] != [rig.Ports]int{1, 0} {
		t.Errorf("after RESET the ports have sent %v packets, want one by the first", w.sent[0])
	}
}

// TestPortTakesItsOwn shows that a port takes only packets to its addresses, and that a UD queue
// pair takes only what arrives at its port, to a group too.
func TestPortTakesItsOwn(t *testing.T) {
	w := newWorld(t)
	a, b := w.sides[0], w.sides[1]
	p, q := w.pair(ib.UD, 1)
	for range 4 {
		_, err := q.PostRecv(ib.RecvWR{SGList: []ib.SGE{{Addr: b.MR.Addr(), Length: 140, LKey: b.MR.LKey()}}})
		must.Do(t, err)
	}
	group := netip.MustParseAddr("239.1.2.3")
	b.Shard.Groups().Attach(group, q)
	for _, c := range []struct {
		what string
		dst  netip.Addr
		at   uint8
		want bool
	}{
		{"its port and address", rig.Addr(2, 1), 1, true},
		{"its address at the other port", rig.Addr(2, 1), 2, false},
		{"the other port and its address", rig.Addr(2, 2), 2, false},
		{"the other port's address at its port", rig.Addr(2, 2), 1, false},
		{"its group at its port", group, 1, true},
		{"its group at the other port", group, 2, false},
	} {
		wr := ib.SendWR{
			Opcode: ib.WRSend, SGList: a.Write(b, 0, 100).SGList, AH: a.AH(2, 1), RemoteQPN: q.Num(), RemoteQKey: rig.QKey,
		}
		if c.dst == group {
			wr.RemoteQPN = ib.QPNMulticast
		}
		a.Post(p, wr)
		batch := fabric.NewBatch(64<<10, virtual.Caps())
		a.Shard.Transmit(w.now, 1, batch)
		d := virtual.Arrival(&batch.Pending()[0], 0, 1)
		d.Dst = c.dst
		virtual.Seal(&d)
		drops := b.Env.Counters.Drops[counters.DropAddress]
		b.Shard.Receive(w.now, c.at, &d)
		dropped := b.Env.Counters.Drops[counters.DropAddress] > drops
		if got := len(b.Poll()) > 0; got != c.want || dropped == c.want {
			t.Errorf("%s: the packet is taken: %v, dropped for its address: %v, want taken: %v", c.what, got, dropped, c.want)
		}
		a.Poll()
	}
}

// TestAddressHandleOfAnotherPort shows that a UD queue pair cannot send by the other port.
func TestAddressHandleOfAnotherPort(t *testing.T) {
	w := newWorld(t)
	a := w.sides[0]
	p, q := w.pair(ib.UD, 2)
	a.Post(p, ib.SendWR{
		Opcode: ib.WRSend, SGList: a.Write(w.sides[1], 0, 100).SGList, AH: a.AH(2, 1), RemoteQPN: q.Num(), RemoteQKey: rig.QKey,
	})
	if w.send(0, 1) || w.send(0, 2) {
		t.Error("a datagram leaves")
	}
	if wcs := a.Poll(); len(wcs) != 1 || wcs[0].Status != ib.WCLocQPOpErr {
		t.Errorf("the completions are %+v, want one of LOC_QP_OP_ERR", wcs)
	}
}

// TestMADsLeaveByThePortOfTheirSource shows that MADs wait at the port of their source address,
// arrive by it, and are not held up by those of a full port.
func TestMADsLeaveByThePortOfTheirSource(t *testing.T) {
	w := newWorld(t)
	a, b := w.sides[0], w.sides[1]
	for range 20 {
		a.MAD(w.now, 2, 1)
	}
	a.MAD(w.now, 2, 2)
	w.pending("sent", 0, true, true)
	w.full[0][0] = true
	w.run("the MAD of port 2", func() bool { return len(b.MADs) == 1 })
	if from := b.MADs[0].From; from.Remote != rig.Addr(1, 2) || from.Local != rig.Addr(2, 2) {
		t.Errorf("the MAD comes from %v to %v", from.Remote, from.Local)
	}
	w.pending("port 1 is full", 0, true, false)
	w.full[0][0] = false
	w.run("the other MADs", func() bool { return len(b.MADs) == 21 })
	w.pending("all are sent", 0, false, false)
}

// TestTurnsOfMADs shows that MADs and queue pairs of each port take turns, whatever the order in
// which the ports send: both get on although either would fill every batch.
func TestTurnsOfMADs(t *testing.T) {
	w := newWorld(t)
	w.batch = 4096 + 64
	a, b := w.sides[0], w.sides[1]
	for port := range uint8(rig.Ports) {
		port++
		p, _ := w.pair(ib.RC, port)
		a.Post(p, a.Write(b, 0, rig.Bytes))
		for range 64 {
			a.MAD(w.now, 2, port)
		}
	}
	for range 4 {
		for side := range w.sides {
			w.send(side, 1)
			w.send(side, 2)
		}
	}
	for port, n := range w.sent[0] {
		arrived := 0
		for i := range b.MADs {
			if b.MADs[i].From.Local == rig.Addr(2, uint8(port+1)) {
				arrived++
			}
		}
		if arrived == 0 || arrived == n {
			t.Errorf("%d of the %d packets of port %d are MADs, want some of both kinds", arrived, n, port+1)
		}
	}
}
