package nodes

import (
	"errors"
	"net"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
)

// Coded is an error with the status that the program returns for it.
type Coded struct {
	Code int
	Err  error
}

// Error is that of the error.
func (c *Coded) Error() string { return c.Err.Error() }

// Unwrap returns the error.
func (c *Coded) Unwrap() error { return c.Err }

// What the programs return where no event tells.
const (
	statusFailed = -1
	statusNoName = -2 // EAI_NONAME
)

// Status returns what the programs of rdmacm-utils return after an error: 0 for
// none, the status of the event that it was, or a negative number.
func Status(err error) int {
	var coded *Coded
	var failure *adapter.Failure
	var lookup *net.DNSError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &failure) && failure.Status != 0:
		return failure.Status
	case errors.As(err, &lookup):
		return statusNoName
	default:
		return statusFailed
	}
}
