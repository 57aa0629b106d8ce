package gsi

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// TestC1_WhatQP1Drops shows which packets never reach an agent, how they are
// counted, and that they get no answer.
func TestC1_WhatQP1Drops(t *testing.T) {
	group := netip.MustParseAddr("239.1.2.3")
	for _, c := range []struct {
		what string
		drop counters.Drop
		p    func(*roce.Packet)
		d    func(*fabric.Datagram)
	}{
		{what: "RC", drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RCSendOnly }},
		{what: "RD", drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RDSendOnly }},
		{what: "CNP", drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.CNP }},
		{what: "immediate data", drop: counters.DropOpcode, p: func(p *roce.Packet) { p.BTH.Opcode = roce.UDSendOnlyWithImm }},
		{what: "the Q_Key of another", drop: counters.DropQKey, p: func(p *roce.Packet) { p.DETH.QKey = 0x80010001 }},
		{what: "P_Key of another partition", drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8001 }},
		{what: "P_Key 0", drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8000 }},
		{what: "two limited members", drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x0123 }},
		{what: "nothing", drop: counters.DropLength, p: func(p *roce.Packet) { p.Payload = nil }},
		{what: "255 bytes", drop: counters.DropLength, p: func(p *roce.Packet) { p.Payload = p.Payload[:255] }},
		{what: "260 bytes", drop: counters.DropLength, p: func(p *roce.Packet) { p.Payload = append(p.Payload, 1, 2, 3, 4) }},
		{what: "base version 0", drop: counters.DropMADVersion, p: func(p *roce.Packet) { p.Payload[0] = 0 }},
		{what: "base version 0x80", drop: counters.DropMADVersion, p: func(p *roce.Packet) { p.Payload[0] = 0x80 }},
		{what: "from QP0", drop: counters.DropAddress, p: func(p *roce.Packet) { p.DETH.SrcQP = 0 }},
		{what: "from all QPs", drop: counters.DropAddress, p: func(p *roce.Packet) { p.DETH.SrcQP = ib.QPNMulticast }},
		{what: "to a group", drop: counters.DropAddress, d: func(d *fabric.Datagram) { d.Dst = group }},
		{what: "from a group", drop: counters.DropAddress, d: func(d *fabric.Datagram) { d.Src = group }},
		{what: "from nobody", drop: counters.DropAddress, d: func(d *fabric.Datagram) { d.Src = netip.IPv4Unspecified() }},
		{what: "from everybody", drop: counters.DropAddress, d: func(d *fabric.Datagram) { d.Src = netip.MustParseAddr("255.255.255.255") }},
	} {
		r := newRig(t, Config{PKeys: []ib.PKey{0xffff, 0x0123}})
		a := r.agent(mad.ClassPerf, 1, mad.MethodGet, mad.MethodSend)
		p, d := r.packet(madOf(mad.ClassPerf, 1, mad.MethodGet, 7)), r.datagram()
		if c.p != nil {
			c.p(&p)
		}
		if c.d != nil {
			c.d(&d)
		}
		drop, ok := r.receive(p, d)
		if n := r.counters.Drops[c.drop]; ok || drop != c.drop || n != 1 || len(a.got) != 0 {
			t.Errorf("%s: taken %v, dropped as %v, counted %d; want %v", c.what, ok, drop, n, c.drop)
		}
		if n, m := r.g.Counters().Received, r.counters.RcvdPkts; n != m || n != map[bool]uint64{true: 1}[admitted(c.drop)] {
			t.Errorf("%s: counted %d times as received by QP1, %d by the adapter", c.what, n, m)
		}
		r.wantSent(c.what, 0)
		last := r.trace[len(r.trace)-1]
		if last.Kind != trace.Drop || last.Cause != c.drop.String() || last.QPN != ib.QPNGSI || last.At != r.now {
			t.Errorf("%s: the record is %+v", c.what, last)
		}
	}
}

