package verbs

import "fmt"

// PostError says which work request of a list was refused.
type PostError struct {
	Index int    // in the list
	WRID  uint64 // of the work request
	Err   error  // why; unwraps to an errno
}

// Error names the work request and the cause.
func (e *PostError) Error() string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("work request %d (wr_id %#x): %v", e.Index, e.WRID, e.Err)
}

// Unwrap returns the cause.
func (e *PostError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// wrap says what an error, if it is one, kept from being done.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

var _ error = (*PostError)(nil)
