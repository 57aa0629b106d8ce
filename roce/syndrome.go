package roce

import "strconv"

// Syndrome is the verdict of an acknowledge: bits 6 and 5 its type, bits 4
// to 0 a value; bit 7 is reserved and zero (IBA 9.3.5).
type Syndrome uint8

// The syndromes that have a value of their own.
const (
	ACKUnlimited         Syndrome = 0x1f // ACK without a credit count
	NAKSequence          Syndrome = 0x60 // a PSN is missing
	NAKInvalidRequest    Syndrome = 0x61
	NAKRemoteAccess      Syndrome = 0x62
	NAKRemoteOperational Syndrome = 0x63
	NAKInvalidRD         Syndrome = 0x64
)

const (
	syndromeType  Syndrome = 0xe0
	syndromeValue Syndrome = 0x1f
	typeACK       Syndrome = 0x00
	typeRNR       Syndrome = 0x20
	typeNAK       Syndrome = 0x60
)

var nakNames = [...]string{
	"NAK_SEQUENCE", "NAK_INVALID_REQUEST", "NAK_REMOTE_ACCESS", "NAK_REMOTE_OPERATIONAL", "NAK_INVALID_RD",
}

// ACKCredits returns the ACK that carries a credit code (ib.CreditCode); bits
// above the fifth are dropped.
func ACKCredits(code uint8) Syndrome { return typeACK | Syndrome(code)&syndromeValue }

// RNRNAK returns the receiver-not-ready NAK with a timer code (ib.RNRTimer);
// bits above the fifth are dropped.
func RNRNAK(code uint8) Syndrome { return typeRNR | Syndrome(code)&syndromeValue }

// IsACK reports whether s is an ACK, with or without credits.
func (s Syndrome) IsACK() bool { return s&syndromeType == typeACK }

// IsRNR reports whether s is a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&syndromeType == typeRNR }

// IsNAK reports whether s is a NAK other than receiver-not-ready, also one
// with a reserved code.
func (s Syndrome) IsNAK() bool { return s&syndromeType == typeNAK }

// Value returns the low five bits: a credit code, a timer code or a NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & syndromeValue) }

// String returns the syndrome in words, such as "ACK(31)", "RNR_NAK(12)" or
// "NAK_SEQUENCE".
func (s Syndrome) String() string {
	v := strconv.Itoa(int(s.Value()))
	switch {
	case s.IsACK():
		return "ACK(" + v + ")"
	case s.IsRNR():
		return "RNR_NAK(" + v + ")"
	case s.IsNAK() && int(s.Value()) < len(nakNames):
		return nakNames[s.Value()]
	case s.IsNAK():
		return "NAK(" + v + ")"
	default:
		return "RESERVED(0x" + strconv.FormatUint(uint64(s), 16) + ")"
	}
}
