package mad

// SIDRStatus is the outcome that a SIDR_REP reports.
type SIDRStatus uint8

// The outcomes.
const (
	SIDRValid SIDRStatus = iota
	SIDRUnsupportedService
	SIDRRejected
	SIDRNoQP
	SIDRRedirect
	SIDRUnsupportedVersion
)

var sidrStatusNames = [...]string{
	"valid", "unsupported service id", "rejected", "no QP", "redirect", "unsupported version",
}

// String returns the outcome in words.
func (s SIDRStatus) String() string { return name(sidrStatusNames[:], int(s), "SIDRStatus") }
