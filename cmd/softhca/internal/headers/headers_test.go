package headers

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

func TestEveryOpcode(t *testing.T) {
	known := 0
	for op := range 256 {
		info := roce.Opcode(op).Info()
		if !info.Known {
			continue
		}
		known++
		in := roce.Packet{
			BTH:  roce.BTH{Opcode: roce.Opcode(op), PSN: ib.NewPSN(0xabcdef), DestQP: 0x123456},
			RETH: roce.RETH{VA: 1 << 40, RKey: 7, Length: 99}, AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess, MSN: 5},
			AtomicETH: roce.AtomicETH{VA: 8, RKey: 9, SwapAdd: 10, Compare: 11}, Imm: 12, InvRKey: 12, AtomicAck: 13,
			Payload: []byte{1, 2, 3},
		}
		var whole [256]byte
		size := in.Build(whole[:])
		p, fault := Parse(whole[:info.HeaderLen])
		if fault != roce.FaultNone {
			t.Errorf("%v: headers alone do not parse: %v", roce.Opcode(op), fault)
			continue
		}
		var want roce.Packet
		want.Parse(whole[:size])
		want.Payload, want.ICRC, p.ICRC = nil, 0, 0
		var a, b [roce.MaxHeaderLen]byte
		if n, m := p.PutHeaders(a[:]), want.PutHeaders(b[:]); n != m || a != b || p.BTH.PadCnt != 1 {
			t.Errorf("%v: headers alone read as\n%x, as part of the packet as\n%x", roce.Opcode(op), a[:n], b[:m])
		}
		if _, fault := Parse(whole[:info.HeaderLen-1]); fault == roce.FaultNone {
			t.Errorf("%v: headers that lack a byte parse", roce.Opcode(op))
		}
	}
	if known == 0 {
		t.Fatal("no opcode is known")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x13, 0x70, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, fault := Parse(b)
		if fault == roce.FaultNone && len(b) < int(p.Info.HeaderLen) {
			t.Errorf("%d bytes parse as %v, whose headers have %d", len(b), p.BTH.Opcode, p.Info.HeaderLen)
		}
	})
}
