package roce

import "testing"

func TestSyndromeTypes(t *testing.T) {
	for v := range 256 {
		s := Syndrome(v)
		ack, rnr, nak := v < 0x20, v >= 0x20 && v < 0x40, v >= 0x60 && v < 0x80
		if s.IsACK() != ack || s.IsRNR() != rnr || s.IsNAK() != nak {
			t.Errorf("syndrome %#02x: ACK %v RNR %v NAK %v, want %v %v %v", v, s.IsACK(), s.IsRNR(), s.IsNAK(), ack, rnr, nak)
		}
		if s.Value() != uint8(v%32) {
			t.Errorf("syndrome %#02x: value %d, want %d", v, s.Value(), v%32)
		}
	}
}

func TestSyndromeNames(t *testing.T) {
	for s, want := range map[Syndrome]string{
		ACKUnlimited: "ACK(31)", ACKCredits(0xe3): "ACK(3)", RNRNAK(0xff): "RNR_NAK(31)", RNRNAK(12): "RNR_NAK(12)",
		NAKSequence: "NAK_SEQUENCE", NAKInvalidRequest: "NAK_INVALID_REQUEST", NAKRemoteAccess: "NAK_REMOTE_ACCESS",
		NAKRemoteOperational: "NAK_REMOTE_OPERATIONAL", NAKInvalidRD: "NAK_INVALID_RD",
		0x65: "NAK(5)", 0x41: "RESERVED(0x41)", 0x80: "RESERVED(0x80)",
	} {
		if got := s.String(); got != want {
			t.Errorf("syndrome %#02x is called %q, want %q", uint8(s), got, want)
		}
	}
}
