package hca

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// onesSum is the checksum of the internet: 0xffff over a correct header.
func onesSum(b []byte) uint32 {
	sum := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// TestV14_GRHArea shows what stands in the 40 bytes before a UD payload: the
// IPv6 header, or 20 bytes of zeros and the IPv4 header, as the packet had
// them; and what the completion says.
func TestV14_GRHArea(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := newSolo(t, soloConfig{typ: ib.UD, v6: v6})
		payload := []byte("seventeen bytes..")
		s.recv(1, 40+len(payload))
		p := s.packet(roce.UDSendOnlyWithImm, 99, payload)
		p.Imm, p.BTH.SE = 0xfeed, true
		d := s.datagram(p)
		d.FlowLabel = 0x12345
		s.deliver(d)
		got := s.poll()
		want := ib.WC{
			WRID: 1, Opcode: ib.WCRecv, Flags: ib.WCGRH | ib.WCWithImm, ByteLen: 57, ImmData: 0xfeed, QPN: s.qp.Num(), SrcQP: soloPeerQPN,
		}
		if len(got) != 1 || got[0] != want {
			t.Fatalf("completion %+v, want %+v", got, want)
		}
		area := s.buf[32<<10:][:57]
		if !bytes.Equal(area[40:], payload) {
			t.Error("the payload is not after 40 bytes")
		}
		src, dst := s.peer.AsSlice(), s.addr.AsSlice()
		if v6 {
			head := []byte{0x62, 0x81, 0x23, 0x45, 0, byte(len(d.Bytes) + 8), 17, 61} // class 0x28, label, length, UDP, hops
			if !bytes.Equal(area[:40], bytes.Join([][]byte{head, src, dst}, nil)) {
				t.Errorf("the area of an IPv6 packet holds % x", area[:40])
			}
			continue
		}
		head := []byte{0x45, 0x28, 0, byte(len(d.Bytes) + 28), 0, 0, 0x40, 0, 61, 17}
		if !bytes.Equal(area[:20], make([]byte, 20)) || !bytes.Equal(area[20:30], head) || !bytes.Equal(area[32:40], append(src, dst...)) {
			t.Errorf("the area of an IPv4 packet holds % x", area[:40])
		}
		if onesSum(area[20:40]) != 0xffff {
			t.Error("the IPv4 header in the area has a wrong checksum")
		}
	}
}

