package hca_test

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// audience is an adapter with some UD queue pairs and a multicast group. The
// queue pair of the solo is the first.
type audience struct {
	*rig.Solo
	group netip.Addr
	qps   []*qp.QP
}

func newAudience(t testing.TB, n int, c rig.SoloConfig) *audience {
	t.Helper()
	c.Type = ib.UD
	a := &audience{Solo: rig.NewSolo(t, c), group: netip.MustParseAddr("239.77.0.1")}
	if c.V6 {
		a.group = netip.MustParseAddr("ff0e::77:1")
	}
	a.qps = append(a.qps, a.QP)
	for len(a.qps) < n {
		a.qps = append(a.qps, a.another(ib.UD, ib.RTS))
	}
	return a
}

// another returns a further queue pair.
func (a *audience) another(typ ib.QPType, to ib.QPState) *qp.QP {
	a.T.Helper()
	q, err := a.HCA.CreateQP(a.PD, hca.QPConfig{Type: typ, SendCQ: a.CQ, RecvCQ: a.CQ, Cap: rig.Cap, SigAll: true})
	rig.Must(a.T, err)
	return a.walk(q, to)
}

// walk moves a queue pair from RESET to a state.
func (a *audience) walk(q *qp.QP, to ib.QPState) *qp.QP {
	a.T.Helper()
	for st := ib.INIT; st <= to; st++ {
		attr := a.Attr
		attr.State = st
		rig.Must(a.T, q.Modify(a.Now, &attr, rig.WalkMask(q.Type(), st)))
	}
	return q
}

func (a *audience) gid() ib.GID { return ib.GIDFromAddr(a.group) }

// attach attaches the first n queue pairs to the group.
func (a *audience) attach(n int) *audience {
	a.T.Helper()
	for _, q := range a.qps[:n] {
		added, err := a.HCA.AttachMcast(q, a.gid())
		rig.Must(a.T, err)
		if !added {
			a.T.Fatalf("QP %v was attached before", q.Num())
		}
	}
	return a
}

// provide posts a receive of n bytes to each queue pair, with its index as
// ID, one after the other in the region.
func (a *audience) provide(n int) {
	a.T.Helper()
	for i, q := range a.qps {
		_, err := q.PostRecv(ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{a.SGE(i*n, n)}})
		rig.Must(a.T, err)
	}
}

// message returns a datagram to the group.
func (a *audience) message(payload []byte, change func(*roce.Packet)) fabric.Datagram {
	p := a.Packet(roce.UDSendOnlyWithImm, 9, payload)
	p.BTH.DestQP, p.Imm = ib.QPNMulticast, 0xbeef
	if change != nil {
		change(&p)
	}
	d := a.Datagram(p)
	d.Dst = a.group
	return a.Resealed(d)
}

// heard returns the IDs of the receives that were completed, in order.
func (a *audience) heard() []uint64 {
	a.T.Helper()
	var ids []uint64
	for _, c := range a.Poll() {
		if c.Status != ib.WCSuccess || c.Opcode != ib.WCRecv {
			a.T.Errorf("completion %+v: %v", c, c.Status)
		}
		ids = append(ids, c.WRID)
	}
	slices.Sort(ids)
	return ids
}

