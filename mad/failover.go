package mad

// Failover is what the passive side thinks of the alternate path of a REQ, 2
// bits.
type Failover uint8

// The answers.
const (
	FailoverAccepted Failover = iota
	FailoverUnsupported
	FailoverRejected
)

var failoverNames = [...]string{"accepted", "not supported", "rejected"}

// String returns the answer in words.
func (f Failover) String() string { return name(failoverNames[:], int(f), "Failover") }