// TestV14_KeysAndAddresses shows what is dropped before the queue pair sees
// it, and under which count: wrong P_Key, Q_Key, addresses, ICRC, service.
func TestV14_KeysAndAddresses(t *testing.T) {
	far := netip.MustParseAddr("10.0.0.3")
	for _, c := range []struct {
		what  string
		types []ib.QPType
		drop  counters.Drop
		p     func(*roce.Packet)
		d     func(*solo, *fabric.Datagram)
	}{
		{what: "other P_Key", types: []ib.QPType{ib.RC, ib.UC, ib.UD}, drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8001 }},
		{what: "P_Key 0", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropPKey, p: func(p *roce.Packet) { p.BTH.PKey = 0x8000 }},
		{what: "wrong Q_Key", types: []ib.QPType{ib.UD}, drop: counters.DropQKey, p: func(p *roce.Packet) { p.DETH.QKey++ }},
		{what: "other service", types: []ib.QPType{ib.UC, ib.UD}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RCSendOnly }},
		{what: "XRC", types: []ib.QPType{ib.RC}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.XRCSendOnly }},
		{what: "RD", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.RDSendOnly }},
		{what: "CNP", types: []ib.QPType{ib.RC}, drop: counters.DropService, p: func(p *roce.Packet) { p.BTH.Opcode = roce.CNP }},
		{what: "no such QP", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropNoQP, p: func(p *roce.Packet) { p.BTH.DestQP ^= 1 }},
		{what: "QP of another slot", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropNoQP, p: func(p *roce.Packet) { p.BTH.DestQP |= 1 << 20 }},
		{what: "QP1 without its Q_Key", types: []ib.QPType{ib.UD}, drop: counters.DropQKey, p: func(p *roce.Packet) { p.BTH.DestQP = ib.QPNGSI }},
		{what: "version 1", types: []ib.QPType{ib.RC}, drop: counters.DropMalformed, p: func(p *roce.Packet) { p.BTH.TVer = 1 }},
		{what: "other source", types: []ib.QPType{ib.RC, ib.UC}, drop: counters.DropAddress, d: func(s *solo, d *fabric.Datagram) {
			d.Src = far
			*d = s.resealed(*d)
		}},
		{what: "other destination", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropAddress, d: func(s *solo, d *fabric.Datagram) {
			d.Dst = far
			*d = s.resealed(*d)
		}},
		{what: "a bit of the payload", types: []ib.QPType{ib.RC, ib.UC, ib.UD}, drop: counters.DropICRC, d: func(_ *solo, d *fabric.Datagram) { d.Bytes[len(d.Bytes)-6] ^= 1 }},
		{what: "a bit of the PSN", types: []ib.QPType{ib.RC}, drop: counters.DropICRC, d: func(_ *solo, d *fabric.Datagram) { d.Bytes[11] ^= 1 }},
		{what: "another identification", types: []ib.QPType{ib.RC}, drop: counters.DropICRC, d: func(_ *solo, d *fabric.Datagram) { d.ID++ }},
		{what: "cut short", types: []ib.QPType{ib.RC, ib.UD}, drop: counters.DropICRC, d: func(_ *solo, d *fabric.Datagram) { d.Bytes = d.Bytes[:len(d.Bytes)-4] }},
	} {
		for _, typ := range c.types {
			s := newSolo(t, soloConfig{typ: typ})
			s.recv(1, 100)
			p := s.packet(map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly}[typ], soloPeerPSN, make([]byte, 16))
			if c.p != nil {
				c.p(&p)
			}
			d := s.datagram(p)
			if c.d != nil {
				c.d(s, &d)
			}
			s.deliver(d)
			s.wantSilence(typ.String()+", "+c.what, s.out(), ib.RTS)
			if n := s.counters().Drops[c.drop]; n != 1 {
				t.Errorf("%v, %s: %v counts %d, want 1", typ, c.what, c.drop, n)
			}
		}
	}
}

// resealed gives a datagram the ICRC of its present addresses.
func (s *solo) resealed(d fabric.Datagram) fabric.Datagram {
	roce.Seal(d.Bytes, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(d.Bytes)).WithID(d.ID))
	return d
}

// TestV14_Accepted shows what is taken although it is odd: limited membership
// on one side, reserved bits, congestion marks, the migration bit, an AckReq
// on UD, any source port.
func TestV14_Accepted(t *testing.T) {
	for what, change := range map[string]func(*roce.Packet){
		"limited P_Key": func(p *roce.Packet) { p.BTH.PKey = 0x7fff },
		"MigReq":        func(p *roce.Packet) { p.BTH.MigReq = true },
		"reserved bits": func(p *roce.Packet) { p.BTH.Resv6, p.BTH.Resv7 = 0x3f, 0x7f },
		"FECN, BECN":    func(p *roce.Packet) { p.BTH.FECN, p.BTH.BECN = true, true },
		"no AckReq":     func(p *roce.Packet) { p.BTH.AckReq = false },
	} {
		for typ, op := range map[ib.QPType]roce.Opcode{ib.RC: roce.RCSendOnly, ib.UC: roce.UCSendOnly, ib.UD: roce.UDSendOnly} {
			s := newSolo(t, soloConfig{typ: typ})
			s.recv(1, 100)
			p := s.packet(op, soloPeerPSN, []byte{1})
			change(&p)
			s.inject(p)
			s.wantWCs(typ.String()+", "+what, wc{1, ib.WCSuccess})
		}
	}
}

