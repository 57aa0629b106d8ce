//go:build !linux

package device

import "errors"

// networkChanges exists only on Linux.
func networkChanges() (next func() bool, closer func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
