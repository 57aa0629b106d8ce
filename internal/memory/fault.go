package memory

// Fault says why an access to memory is refused. It is not an error: a
// responder turns it into a NAK, a requester into a completion status. Which
// ones, is their rule (E3, E14, E16, E28).
type Fault uint8

// The faults, in the order in which they are checked.
const (
	FaultNone        Fault = iota // the access is allowed
	FaultKey                      // no such key
	FaultInvalidated              // the region was invalidated
	FaultUnbound                  // the window is not bound
	FaultBound                    // the window is bound, or the region has windows
	FaultType                     // a window of the other type
	FaultPD                       // another protection domain
	FaultQP                       // a window of another queue pair
	FaultAccess                   // a right is missing
	FaultRange                    // outside the region, or beyond the end of the list
	FaultMissing                  // the memory of a foreign region is no longer mapped
	FaultWriteBack                // the memory could not be written back to its file
	FaultInjected                 // on demand
)

var faultNames = [...]string{
	"none", "no such key", "invalidated", "window not bound", "bound already", "wrong type of window",
	"wrong protection domain", "window of another queue pair", "access right missing", "out of range", "memory not mapped",
	"cannot be written back to its file", "fault on demand",
}

// String returns the fault in words.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return "unknown fault"
}