// TestV14_DontFragmentAsSent shows that the ICRC is that of the header which
// arrived, with "don't fragment" or without.
func TestV14_DontFragmentAsSent(t *testing.T) {
	for _, c := range []struct {
		arrived, sealed bool // without the flag
		taken           int
	}{{false, false, 1}, {true, true, 1}, {true, false, 0}, {false, true, 0}} {
		s := newSolo(t, soloConfig{typ: ib.UD})
		s.recv(1, 100)
		d := s.datagram(s.packet(roce.UDSendOnly, soloPeerPSN, make([]byte, 8)))
		if d.NoDF = c.arrived; c.sealed {
			roce.Seal(d.Bytes, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(d.Bytes)).WithoutDF().WithID(d.ID))
		}
		s.deliver(d)
		if n := len(s.poll()); n != c.taken || int(s.counters().Drops[counters.DropICRC]) != 1-c.taken {
			t.Errorf("%+v: %d taken, %d dropped for the ICRC", c, n, s.counters().Drops[counters.DropICRC])
		}
		if flag := s.buf[32<<10+20+6]; c.taken == 1 && flag == 0x40 == c.arrived {
			t.Errorf("%+v: the flags in the header area are %#x", c, flag)
		}
	}
}

// TestV14_Sent shows which keys go out: the P_Key of the index, the Q_Key of
// the work request, or the queue pair's own for a controlled one.
func TestV14_Sent(t *testing.T) {
	keys := Config{PKeys: []ib.PKey{0xffff, 0x8123}, Privileged: true}
	s := newSolo(t, soloConfig{typ: ib.UD, hca: keys, attr: func(a *ib.QPAttr) { a.PKeyIndex, a.QKey = 1, 0x80007777 }})
	plain := s.wr(ib.WRSend, 1, 0, 5)
	controlled := plain
	controlled.RemoteQKey = 0x80000000
	controlled.Flags = ib.SendSolicited
	got := s.send(plain, controlled)
	for i, want := range []ib.QKey{soloQKey, 0x80007777} {
		p := got[i]
		if p.BTH.PKey != 0x8123 || p.DETH.QKey != want || p.DETH.SrcQP != s.qp.Num() || p.BTH.DestQP != soloPeerQPN || p.BTH.PadCnt != 3 || p.BTH.SE != (i == 1) {
			t.Errorf("packet %d leaves with %+v %+v, want Q_Key %#x", i, p.BTH, p.DETH, uint32(want))
		}
	}
	s.poll()
	s.recv(5, 100, 100)
	p := s.packet(roce.UDSendOnly, 0, nil)
	s.inject(p)
	p.BTH.PKey = 0x0123
	s.inject(p)
	s.wantWCs("the default key does not match index 1, a limited 0x123 does", wc{5, ib.WCSuccess})
}

// TestE15_UDLengths shows the ends of UD messages: the MTU when sending and
// receiving, the room of the receive, which serves the next message.
func TestE15_UDLengths(t *testing.T) {
	s := newSolo(t, soloConfig{typ: ib.UD})
	s.recv(1, 40+5000)
	for _, n := range []int{4097, 5000} {
		s.wantSilence("a message over the MTU", s.inject(s.packet(roce.UDSendOnly, 0, make([]byte, n))), ib.RTS)
	}
	s.inject(s.packet(roce.UDSendOnly, 0, make([]byte, 4096)))
	s.wantWCs("a message of the MTU", wc{1, ib.WCSuccess})
	s.recv(1, 40+100)
	for _, n := range []int{101, 4096} {
		s.wantSilence("a message that does not fit", s.inject(s.packet(roce.UDSendOnly, 0, make([]byte, n))), ib.RTS)
	}
	if n := s.counters().Drops[counters.DropLength]; n != 4 {
		t.Errorf("4 messages that do not fit count as %d", n)
	}
	s.inject(s.packet(roce.UDSendOnly, 77, make([]byte, 100)))
	s.wantWCs("the receive serves the next", wc{1, ib.WCSuccess})
	s.wantSilence("no receive", s.inject(s.packet(roce.UDSendOnly, 78, nil)), ib.RTS)
	if n := s.counters().OutOfBuffer; n != 1 {
		t.Errorf("a message without a receive counts as %d", n)
	}
	if got := s.send(s.wr(ib.WRSend, 2, 0, 4096)); len(got) != 1 || len(got[0].Payload) != 4096 {
		t.Error("a message of the MTU does not leave whole")
	}
	s.wantPackets("a message over the MTU", s.send(s.wr(ib.WRSend, 3, 0, 4097)))
	s.wantWCs("a message over the MTU", wc{2, ib.WCSuccess}, wc{3, ib.WCLocLenErr})
	s.wantState("a message over the MTU", ib.SQE)
}

