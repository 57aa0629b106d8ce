//go:build !linux

package launch

import (
	"context"
	"errors"
	"fmt"
)

// Run fails: programs use RDMA by libibverbs on Linux only.
func (*Options) Run(context.Context) error {
	return &Error{CodeFailed, fmt.Errorf("programs can be run over softhca on Linux: %w", errors.ErrUnsupported)}
}

// RunBeside fails: programs use RDMA by libibverbs on Linux only.
func (o *Options) RunBeside(ctx context.Context) (code int, err error) { return 0, o.Run(ctx) }

// CheckDevice accepts every name: Run fails on this system.
func (*Options) CheckDevice() error { return nil }
