//go:build !linux

package sites

import (
	"fmt"
	"runtime"

	"github.com/softhca/softhca/ib"
)

// Open fails: the files are shared memory of Linux.
func Open(string) (*Log, error) {
	return nil, fmt.Errorf("sites of failures on %s: %w", runtime.GOOS, ib.EOPNOTSUPP)
}
