package verbs

import "github.com/softhca/softhca/ib"

// Error is a reason for which the adapter refuses a call. It unwraps to an error
// number, so both errors.Is(err, ErrInvalidPD) and errors.Is(err, syscall.EINVAL)
// hold.
//
//	func (e Error) Error() string
//	func (e Error) Unwrap() error
type Error = ib.Error

// The reasons, with the error number that each unwraps to.
const (
	ErrInvalidHCA            Error = ib.ErrInvalidHCA            // ENODEV: the device context is nil or closed
	ErrInsufficientResources Error = ib.ErrInsufficientResources // ENOMEM: the adapter holds no more objects of this kind
	ErrInvalidPD             Error = ib.ErrInvalidPD             // EINVAL: the PD is nil, deallocated, or of another adapter
	ErrInvalidCQ             Error = ib.ErrInvalidCQ             // EINVAL: the CQ is nil, destroyed, or of another adapter
	ErrInvalidSRQ            Error = ib.ErrInvalidSRQ            // EINVAL: the SRQ is nil, destroyed, or of another adapter
	ErrInvalidServiceType    Error = ib.ErrInvalidServiceType    // EOPNOTSUPP: the adapter has no queue pairs of this type
	ErrInvalidRDD            Error = ib.ErrInvalidRDD            // EINVAL: the reliable datagram domain is nil, deallocated, or of another adapter
	ErrInvalidXRCD           Error = ib.ErrInvalidXRCD           // EINVAL: the XRC domain is nil, closed, or of another adapter
	ErrTooManyWRs            Error = ib.ErrTooManyWRs            // EINVAL: a queue would have more entries than the adapter allows
	ErrTooManySGEs           Error = ib.ErrTooManySGEs           // EINVAL: a work request would have more elements than the adapter allows
	ErrTooMuchInline         Error = ib.ErrTooMuchInline         // EINVAL: a work request would have more inline data than the adapter allows
	ErrBusy                  Error = ib.ErrBusy                  // EBUSY: other objects use the object, or one of its events is not acknowledged
)
