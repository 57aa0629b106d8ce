package mad

// APRStatus is the outcome that an APR reports.
type APRStatus uint8

// The outcomes.
const (
	APRAccepted APRStatus = iota
	APRInvalidCommID
	APRUnsupported
	APRRejected
	APRRedirect
	APRCurrentPath // the alternate path is the one in use
	APRInvalidQPN
	APRInvalidLID
	APRInvalidGID
	APRInvalidFlowLabel
	APRInvalidTrafficClass
	APRInvalidHopLimit
	APRInvalidPacketRate
	APRInvalidSL
)

var aprStatusNames = [...]string{
	"accepted", "invalid communication id", "unsupported", "rejected", "redirect", "current path",
	"invalid QPN", "invalid LID", "invalid GID", "invalid flow label", "invalid traffic class",
	"invalid hop limit", "invalid packet rate", "invalid SL",
}

// String returns the outcome in words.
func (s APRStatus) String() string { return name(aprStatusNames[:], int(s), "APRStatus") }