// TestV14_MulticastCopies shows what the queue pairs attached to a group get:
// each a copy of its own, with the IP header in front, under the key of each.
func TestV14_MulticastCopies(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		a := newAudience(t, 4, rig.SoloConfig{V6: v6}).attach(3)
		rig.Must(t, a.qps[2].Modify(a.Now, &ib.QPAttr{QKey: 7}, ib.AttrQKey))
		const room = 200
		a.provide(room)
		payload := []byte("for everybody who is attached")
		d := a.message(payload, nil)
		a.Deliver(d)
		got := a.Poll()
		if len(got) != 2 {
			t.Fatalf("%d completions, want those of the 2 queue pairs with the key: %+v", len(got), got)
		}
		for i, wc := range got {
			want := ib.WC{
				WRID: uint64(i), Opcode: ib.WCRecv, Flags: ib.WCGRH | ib.WCWithImm, ByteLen: uint32(40 + len(payload)),
				ImmData: 0xbeef, QPN: a.qps[i].Num(), SrcQP: rig.PeerQPN, SL: ib.SLIPv4,
			}
			if v6 {
				want.SL = ib.SLIPv6
			}
			if wc != want {
				t.Errorf("completion %+v, want %+v", wc, want)
			}
			area := a.Buf[i*room:][:room]
			if !bytes.Equal(area[40:40+len(payload)], payload) || !bytes.Equal(area[36:40], a.group.AsSlice()[len(a.group.AsSlice())-4:]) {
				t.Errorf("copy %d is % x", i, area[:40+len(payload)])
			}
		}
		c := a.Counters()
		if c.Drops[counters.DropQKey] != 1 || c.RcvdPkts != 1 {
			t.Errorf("one wrong key counts as %d, one packet as %d", c.Drops[counters.DropQKey], c.RcvdPkts)
		}
		a.Deliver(a.message(payload, nil))
		if n := a.Counters().OutOfBuffer; n != 2 || len(a.Poll()) != 0 {
			t.Errorf("2 copies without a receive count as %d", n)
		}
	}
}

