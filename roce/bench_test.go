package roce

import "testing"

// benchPacket returns a sealed WRITE with n bytes of payload and its prefix.
func benchPacket(n int) ([]byte, Packet, Prefix) {
	p := samplePacket(RCRDMAWriteOnly, n)
	b := make([]byte, Size(p.BTH.Opcode, n))
	p.Build(b)
	zero := NewPrefix(samplePaths[0].src, samplePaths[0].dst, 0xc000, Port, len(b))
	Seal(b, zero.WithID(99))
	return b, p, zero
}

func BenchmarkParse(b *testing.B) {
	pkt, _, _ := benchPacket(64)
	b.ReportAllocs()
	var p Packet
	for b.Loop() {
		if p.Parse(pkt) != FaultNone {
			b.Fatal("fault")
		}
	}
}

func BenchmarkPutHeaders(b *testing.B) {
	pkt, p, _ := benchPacket(64)
	b.ReportAllocs()
	for b.Loop() {
		p.PutHeaders(pkt)
	}
}

func BenchmarkNewPrefix(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewPrefix(samplePaths[0].src, samplePaths[0].dst, 0xc000, Port, 64)
	}
}

func benchmarkSeal(b *testing.B, n int) {
	pkt, _, p := benchPacket(n)
	b.ReportAllocs()
	b.SetBytes(int64(len(pkt)))
	for b.Loop() {
		Seal(pkt, p.WithID(1))
	}
}

func BenchmarkSeal64(b *testing.B)   { benchmarkSeal(b, 64) }
func BenchmarkSeal4096(b *testing.B) { benchmarkSeal(b, 4096) }

func BenchmarkCheck64(b *testing.B) {
	pkt, _, p := benchPacket(64)
	p = p.WithID(99)
	b.ReportAllocs()
	for b.Loop() {
		if !Check(pkt, p) {
			b.Fatal("wrong ICRC")
		}
	}
}

func BenchmarkDeriveID64(b *testing.B) {
	pkt, _, p := benchPacket(64)
	b.ReportAllocs()
	for b.Loop() {
		if id, ok := DeriveID(pkt, p, 0); !ok || id != 99 {
			b.Fatal("wrong identification")
		}
	}
}

func BenchmarkMoveID(b *testing.B) {
	pkt, _, _ := benchPacket(64)
	b.ReportAllocs()
	for b.Loop() {
		MoveID(pkt, 1, 2)
	}
}
