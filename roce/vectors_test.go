package roce

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// vector is a packet in the four pieces that an ICRC is computed from.
type vector struct {
	name     string
	ip, udp  string
	bthToPad string
	icrc     string // the four bytes on the wire
}

// vectors are packets whose ICRC was computed by other programs; A and B by
// scapy, C was sent by an adapter.
var vectors = [...]vector{
	{
		"A UC SEND_ONLY, pad 2",
		"450100400478400040110000c0a80007c0a80007", "c00012b7002c0000",
		"2460ffff000000d300cf17104630818be28935d90e9a95505401be885e500000", "78f353f3",
	},
	{
		"B the same over IPv6",
		"6e21face002c11ff2022000000000000000000000000102320230000000000000000000000001024", "c00012b7002c0000",
		"2460ffff000000d300cf17104630818be28935d90e9a95505401be885e500000", "3e5b743b",
	},
	{
		"C CNP of an adapter",
		"45c2003c718c4000401191610a0011010a001201", "000012b700280000",
		"8100ffff400001180000000000000000000000000000000000000000", "82fd002a",
	},
	{
		"V1 RC SEND_ONLY hello",
		"4500003412344000401114830a0000010a000002", "d87212b700200000",
		"0430ffff000000118000abcd68656c6c6f000000", "fea0d49c",
	},
	{
		"V2 RC ACKNOWLEDGE",
		"4500003012354000401114860a0000020a000001", "d87212b7001c0000",
		"1100ffff000000120000abcd1f000001", "e3d0dd37",
	},
	{
		"V3 RC READ_REQUEST (IPv6)",
		"600000000028114020010db800000000000000000000000120010db8000000000000000000000002", "c00112b700280000",
		"0c00ffff0000001180ffffff00007f00000010000000123a00001000", "047de23e",
	},
	{
		"V4 RC WRITE_ONLY_IMM, SE",
		"45000048123640004011146d0a0000010a000002", "c13212b700340000",
		"0b90ffff0000001280000100000000000000100000abcd0100000007deadbeef0102030405060700", "e8b95099",
	},
	{
		"V5 RC COMPARE_SWAP",
		"45000048123740004011146c0a0000010a000002", "c13212b700340000",
		"1300ffff0000001280000101000000000000200000abcd0111111111222222223333333344444444", "1146b639",
	},
	{
		"V6 RC ATOMIC_ACKNOWLEDGE",
		"45000038123840004011147b0a0000020a000001", "c13212b700240000",
		"1200ffff00000011000001011f0000023333333344444444", "18f43d4c",
	},
	{
		"V7 RC NAK PSN-seq",
		"4500003012394000401114820a0000020a000001", "c13212b7001c0000",
		"1100ffff000000110000010260000002", "2e00c0a6",
	},
	{
		"V8 RC RNR NAK code 12",
		"45000030123a4000401114810a0000020a000001", "c13212b7001c0000",
		"1100ffff00000011000001022c000002", "50fb99a4",
	},
	{
		"V9 UD SEND_ONLY_IMM (IPv6)",
		"66812345002811ff20010db800000000000000000000000120010db8000000000000000000000002", "e34512b700280000",
		"6500ffff0000002000000007111111110000002101020304aabbccdd", "81a583c2",
	},
	{
		"V10 CNP",
		"45c2003c123b4000401113b20a0000020a000001", "000012b700280000",
		"8100ffff400000110000000000000000000000000000000000000000", "e65f486e",
	},
	{
		"V11 RC ATOMIC_WRITE",
		"45000044123c40004011146b0a0000010a000002", "c13212b700300000",
		"1d00ffff0000001280000103000000000000300000abcd01000000080102030405060708", "5d7fc2d7",
	},
	{
		"V12 RC FLUSH (global, range)",
		"45000040123d40004011146e0a0000010a000002", "c13212b7002c0000",
		"1c00ffff000000128000010400000001000000000000300000abcd0100001000", "d6b5e226",
	},
}

// bytes returns the pieces of the vector, the ICRC as the end of the packet.
func (v vector) bytes(t testing.TB) (ip, udp, pkt []byte) {
	t.Helper()
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatalf("vector %s: %v", v.name, err)
		}
		return b
	}
	return unhex(v.ip), unhex(v.udp), unhex(v.bthToPad + v.icrc)
}

// prefixOf returns the prefix of a captured packet as a sender would make it.
func prefixOf(ip, udp []byte) (p Prefix, id uint16) {
	var src, dst netip.Addr
	if ip[0]>>4 == 4 {
		src, dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
		id = uint16(ip[4])<<8 | uint16(ip[5])
	} else {
		src, dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	}
	number := func(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }
	return NewPrefix(src, dst, number(udp), number(udp[2:]), int(number(udp[4:]))-ipudp.UDPLen), id
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		ip, udp, pkt := v.bytes(t)
		t.Run(v.name, func(t *testing.T) { checkWirePacket(t, ip, udp, pkt) })
	}
}

