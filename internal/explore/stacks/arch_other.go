//go:build !amd64 && !arm64

package stacks

import "github.com/softhca/softhca/internal/explore/stacks/cfi"

// Threads are not traced on other processors.
const (
	framePointer  = 0
	stackPointer  = 1
	pcMask        = ^uint64(0)
	crossingFrame = 0
	numSaved      = 0
)

func registers(*[numSaved]uint64) *cfi.Registers { return new(cfi.Registers) }

func (s *space) fromCall(*cfi.Registers) *cfi.Registers { return nil }