// TestV14_MulticastBlocksSelf shows which messages a queue pair with
// CreateBlockSelfMcastLB does not receive: its own, and no others.
func TestV14_MulticastBlocksSelf(t *testing.T) {
	a := newAudience(t, 1, rig.SoloConfig{})
	cfg := hca.QPConfig{Type: ib.UD, SendCQ: a.CQ, RecvCQ: a.CQ, Cap: rig.Cap, SigAll: true, Flags: ib.CreateBlockSelfMcastLB}
	for range 2 {
		q, err := a.HCA.CreateQP(a.PD, cfg)
		rig.Must(t, err)
		a.qps = append(a.qps, a.walk(q, ib.RTS))
	}
	a.attach(3)
	const room = 200
	from := func(src netip.Addr, q ib.QPN) {
		t.Helper()
		d := a.message([]byte("who hears this?"), func(p *roce.Packet) { p.DETH.SrcQP = q })
		d.Src = src
		a.Deliver(a.Resealed(d))
	}
	for _, c := range []struct {
		what string
		src  netip.Addr
		qpn  ib.QPN
		want []uint64
	}{
		{"one that blocks its own messages", a.Addr, a.qps[1].Num(), []uint64{0, 2}},
		{"the other", a.Addr, a.qps[2].Num(), []uint64{0, 1}},
		{"one that does not", a.Addr, a.qps[0].Num(), []uint64{0, 1, 2}},
		{"a queue pair of the same number elsewhere", a.Peer, a.qps[1].Num(), []uint64{0, 1, 2}},
	} {
		a.provide(room)
		from(c.src, c.qpn)
		if got := a.heard(); !slices.Equal(got, c.want) {
			t.Errorf("a message of %s reaches %v, want %v", c.what, got, c.want)
		}
		for _, q := range a.qps { // empties the receive queues
			rig.Must(t, q.Modify(a.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
			a.walk(q, ib.RTS)
		}
	}
	cfg.Type = ib.RC
	if _, err := a.HCA.CreateQP(a.PD, cfg); !errors.Is(err, ib.EINVAL) {
		t.Errorf("an RC queue pair that blocks its multicasts: %v", err)
	}
	cfg.Type, cfg.Flags = ib.UD, 1
	if _, err := a.HCA.CreateQP(a.PD, cfg); !errors.Is(err, ib.EOPNOTSUPP) {
		t.Errorf("an unknown flag: %v", err)
	}
}

// TestV14_MulticastRefused shows which packets to a group are dropped, and by
// which counter.
func TestV14_MulticastRefused(t *testing.T) {
	other := netip.MustParseAddr("239.77.0.2")
	for _, c := range []struct {
		what string
		drop counters.Drop
		n    uint64 // drops; 0 is 1
		p    func(*audience, *roce.Packet)
		d    func(*audience, *fabric.Datagram)
	}{
		{what: "a group that nobody is attached to", drop: counters.DropAddress, d: func(_ *audience, d *fabric.Datagram) { d.Dst = other }},
		{what: "the number of a queue pair", drop: counters.DropNoQP, p: func(a *audience, p *roce.Packet) { p.BTH.DestQP = a.QP.Num() }},
		{what: "QP1", drop: counters.DropNoQP, p: func(_ *audience, p *roce.Packet) { p.BTH.DestQP = ib.QPNGSI }},
		{what: "QP0", drop: counters.DropNoQP, p: func(_ *audience, p *roce.Packet) { p.BTH.DestQP = 0 }},
		{what: "the number of groups at an address", drop: counters.DropNoQP, d: func(a *audience, d *fabric.Datagram) { d.Dst = a.Addr }},
		{what: "RC", drop: counters.DropService, p: func(_ *audience, p *roce.Packet) { p.BTH.Opcode = roce.RCSendOnly }},
		{what: "an acknowledgement", drop: counters.DropService, p: func(_ *audience, p *roce.Packet) { p.BTH.Opcode = roce.RCAcknowledge }},
		{what: "CNP", drop: counters.DropService, p: func(_ *audience, p *roce.Packet) { p.BTH.Opcode = roce.CNP }},
		{what: "another Q_Key", drop: counters.DropQKey, n: 2, p: func(_ *audience, p *roce.Packet) { p.DETH.QKey++ }},
		{what: "another P_Key", drop: counters.DropPKey, n: 2, p: func(_ *audience, p *roce.Packet) { p.BTH.PKey = 0x8001 }},
		{what: "version 1", drop: counters.DropMalformed, p: func(_ *audience, p *roce.Packet) { p.BTH.TVer = 1 }},
		{what: "over the MTU", drop: counters.DropLength, n: 2, p: func(_ *audience, p *roce.Packet) { p.Payload = make([]byte, 5000) }},
	} {
		a := newAudience(t, 2, rig.SoloConfig{}).attach(2)
		a.provide(300)
		d := a.message(make([]byte, 16), func(p *roce.Packet) {
			if c.p != nil {
				c.p(a, p)
			}
		})
		if c.d != nil {
			c.d(a, &d)
			d = a.Resealed(d)
		}
		a.Deliver(d)
		a.WantSilence(c.what, a.Out(), ib.RTS)
		if n := a.Counters().Drops[c.drop]; n != max(c.n, 1) {
			t.Errorf("%s: %v counts %d, want %d", c.what, c.drop, n, max(c.n, 1))
		}
	}
}

// TestV14_MulticastDamaged shows that the ICRC is checked, and once.
func TestV14_MulticastDamaged(t *testing.T) {
	a := newAudience(t, 2, rig.SoloConfig{}).attach(2)
	a.provide(300)
	for _, spoil := range []func(*fabric.Datagram){
		func(d *fabric.Datagram) { d.Bytes[len(d.Bytes)-6] ^= 1 },
		func(d *fabric.Datagram) { d.Src = netip.MustParseAddr("10.9.9.9") },
		func(d *fabric.Datagram) { d.ID++ },
		func(d *fabric.Datagram) { d.Bytes = d.Bytes[:len(d.Bytes)-4] },
	} {
		before := a.Counters().Drops[counters.DropICRC]
		d := a.message(make([]byte, 16), nil)
		spoil(&d)
		a.Deliver(d)
		a.WantSilence("a damaged packet", a.Out(), ib.RTS)
		if n := a.Counters().Drops[counters.DropICRC] - before; n != 1 {
			t.Errorf("a damaged packet counts %d times", n)
		}
	}
}

// TestMulticastByState shows which attached queue pairs get a copy.
func TestMulticastByState(t *testing.T) {
	a := newAudience(t, 1, rig.SoloConfig{})
	for _, st := range []ib.QPState{ib.RESET, ib.INIT, ib.RTR} {
		a.qps = append(a.qps, a.another(ib.UD, st))
	}
	a.attach(4)
	for i, q := range a.qps {
		if q.State() == ib.RESET {
			continue
		}
		_, err := q.PostRecv(ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{a.SGE(0, 300)}})
		rig.Must(t, err)
	}
	a.Deliver(a.message(make([]byte, 16), nil))
	if got := a.heard(); !slices.Equal(got, []uint64{0, 3}) {
		t.Errorf("copies went to %v, want the queue pairs in RTS and RTR, 0 and 3", got)
	}
	if n := a.Counters().Drops[counters.DropState]; n != 2 {
		t.Errorf("2 queue pairs that take nothing count as %d", n)
	}
}

// TestAttachMcast shows which queue pairs can be attached to which groups, and
// for how long.
func TestAttachMcast(t *testing.T) {
	a := newAudience(t, 3, rig.SoloConfig{}).attach(2)
	a.provide(300)
	if added, err := a.HCA.AttachMcast(a.qps[1], a.gid()); added || err != nil {
		t.Errorf("attached twice: added %v, %v", added, err)
	}
	rc := a.another(ib.RC, ib.INIT)
	for what, call := range map[string]func() error{
		"an RC queue pair": func() error { _, err := a.HCA.AttachMcast(rc, a.gid()); return err },
		"an address":       func() error { _, err := a.HCA.AttachMcast(a.QP, ib.GIDFromAddr(a.Peer)); return err },
		"no GID":           func() error { _, err := a.HCA.AttachMcast(a.QP, ib.GID{}); return err },
		"not attached":     func() error { return a.HCA.DetachMcast(a.qps[2], a.gid()) },
		"another group":    func() error { return a.HCA.DetachMcast(a.QP, ib.GID{0xff, 0x0e, 15: 1}) },
		"detach RC":        func() error { return a.HCA.DetachMcast(rc, a.gid()) },
	} {
		if err := call(); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%s: %v, want EINVAL", what, err)
		}
	}
	rig.Must(t, a.HCA.DetachMcast(a.QP, a.gid()))
	a.Deliver(a.message(nil, nil))
	if got := a.heard(); !slices.Equal(got, []uint64{1}) {
		t.Errorf("copies went to %v, want 1: it was attached once, 0 was detached", got)
	}
	a.HCA.DestroyQP(a.PD, a.qps[1])
	if g := a.HCA.Single().Groups(); g.Attached() != 0 || g.Len() != 0 {
		t.Errorf("%d attachments, %d groups are left of a queue pair that was destroyed", g.Attached(), g.Len())
	}
	a.Deliver(a.message(nil, nil))
	if n := a.Counters().Drops[counters.DropAddress]; n != 1 || len(a.Poll()) != 0 {
		t.Errorf("a message to a group that nobody is left in counts as %d", n)
	}
}