// TestC1_WhatQP1Takes shows unusual packets that are accepted: every key of the
// table, limited membership on one side, marks and reserved bits, another QP of
// the peer, the loopback of the adapter to itself.
func TestC1_WhatQP1Takes(t *testing.T) {
	for what, change := range map[string]func(*roce.Packet, *fabric.Datagram){
		"second P_Key":    func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.PKey = 0x8123 },
		"limited member":  func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.PKey = 0x7fff },
		"marks":           func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.FECN, p.BTH.BECN, p.BTH.SE = true, true, true },
		"reserved bits":   func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.Resv6, p.BTH.Resv7, p.DETH.Resv = 0x3f, 0x7f, 0xff },
		"no AckReq":       func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.AckReq = false },
		"another QP":      func(p *roce.Packet, _ *fabric.Datagram) { p.DETH.SrcQP = 0x123456 },
		"from ourselves":  func(_ *roce.Packet, d *fabric.Datagram) { d.Src = rigLocal },
		"any PSN":         func(p *roce.Packet, _ *fabric.Datagram) { p.BTH.PSN = ib.NewPSN(0xabcdef) },
		"any source port": func(_ *roce.Packet, d *fabric.Datagram) { d.SrcPort = 1 },
	} {
		r := newRig(t, Config{PKeys: []ib.PKey{0xffff, 0x0123}})
		a := r.agent(mad.ClassCM, 2, mad.MethodSend)
		m := madOf(mad.ClassCM, 2, mad.MethodSend, 7)
		p, d := r.packet(m), r.datagram()
		change(&p, &d)
		if drop, ok := r.receive(p, d); !ok || len(a.got) != 1 || a.got[0] != *m {
			t.Errorf("%s: taken %v (%v), the agent has %d", what, ok, drop, len(a.got))
		}
		r.wantSent(what, 0)
	}
}

// TestC1_From shows the source that an agent gets with a MAD, and that its
// answer finds the way back: the P_Key is the entry of our own table, because a
// limited key would not match itself.
func TestC1_From(t *testing.T) {
	other := netip.MustParseAddr("fd00::1")
	peer := netip.MustParseAddr("fd00::2")
	r := newRig(t, Config{Ports: [][]netip.Addr{{rigLocal, other}}, PKeys: []ib.PKey{0xffff, 0x8123}})
	a := r.agent(mad.ClassCM, 2, mad.MethodSend)
	p := r.packet(madOf(mad.ClassCM, 2, mad.MethodSend, 7))
	p.BTH.PKey, p.DETH.SrcQP = 0x0123, 0x4242
	_, ok := r.receive(p, fabric.Datagram{Src: peer, Dst: other, TClass: 0x6a, HopLimit: 3, FlowLabel: 0x12345})
	want := Address{Local: other, Remote: peer, QPN: 0x4242, PKey: 0x8123, TClass: 0x6a, FlowLabel: 0x12345}
	if !ok || len(a.from) != 1 || a.from[0] != want {
		t.Fatalf("taken %v, from %+v, want %+v", ok, a.from, want)
	}
	must.Do(t, a.Send(r.now, a.from[0], madOf(mad.ClassCM, 2, mad.MethodSend, 8)))
	s := r.wantSent("the answer", 1)[0]
	path := fabric.Path{Src: other, Dst: peer, SrcPort: 55410, TClass: 0x6a, HopLimit: 64, FlowLabel: 0x12345}
	if s.path != path || s.p.BTH.DestQP != 0x4242 || s.p.BTH.PKey != 0x8123 {
		t.Errorf("the answer goes %+v, %+v", s.path, s.p.BTH)
	}
}

// TestC13_Records shows that the trace records of QP1's packets have enough of
// the MAD to identify the message.
func TestC13_Records(t *testing.T) {
	r := newRig(t, Config{})
	a := r.agent(mad.ClassCM, 2, mad.MethodSend)
	m := new(mad.MAD)
	m.PutHeader(mad.CMHeader(mad.AttrREP, a.TID(9)))
	copy(m.Data()[:], "\x01\x02\x03\x04\x05\x06\x07\x08")
	r.deliver("a message", m)
	must.Do(t, a.Send(r.now, Address{Remote: rigPeer}, m))
	s := r.wantSent("a message", 1)[0]
	if len(r.trace) != 2 || r.trace[0].Kind != trace.PacketIn || r.trace[1].Kind != trace.PacketOut {
		t.Fatalf("the records are %v", r.trace)
	}
	for _, rec := range r.trace {
		if rec.QPN != ib.QPNGSI || rec.Len != 280 || rec.At != r.now || [36]byte(rec.Header[20:]) != [36]byte(m[:]) {
			t.Errorf("the record is %+v", rec)
		}
	}
	if out := r.trace[1]; out.Header != [trace.HeaderBytes]byte(s.seg) || out.PSN != s.p.BTH.PSN {
		t.Errorf("the record of what left is % x", out.Header)
	}
}
