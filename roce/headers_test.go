package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestParseHeadersOfEveryOpcode(t *testing.T) {
	known := 0
	for op := range 256 {
		info := Opcode(op).Info()
		if !info.Known {
			continue
		}
		known++
		in := Packet{
			BTH:  BTH{Opcode: Opcode(op), PSN: ib.NewPSN(0xabcdef), DestQP: 0x123456},
			RETH: RETH{VA: 1 << 40, RKey: 7, Length: 99}, AETH: AETH{Syndrome: NAKRemoteAccess, MSN: 5},
			AtomicETH: AtomicETH{VA: 8, RKey: 9, SwapAdd: 10, Compare: 11}, Imm: 12, InvRKey: 12, AtomicAck: 13,
			Payload: []byte{1, 2, 3},
		}
		var whole [256]byte
		size := in.Build(whole[:])
		var p Packet
		fault := p.ParseHeaders(whole[:info.HeaderLen])
		if fault != FaultNone {
			t.Errorf("%v: headers alone do not parse: %v", Opcode(op), fault)
			continue
		}
		var want Packet
		want.Parse(whole[:size])
		want.Payload, want.ICRC, p.ICRC = nil, 0, 0
		var a, b [MaxHeaderLen]byte
		if n, m := p.PutHeaders(a[:]), want.PutHeaders(b[:]); n != m || a != b || p.BTH.PadCnt != 1 {
			t.Errorf("%v: headers alone read as\n%x, as part of the packet as\n%x", Opcode(op), a[:n], b[:m])
		}
		if fault := new(Packet).ParseHeaders(whole[:info.HeaderLen-1]); fault == FaultNone {
			t.Errorf("%v: headers that lack a byte parse", Opcode(op))
		}
	}
	if known == 0 {
		t.Fatal("no opcode is known")
	}
}

func FuzzParseHeaders(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x13, 0x70, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		fault := p.ParseHeaders(b)
		if fault == FaultNone && len(b) < int(p.Info.HeaderLen) {
			t.Errorf("%d bytes parse as %v, whose headers have %d", len(b), p.BTH.Opcode, p.Info.HeaderLen)
		}
	})
}
