package verbs

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/trace"
)

// The vocabulary of the verbs, from package ib.
type (
	// SendWR is a send work request.
	SendWR = ib.SendWR
	// RecvWR is a receive work request.
	RecvWR = ib.RecvWR
	// SGE is a scatter/gather element.
	SGE = ib.SGE
	// WC is a work completion.
	WC = ib.WC
	// QPAttr holds the attributes of a QP.
	QPAttr = ib.QPAttr
	// QPCap holds the sizes of a QP.
	QPCap = ib.QPCap
	// AHAttr is an address vector.
	AHAttr = ib.AHAttr
	// TraceRecord is one thing that happened on a QP; see Config.Trace.
	TraceRecord = trace.Record
)

// The ways in which creating a queue pair fails (V6). Each unwraps to an
// errno of its own kind: ENOMEM, ENODEV, EINVAL or EOPNOTSUPP.
var (
	ErrInsufficientResources = hca.ErrNoResources
	ErrInvalidPD             = hca.ErrInvalidPD
	ErrInvalidCQ             = hca.ErrInvalidCQ
	ErrInvalidSRQ            = hca.ErrInvalidSRQ
	ErrInvalidServiceType    = hca.ErrInvalidServiceType
	ErrInvalidRDD            = hca.ErrInvalidRDD // nothing returns it while RD is an invalid service type
	ErrTooManyWRs            = hca.ErrTooManyWRs
	ErrTooManySGEs           = hca.ErrTooManySGEs
	ErrTooMuchInline         = hca.ErrTooMuchInline
	// ErrBusy says that an object still serves others, or that events about
	// it were taken but not acknowledged. It unwraps to EBUSY.
	ErrBusy = hca.ErrBusy
)
