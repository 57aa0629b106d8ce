//go:build !linux

package raw

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/softhca/softhca/internal/fabric"
)

// Port exists on Linux only: Open returns none.
type Port struct{ fabric.Port }

// Open checks c and fails: errors.ErrUnsupported.
func Open(c Config) (*Port, error) {
	if _, err := c.normal(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("raw: %s has no packet sockets as Linux has; use a UDP port: %w", runtime.GOOS, errors.ErrUnsupported)
}