// checkWirePacket checks everything that is true of a good packet.
func checkWirePacket(t *testing.T, ip, udp, pkt []byte) {
	t.Helper()
	var p Packet
	if f := p.Parse(pkt); f != FaultNone {
		t.Fatalf("a good packet does not parse: %v", f)
	}
	if icrc, ok := HeaderICRC(ip, udp, pkt); !ok || icrc != p.ICRC {
		t.Errorf("HeaderICRC is %08x %v, the packet has %08x", icrc, ok, p.ICRC)
	}
	zero, id := prefixOf(ip, udp)
	if !Check(pkt, zero.WithID(id)) {
		t.Error("Check with the prefix of the addresses refuses a good packet")
	}
	if got, ok := DeriveID(pkt, zero, 0); !ok || got != id {
		t.Errorf("DeriveID gives %#04x %v, the header has %#04x", got, ok, id)
	}
	again := make([]byte, len(pkt))
	if n := p.Build(again); n != len(pkt) || n != Size(p.BTH.Opcode, len(p.Payload)) {
		t.Fatalf("rebuilt packet has %d bytes, the original %d", n, len(pkt))
	}
	Seal(again, zero.WithID(id))
	if string(again) != string(pkt) {
		t.Errorf("rebuilt packet differs:\n got % x\nwant % x", again, pkt)
	}
	if ip[0]>>4 == 4 {
		MoveID(again, id, 0x1234)
		if !Check(again, zero.WithID(0x1234)) {
			t.Error("MoveID to 0x1234 gives an ICRC that is wrong")
		}
	}
}

// parsedVector returns the vector whose name begins with the letters.
func parsedVector(t *testing.T, prefix string) (p Packet) {
	t.Helper()
	for _, v := range vectors {
		if v.name[:len(prefix)+1] == prefix+" " {
			_, _, pkt := v.bytes(t)
			if f := p.Parse(pkt); f != FaultNone {
				t.Fatalf("vector %s: %v", v.name, f)
			}
			return p
		}
	}
	t.Fatalf("no vector %s", prefix)
	return p
}

// TestVectorFields reads vectors field by field.
func TestVectorFields(t *testing.T) {
	bth := BTH{Opcode: UCSendOnly, MigReq: true, PadCnt: 2, PKey: ib.PKeyDefault, DestQP: 211, PSN: ib.NewPSN(13571856)}
	if p := parsedVector(t, "A"); p.BTH != bth || len(p.Payload) != 18 {
		t.Errorf("vector A is %+v with %d bytes, want %+v with 18", p.BTH, len(p.Payload), bth)
	}
	if p := parsedVector(t, "V1"); string(p.Payload) != "hello" {
		t.Errorf("payload of V1 is %q, want hello", p.Payload)
	}
	read := RETH{VA: 0x7f0000001000, RKey: 0x123a, Length: 4096}
	if p := parsedVector(t, "V3"); p.RETH != read || len(p.Payload) != 0 {
		t.Errorf("RETH of V3 is %+v, want %+v", p.RETH, read)
	}
	if p := parsedVector(t, "V4"); !p.BTH.SE || p.Imm != 0xdeadbeef || p.RETH.Length != 7 || len(p.Payload) != 7 {
		t.Errorf("V4 is SE %v imm %08x RETH %+v payload % x", p.BTH.SE, p.Imm, p.RETH, p.Payload)
	}
	atomic := AtomicETH{VA: 0x2000, RKey: 0x00abcd01, SwapAdd: 0x1111111122222222, Compare: 0x3333333344444444}
	if p := parsedVector(t, "V5"); p.AtomicETH != atomic {
		t.Errorf("AtomicETH of V5 is %+v, want %+v", p.AtomicETH, atomic)
	}
	if p := parsedVector(t, "V6"); p.AtomicAck != 0x3333333344444444 || p.AETH != (AETH{ACKUnlimited, 2}) {
		t.Errorf("V6 is AETH %+v value %016x", p.AETH, p.AtomicAck)
	}
	if p := parsedVector(t, "V8"); p.AETH.Syndrome != RNRNAK(12) {
		t.Errorf("syndrome of V8 is %v, want %v", p.AETH.Syndrome, RNRNAK(12))
	}
	deth := DETH{QKey: 0x11111111, SrcQP: 0x21}
	if p := parsedVector(t, "V9"); p.DETH != deth || p.Imm != 0x01020304 {
		t.Errorf("V9 is DETH %+v imm %08x, want %+v", p.DETH, p.Imm, deth)
	}
	if p := parsedVector(t, "V10"); !p.BTH.BECN || p.Info.Kind != KindCNP || len(p.Payload) != 16 {
		t.Errorf("V10 is not a CNP with BECN: %+v", p.BTH)
	}
	if p := parsedVector(t, "V12"); p.FETH != (FETH{Placement: PlacementGlobal}) || p.RETH.Length != 4096 {
		t.Errorf("V12 is FETH %+v RETH %+v", p.FETH, p.RETH)
	}
}