// TestMulticastIsBounded reaches each of the limits.
func TestMulticastIsBounded(t *testing.T) {
	l := hca.DefaultLimits()
	l.MaxMcastGrp, l.MaxMcastQPAttach, l.MaxTotalMcastQPAttach = 3, 2, 5
	a := newAudience(t, 3, rig.SoloConfig{HCA: hca.Config{Limits: l}})
	group := func(n byte) ib.GID { return ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, 0, 0, n})) }
	for i, c := range []struct {
		qp, group int
		err       error
		why       string
	}{
		{0, 1, nil, "first"},
		{1, 1, nil, "second of the group"},
		{2, 1, ib.ENOMEM, "over the queue pairs of a group"},
		{1, 1, nil, "attached already"},
		{0, 2, nil, "second group"},
		{0, 3, nil, "third group"},
		{1, 4, ib.ENOMEM, "over the groups"},
		{1, 2, nil, "as many attachments as may be"},
		{1, 3, ib.ENOMEM, "over the attachments of all groups"},
	} {
		_, err := a.HCA.AttachMcast(a.qps[c.qp], group(byte(c.group)))
		if !errors.Is(err, c.err) {
			t.Errorf("step %d, %s: %v, want %v", i, c.why, err, c.err)
		}
	}
	want := []netip.Addr{group(1).Addr(), group(2).Addr(), group(3).Addr()}
	if left := a.HCA.LeaveGroups(a.qps[0]); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if left := a.HCA.LeaveGroups(a.qps[0]); len(left) != 0 {
		t.Errorf("left %v again", left)
	}
	for _, g := range []byte{2, 5} {
		if _, err := a.HCA.AttachMcast(a.qps[2], group(g)); err != nil {
			t.Errorf("in the place of one that left: %v", err)
		}
	}
}

