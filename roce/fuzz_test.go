package roce

import "testing"

// seedFuzz gives a fuzz target the vectors and a built packet of each opcode.
func seedFuzz(f *testing.F) {
	for _, v := range vectors {
		_, _, pkt := v.bytes(f)
		f.Add(pkt)
	}
	for v := range 256 {
		p := samplePacket(Opcode(v), v%7)
		b := make([]byte, 128)
		f.Add(b[:p.Build(b)])
	}
}

// FuzzParse shows that no bytes make Parse panic, and that the lengths of
// what it accepts add up.
func FuzzParse(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		if p.Parse(b) != FaultNone {
			return
		}
		if got := int(p.Info.HeaderLen) + len(p.Payload) + int(p.BTH.PadCnt) + ICRCLen; got != len(b) {
			t.Errorf("headers, payload, padding and ICRC are %d bytes of %d", got, len(b))
		}
		if Size(p.BTH.Opcode, len(p.Payload)) != len(b) {
			t.Errorf("Size is %d for a packet of %d bytes", Size(p.BTH.Opcode, len(p.Payload)), len(b))
		}
		prefix := NewPrefix(samplePaths[0].src, samplePaths[0].dst, 0xc000, Port, len(b))
		if _, ok := DeriveID(b, prefix, 0); Check(b, prefix) && !ok {
			t.Error("Check accepts what DeriveID refuses")
		}
	})
}

// FuzzRoundTrip shows that a parsed packet is rebuilt to the same bytes, but
// for padding that was not zero.
func FuzzRoundTrip(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		if p.Parse(b) != FaultNone {
			return
		}
		end := len(b) - ICRCLen
		want := append([]byte(nil), b[:end]...)
		clear(want[end-int(p.BTH.PadCnt):])
		got := make([]byte, len(b))
		if n := p.Build(got); n != len(b) || string(got[:end]) != string(want) {
			t.Errorf("rebuilt to\n% x, want\n% x", got[:end], want)
		}
		var q Packet
		if fault := q.Parse(got); fault != FaultNone || q.BTH != p.BTH {
			t.Errorf("the rebuilt packet parses with fault %v to %+v", fault, q.BTH)
		}
	})
}
