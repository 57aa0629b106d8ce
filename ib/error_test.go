package ib

import (
	"errors"
	"testing"
)

func TestErrorsUnwrapToAnErrno(t *testing.T) {
	for e := ErrInvalidHCA; e <= ErrBusy; e++ {
		errno := errorTable[e].errno
		if errno == 0 || errorTable[e].text == "" {
			t.Errorf("Error(%d) has no text or no error number", e)
		}
		if err := error(e); !errors.Is(err, e) || !errors.Is(err, errno) {
			t.Errorf("%v is not both itself and %v", err, errno)
		}
		if want := errorTable[e].text + ": " + errno.Error(); e.Error() != want {
			t.Errorf("Error(%d) says %q, want %q", e, e.Error(), want)
		}
	}
	for _, e := range []Error{0, ErrBusy + 1, 255} {
		if e.Unwrap() != nil {
			t.Errorf("Error(%d) unwraps to %v, want nil: it has no meaning", e, e.Unwrap())
		}
		if e.Error() == "" {
			t.Errorf("Error(%d) has no text", e)
		}
	}
}
