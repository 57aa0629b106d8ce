package ib

// Error is a reason for which the adapter refuses a call. It unwraps to an error
// number, so both errors.Is(err, ErrInvalidPD) and errors.Is(err, EINVAL) hold.
type Error uint8

// The reasons. The zero Error is not one of them.
const (
	ErrInvalidHCA            Error = iota + 1 // ENODEV: the device context is nil or closed
	ErrInsufficientResources                  // ENOMEM: the adapter holds no more objects of this kind
	ErrInvalidPD                              // EINVAL: the PD is nil, deallocated, or of another adapter
	ErrInvalidCQ                              // EINVAL: the CQ is nil, destroyed, or of another adapter
	ErrInvalidSRQ                             // EINVAL: the SRQ is nil, destroyed, or of another adapter
	ErrInvalidServiceType                     // EOPNOTSUPP: the adapter has no queue pairs of this type
	ErrInvalidRDD                             // EINVAL: the reliable datagram domain is nil, deallocated, or of another adapter
	ErrInvalidXRCD                            // EINVAL: the XRC domain is nil, closed, or of another adapter
	ErrTooManyWRs                             // EINVAL: a queue would have more entries than the adapter allows
	ErrTooManySGEs                            // EINVAL: a work request would have more elements than the adapter allows
	ErrTooMuchInline                          // EINVAL: a work request would have more inline data than the adapter allows
	ErrBusy                                   // EBUSY: other objects use the object, or one of its events is not acknowledged
)

// errorTable has the text and the error number of each reason.
var errorTable = [...]struct {
	text  string
	errno Errno
}{
	ErrInvalidHCA:            {"invalid HCA: the device context is nil or closed", ENODEV},
	ErrInsufficientResources: {"insufficient resources", ENOMEM},
	ErrInvalidPD:             {"invalid protection domain", EINVAL},
	ErrInvalidCQ:             {"invalid completion queue", EINVAL},
	ErrInvalidSRQ:            {"invalid shared receive queue", EINVAL},
	ErrInvalidServiceType:    {"invalid service type", EOPNOTSUPP},
	ErrInvalidRDD:            {"invalid reliable datagram domain", EINVAL},
	ErrInvalidXRCD:           {"invalid XRC domain", EINVAL},
	ErrTooManyWRs:            {"more work requests than the adapter's queues hold", EINVAL},
	ErrTooManySGEs:           {"more scatter/gather elements than a work request has", EINVAL},
	ErrTooMuchInline:         {"more inline data than a work request has", EINVAL},
	ErrBusy:                  {"object is in use", EBUSY},
}

// Error returns the reason and the text of its error number.
func (e Error) Error() string {
	if e.known() {
		return errorTable[e].text + ": " + errorTable[e].errno.Error()
	}
	return name(nil, int(e), "Error")
}

// Unwrap returns the error number, nil for an Error without a meaning.
func (e Error) Unwrap() error {
	if e.known() {
		return errorTable[e].errno
	}
	return nil
}

func (e Error) known() bool { return e > 0 && int(e) < len(errorTable) }
