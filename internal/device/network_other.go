//go:build !linux

package device

import "errors"

// networkChanges is there for Linux only.
func networkChanges() (next func() bool, closer func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
