//go:build !linux

package device

import "errors"

// WritesBack says whether memory can be durable on this system.
const WritesBack = false

// durable reports that no memory is: only Linux says what memory is mapped from.
func durable([]byte) bool { return false }

// writeBack is never called.
func writeBack([]byte) error { return errors.ErrUnsupported }
