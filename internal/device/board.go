package device

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
)

// Board is what others may see of an adapter while it runs, without asking it.
// It has no pointers, so it may be memory that processes share; who reads it
// reads one word at a time. An adapter that is opened with the board of one that
// was closed counts on from there.
type Board struct {
	Engine counters.Set
	Port   fabric.Counts
	Down   atomic.Uint64 // 1 while the host has lost all addresses of the adapter
}
