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

// runApart fails as Run does.
func (p *Program) runApart(ctx context.Context, _ int, f *Fault, limit time.Duration) (*Run, error) {
	return p.Run(ctx, f, limit, nil)
}

// JobCommand is no command here.
const JobCommand = "explore-job"

// Serve fails as Run does.
func Serve(ctx context.Context, _ io.Reader, _ io.Writer) error {
	_, err := (&Program{}).Run(ctx, nil, 0, nil)
	return err
}