// TestV11_V14_GSI shows QP1: its number, one of it, its Q_Key, any P_Key of the
// table, and an AckReq as Linux sets it.
func TestV11_V14_GSI(t *testing.T) {
	cfg := Config{PKeys: []ib.PKey{0xffff, 0x8123}, Privileged: true}
	s := newSolo(t, soloConfig{typ: ib.GSI, hca: cfg})
	if s.qp.Num() != 1 {
		t.Errorf("QP1 has number %v", s.qp.Num())
	}
	if _, err := s.hca.CreateQP(s.pd, QPConfig{Type: ib.GSI, SendCQ: s.cq, RecvCQ: s.cq}); err == nil {
		t.Error("a second QP1 is created")
	}
	s.recv(1, 40+256, 40+256, 40+256)
	mad := s.packet(roce.UDSendOnly, 0, make([]byte, 256))
	for _, key := range []ib.PKey{0xffff, 0x0123, 0x8124} {
		mad.BTH.PKey = key
		s.inject(mad)
	}
	mad.BTH.PKey, mad.DETH.QKey = 0xffff, 0x11111111
	s.inject(mad)
	s.wantWCs("keys of the table with the Q_Key of QP1", wc{1, ib.WCSuccess}, wc{2, ib.WCSuccess})
	if c := s.counters(); c.Drops[counters.DropPKey] != 1 || c.Drops[counters.DropQKey] != 1 {
		t.Errorf("a wrong P_Key and a wrong Q_Key count as %d and %d", c.Drops[counters.DropPKey], c.Drops[counters.DropQKey])
	}
	wr := s.wr(ib.WRSend, 9, 0, 256)
	wr.RemoteQPN, wr.RemoteQKey = 1, ib.QKeyGSI
	got := s.send(wr)
	if len(got) != 1 || got[0].DETH.SrcQP != 1 || got[0].BTH.DestQP != 1 || got[0].DETH.QKey != ib.QKeyGSI || !got[0].BTH.AckReq {
		t.Errorf("a MAD leaves as %+v", got)
	}
}

// TestV14_UDBetweenAdapters shows two adapters that exchange datagrams through
// what they resolve and number themselves.
func TestV14_UDBetweenAdapters(t *testing.T) {
	r := newRig(t, ib.UD, rigCap)
	for i := range r.side {
		a := r.attrs(i, ib.MTU1024)
		a.QKey = soloQKey
		r.walk(i, a, ib.RTS)
	}
	a, b := r.side[0], r.side[1]
	av := r.attrs(0, ib.MTU1024).AV
	h, err := a.pd.CreateAH(&av)
	must(t, err)
	fill(a.buf[:4096], 5)
	r.recv(1, ib.RecvWR{WRID: 1, SGList: []ib.SGE{b.sge(0, 4136)}})
	r.post(0, ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: []ib.SGE{a.sge(0, 4096)}, AH: h, RemoteQPN: b.qp.Num(), RemoteQKey: soloQKey})
	var got []ib.WC
	r.run(1e9, func() bool { got = append(got, r.poll(1)...); return len(got) > 0 })
	if len(got) != 1 || got[0].SrcQP != a.qp.Num() || !bytes.Equal(b.buf[40:4136], a.buf[:4096]) {
		t.Errorf("the datagram arrives as %+v", got)
	}
}
