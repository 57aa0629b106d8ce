//go:build !linux

package explore

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/softhca/softhca/ib"
)

// Run fails: programs run on the libraries in C only on Linux.
func (p *Program) Run(context.Context, *Fault, time.Duration, io.Writer) (*Run, error) {
	return nil, fmt.Errorf("explore on %s: %w", runtime.GOOS, ib.EOPNOTSUPP)
}
