package roce

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestFaults(t *testing.T) {
	ack := func(edit func(b []byte) []byte) []byte {
		_, _, pkt := vectors[4].bytes(t) // RC ACKNOWLEDGE, 20 bytes
		return edit(pkt)
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  Fault
	}{
		"nothing":                 {nil, FaultShort},
		"15 bytes":                {make([]byte, 15), FaultShort},
		"version 1":               {ack(func(b []byte) []byte { b[1] |= 1; return b }), FaultVersion},
		"version 8, bad opcode":   {ack(func(b []byte) []byte { b[0], b[1] = 0xff, 8; return b }), FaultVersion},
		"reserved RC opcode":      {ack(func(b []byte) []byte { b[0] = 0x18; return b }), FaultOpcode},
		"manufacturer's opcode":   {ack(func(b []byte) []byte { b[0] = 0xe0; return b }), FaultOpcode},
		"AETH missing":            {ack(func(b []byte) []byte { return b[:16] }), FaultLength},
		"not a multiple of four":  {ack(func(b []byte) []byte { return append(b, 0) }), FaultLength},
		"pad without payload":     {ack(func(b []byte) []byte { b[1] |= 0x10; return b }), FaultPad},
		"pad 3 of 4 bytes":        {ack(func(b []byte) []byte { b[1] |= 0x30; return append(b, 0, 0, 0, 0) }), FaultNone},
		"four bytes of no use":    {ack(func(b []byte) []byte { return append(b, 0, 0, 0, 0) }), FaultNone},
		"reserved bits are ones":  {ack(func(b []byte) []byte { b[4], b[8] = 0xff, 0xff; return b }), FaultNone},
		"an acknowledge as it is": {ack(func(b []byte) []byte { return b }), FaultNone},
	} {
		var p Packet
		if got := p.Parse(c.bytes); got != c.want {
			t.Errorf("%s: fault %v, want %v", name, got, c.want)
		}
	}
}

// samplePacket returns a packet of any opcode with every header filled.
func samplePacket(op Opcode, payload int) Packet {
	return Packet{
		BTH:       BTH{Opcode: op, SE: true, MigReq: true, PKey: 0xffff, DestQP: 0x123456, AckReq: true, PSN: ib.NewPSN(0xfedcba)},
		RDETH:     RDETH{EEC: 0x010203},
		DETH:      DETH{QKey: 0x11111111, SrcQP: 0x040506},
		XRCETH:    XRCETH{SRQN: 0x070809},
		FETH:      FETH{Placement: PlacementPersistence, Selectivity: SelectRegion},
		RETH:      RETH{VA: 1 << 40, RKey: 0xabcdef01, Length: 77},
		AtomicETH: AtomicETH{VA: 8, RKey: 9, SwapAdd: 10, Compare: 11},
		AETH:      AETH{Syndrome: NAKSequence, MSN: 0x112233},
		AtomicAck: 0x0102030405060708,
		Imm:       0xdeadbeef,
		InvRKey:   0x55667788,
		Payload:   make([]byte, payload),
	}
}

// TestEveryOpcodeBuildsAndParses shows that what is built from a packet of
// each opcode and payload length is parsed to the same values.
func TestEveryOpcodeBuildsAndParses(t *testing.T) {
	buf := make([]byte, 128)
	for v := range 256 {
		op := Opcode(v)
		for n := range 9 {
			in := samplePacket(op, n)
			for i := range in.Payload {
				in.Payload[i] = byte(0x80 + i)
			}
			clear(buf)
			for i := range buf {
				buf[i] = 0xee
			}
			size := in.Build(buf)
			checkBuilt(t, in, buf, size)
		}
	}
}

func checkBuilt(t *testing.T, in Packet, buf []byte, size int) {
	t.Helper()
	op, n := in.BTH.Opcode, len(in.Payload)
	if want := int(op.Info().HeaderLen) + (n+3)/4*4 + 4; size != want || Size(op, n) != want {
		t.Fatalf("%v with %d bytes: built %d, Size %d, want %d", op, n, size, Size(op, n), want)
	}
	for i, c := range buf[size-ICRCLen:] {
		if c != 0xee {
			t.Fatalf("%v with %d bytes: byte %d, of the ICRC or beyond, was written", op, n, size-ICRCLen+i)
		}
	}
	var out Packet
	fault := out.Parse(buf[:size])
	if !op.Info().Known {
		if fault != FaultOpcode || out.BTH != in.BTH || out.Info != op.Info() {
			t.Fatalf("%v: fault %v, want opcode and a BTH", op, fault)
		}
		return
	}
	if fault != FaultNone || string(out.Payload) != string(in.Payload) || cap(out.Payload) != n {
		t.Fatalf("%v with %d bytes: fault %v payload % x", op, n, fault, out.Payload)
	}
	in.Info, in.ICRC, in.Payload = op.Info(), 0xeeeeeeee, nil
	// Headers that the opcode does not have are not written: fill them in from
	// in.
	want, got := in, out
	got.Payload = nil
	copyAbsent(&got, &in)
	if got.BTH != want.BTH || got.RDETH != want.RDETH || got.DETH != want.DETH || got.XRCETH != want.XRCETH ||
		got.FETH != want.FETH || got.RETH != want.RETH || got.AtomicETH != want.AtomicETH || got.AETH != want.AETH ||
		got.AtomicAck != want.AtomicAck || got.Imm != want.Imm || got.InvRKey != want.InvRKey || got.ICRC != want.ICRC {
		t.Fatalf("%v with %d bytes:\n got %+v\nwant %+v", op, n, got, want)
	}
}

