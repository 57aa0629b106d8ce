package page

import (
	"math/big"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// read returns a field of a packet.
func read(head []byte, at int, f field) uint64 {
	v := new(big.Int).SetBytes(head[at:])
	v.Rsh(v, uint(8*(len(head)-at)-f.At-f.Bits))
	return v.And(v, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(f.Bits)), big.NewInt(1))).Uint64()
}

// TestLayout builds a packet of every opcode, and reads every field where the
// table says that it is.
func TestLayout(t *testing.T) {
	want := map[string]uint64{
		"Solicited event": 1, "Migration state": 0, "Pad count": 3, "Transport version": 0, "P_Key": 0x7fee, "FECN": 1, "BECN": 0, "Destination QP": 0x123456,
		"Acknowledge request": 1, "PSN": 0x654321, "EE context": 0xabcdef, "Q_Key": 0x8000_1234, "Source QP": 0xfedcba, "SRQ": 0x010203, "Selectivity": 1,
		"Placement": 2, "Virtual address": 0x1122_3344_5566_7788, "R_Key": 0x99aa_bbcc, "DMA length": 0x0102_0304, "Swap or add data": 0x8877_6655_4433_2211,
		"Compare data": 0x0f0e_0d0c_0b0a_0908, "Syndrome": 0x62, "MSN": 0x00beef, "Original data": 0xdead_beef_cafe_f00d, "Immediate data": 0x0bad_cafe,
		"R_Key to invalidate": 0x1357_9bdf,
	}
	seen := map[string]bool{}
	for op, o := range operations() {
		want["Opcode"] = uint64(op)
		p := roce.Packet{
			BTH:   roce.BTH{Opcode: roce.Opcode(op), SE: true, PKey: 0x7fee, FECN: true, DestQP: 0x123456, AckReq: true, PSN: ib.NewPSN(0x654321)},
			RDETH: roce.RDETH{EEC: 0xabcdef}, DETH: roce.DETH{QKey: 0x8000_1234, SrcQP: 0xfedcba}, XRCETH: roce.XRCETH{SRQN: 0x010203},
			FETH: roce.FETH{Placement: 2, Selectivity: 1}, RETH: roce.RETH{VA: want["Virtual address"], RKey: 0x99aa_bbcc, Length: 0x0102_0304},
			AtomicETH: roce.AtomicETH{VA: want["Virtual address"], RKey: 0x99aa_bbcc, SwapAdd: want["Swap or add data"], Compare: want["Compare data"]},
			AETH:      roce.AETH{Syndrome: 0x62, MSN: 0x00beef}, AtomicAck: want["Original data"], Imm: 0x0bad_cafe, InvRKey: 0x1357_9bdf,
			Payload: []byte{1},
		}
		b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
		p.Build(b)
		at := 0
		for _, k := range append([]int{0}, o.Headers...) {
			for _, f := range headers[k].Fields {
				seen[f.Name] = true
				if got := read(b[:p.BTH.Opcode.Info().HeaderLen], at, f); got != want[f.Name] {
					t.Errorf("%s, %s: %s is %#x, not %#x", o.Name, headers[k].Name, f.Name, got, want[f.Name])
				}
			}
			at += headers[k].Bytes
		}
		if at != int(p.BTH.Opcode.Info().HeaderLen) {
			t.Errorf("%s: the headers have %d bytes, not %d", o.Name, at, p.BTH.Opcode.Info().HeaderLen)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("no packet has a field %q", name)
		}
	}
}
