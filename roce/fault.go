package roce

// Fault says why bytes are not a packet. It is a reason to drop and count
// them, not an error value: nothing went wrong here.
type Fault uint8

// The faults, in the order in which Parse looks for them.
const (
	FaultNone    Fault = iota
	FaultShort         // less than a BTH and an ICRC
	FaultVersion       // transport version other than 0
	FaultOpcode        // an opcode that is not assigned
	FaultLength        // no room for the opcode's headers, or not a multiple of 4 bytes
	FaultPad           // more padding than there are bytes after the headers
)

var faultNames = [...]string{"none", "short", "version", "opcode", "length", "pad"}

// String returns the fault in a word, such as "opcode".
func (f Fault) String() string { return nameOf(faultNames[:], int(f), "Fault") }