// TestV14_MulticastSent sends to a group from one adapter to another, by an
// address handle, and counts allocations: in steady state there are none.
func TestV14_MulticastSent(t *testing.T) {
	r := rig.New(t, ib.UD, rig.Cap)
	a, b := r.Sides[0], r.Sides[1]
	for i := range r.Sides {
		attr := r.Attrs(i, ib.MTU1024)
		attr.QKey = rig.QKey
		r.Walk(i, attr, ib.RTS)
	}
	gid := ib.GIDFromAddr(netip.MustParseAddr("239.77.0.1"))
	_, err := b.HCA.AttachMcast(b.QP, gid)
	rig.Must(t, err)
	h, err := a.PD.CreateAH(&ib.AHAttr{DGID: gid, HopLimit: 64, Port: 1})
	rig.Must(t, err)
	f := &rig.Flight{Rig: r}
	f.WR = ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.SGE(0, 64)}, AH: h, RemoteQPN: ib.QPNMulticast, RemoteQKey: rig.QKey}
	f.Recv = ib.RecvWR{SGList: []ib.SGE{b.SGE(0, 104)}}
	rig.Fill(a.Buf[:64], 5)
	f.Trip()
	if wc := f.WCs[0]; wc.SrcQP != a.QP.Num() || wc.ByteLen != 104 {
		t.Errorf("the receive completes with %+v", wc)
	}
	if !bytes.Equal(b.Buf[40:104], a.Buf[:64]) || !bytes.Equal(b.Buf[36:40], []byte{239, 77, 0, 1}) {
		t.Errorf("what arrived is % x", b.Buf[:104])
	}
	for range 64 { // rings and tables reach their sizes
		f.Trip()
	}
	if n := testing.AllocsPerRun(100, f.Trip); n != 0 {
		t.Errorf("%g allocations per message, want none", n)
	}
	for what, av := range map[string]ib.AHAttr{
		"the other family": {DGID: ib.GID{0xff, 0x0e, 15: 1}, HopLimit: 64, Port: 1},
		"hop limit 0":      {DGID: gid, Port: 1},
	} {
		if _, err := a.PD.CreateAH(&av); !errors.Is(err, ib.EINVAL) {
			t.Errorf("an address handle of a group with %s: %v, want EINVAL", what, err)
		}
	}
}

// FuzzMcast delivers any bytes to a group that two queue pairs are attached to.
// They may fill one receive of each, and do nothing else.
func FuzzMcast(f *testing.F) {
	good := roce.Packet{
		BTH:  roce.BTH{Opcode: roce.UDSendOnlyWithImm, PKey: ib.PKeyDefault, DestQP: ib.QPNMulticast},
		DETH: roce.DETH{QKey: rig.QKey, SrcQP: 5}, Payload: []byte("seventeen bytes.."),
	}
	for _, op := range []roce.Opcode{roce.UDSendOnly, roce.UDSendOnlyWithImm, roce.RCSendOnly, roce.RCAcknowledge, roce.CNP} {
		good.BTH.Opcode = op
		b := make([]byte, roce.Size(op, len(good.Payload)))
		good.Build(b)
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		const room, guard = 300, 0xA5
		a := newAudience(t, 2, rig.SoloConfig{V6: v6}).attach(2)
		a.provide(room)
		rest := a.Buf[2*room:]
		for i := range rest {
			rest[i] = guard
		}
		if len(b) < roce.MinSize {
			b = append(b, make([]byte, roce.MinSize-len(b))...)
		}
		d := a.Sealed(bytes.Clone(b))
		d.Dst = a.group
		a.Deliver(a.Resealed(d))
		if got := a.heard(); len(got) > 2 || len(got) == 2 && got[0] == got[1] {
			t.Errorf("receives %v are complete", got)
		}
		if slices.ContainsFunc(rest, func(c byte) bool { return c != guard }) {
			t.Error("bytes beyond the receives have changed")
		}
		a.WantSilence("a message to a group", a.Out(), ib.RTS)
	})
}