// copyUnless copies a header that a packet does not have, if nothing has written to it.
func copyUnless[H comparable](has Headers, p *H, from H) {
	var zero H
	if has == 0 && *p == zero {
		*p = from
	}
}

// copyAbsent copies the headers that the opcode of p lacks, after a check
// that Parse left them alone.
func copyAbsent(p, from *Packet) {
	h := p.Info.Headers
	copyUnless(h&HasRDETH, &p.RDETH, from.RDETH)
	copyUnless(h&HasDETH, &p.DETH, from.DETH)
	copyUnless(h&HasXRCETH, &p.XRCETH, from.XRCETH)
	copyUnless(h&HasFETH, &p.FETH, from.FETH)
	copyUnless(h&HasRETH, &p.RETH, from.RETH)
	copyUnless(h&HasAtomicETH, &p.AtomicETH, from.AtomicETH)
	copyUnless(h&HasAETH, &p.AETH, from.AETH)
	copyUnless(h&HasAtomicAckETH, &p.AtomicAck, from.AtomicAck)
	copyUnless(h&HasImmDt, &p.Imm, from.Imm)
	copyUnless(h&HasIETH, &p.InvRKey, from.InvRKey)
}

func TestBuildInPlace(t *testing.T) {
	buf := make([]byte, 64)
	p := samplePacket(RCSendOnly, 0)
	p.Payload = buf[BTHLen : BTHLen+5]
	copy(p.Payload, "hello")
	n := p.Build(buf)
	var q Packet
	if f := q.Parse(buf[:n]); f != FaultNone || string(q.Payload) != "hello" {
		t.Errorf("payload built where it was: %v %q", f, q.Payload)
	}
}

func TestShortDestinationsPanic(t *testing.T) {
	p := samplePacket(RDCompareSwap, 0)
	for name, f := range map[string]func(){
		"PutHeaders": func() { p.PutHeaders(make([]byte, MaxHeaderLen-1)) },
		"Build":      func() { p.Build(make([]byte, MaxHeaderLen+ICRCLen-1)) },
		"Seal":       func() { Seal(make([]byte, MinSize-1), Prefix{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s into too few bytes does not panic", name)
				}
			}()
			f()
		}()
	}
	if n := p.PutHeaders(make([]byte, MaxHeaderLen)); n != MaxHeaderLen {
		t.Errorf("the longest headers are %d bytes, MaxHeaderLen is %d", n, MaxHeaderLen)
	}
	for v := range 256 {
		if n := Opcode(v).Info().HeaderLen; n > MaxHeaderLen {
			t.Errorf("%v has %d bytes of headers, more than MaxHeaderLen", Opcode(v), n)
		}
	}
}

func TestPad(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3} {
		if got := Pad(n); got != want {
			t.Errorf("padding after %d bytes is %d, want %d", n, got, want)
		}
	}
}

func TestPacketPathDoesNotAllocate(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	src6, dst6 := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	in := samplePacket(RCRDMAWriteOnlyWithImm, 4096)
	buf := make([]byte, Size(in.BTH.Opcode, 4096))
	ip, udp, pkt := vectors[3].bytes(t)
	var out Packet
	allocs := testing.AllocsPerRun(100, func() {
		n := in.Build(buf)
		p := NewPrefix(src, dst, 0xc000, Port, n)
		Seal(buf, p.WithID(5))
		id, ok := DeriveID(buf, p, 0)
		MoveID(buf, id, 6)
		if !ok || id != 5 || !Check(buf, p.WithID(6)) || out.Parse(buf) != FaultNone {
			t.Fatal("packet comes back damaged")
		}
		Seal(buf, NewPrefix(src6, dst6, 0xc000, Port, n))
		in.PutHeaders(buf)
		if _, ok := HeaderICRC(ip, udp, pkt); !ok {
			t.Fatal("headers refused")
		}
	})
	if allocs != 0 {
		t.Errorf("building, sealing, checking and parsing allocate %v times a packet, want 0", allocs)
	}
}

// TestPSNs shows that a READ takes the PSNs of its answer.
func TestPSNs(t *testing.T) {
	for _, c := range []struct {
		op     Opcode
		length uint32
		want   uint32
	}{
		{RCRDMAReadRequest, 0, 1}, {RCRDMAReadRequest, 1, 1}, {RCRDMAReadRequest, 1024, 1}, {RCRDMAReadRequest, 1025, 2},
		{RDRDMAReadRequest, 4096, 4}, {RCRDMAReadRequest, 1<<32 - 1, 1 << 22}, {RCRDMAWriteFirst, 4096, 1}, {RCSendOnly, 4096, 1},
	} {
		p := Packet{BTH: BTH{Opcode: c.op}, RETH: RETH{Length: c.length}}
		if got := p.PSNs(1024); got != c.want {
			t.Errorf("%v of %d bytes takes %d PSNs, want %d", c.op, c.length, got, c.want)
		}
	}
}
