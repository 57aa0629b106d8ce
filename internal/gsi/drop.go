package gsi

// Drop says why an arriving packet had no effect. It is a count, never an
// error value: the peer is not told.
type Drop uint8

// The reasons.
const (
	DropService  Drop = iota // opcode of another transport service
	DropAddress              // from or to what cannot be answered: multicast, QP0
	DropPKey                 // no entry of the port's table matches
	DropQKey                 // not that of QP1
	DropOpcode               // a datagram with immediate data
	DropLength               // not the 256 bytes of a MAD
	DropVersion              // base version of no known MAD
	DropAgent                // nothing takes its class, version, method or attribute, and it wants no answer
	DropResponse             // answer to nothing that waits
	DropAnswer               // it wants an answer, and too many wait to be sent
	NumDrops
)

// Admitted reports whether the packet was one for QP1 before it was dropped:
// its service, addresses and keys were right.
func (d Drop) Admitted() bool { return d > DropQKey }

// The names are those of the adapter's counters for the same reasons.
var dropNames = [NumDrops]string{
	"service", "address", "pkey_violations", "qkey_violations", "opcode", "length", "mad_version", "mad_agent",
	"response", "mad_answer",
}

// String returns the name of the reason as it appears among the counters.
func (d Drop) String() string {
	if d < NumDrops {
		return dropNames[d]
	}
	return "drop"
}
