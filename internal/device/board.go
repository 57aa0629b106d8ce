package device

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
)

// Board holds the counters of a running adapter, which other processes may read
// directly. It contains no pointers, so it can be in shared memory; readers read
// one word at a time. An adapter opened with the board of a closed one continues
// its counts.
type Board struct {
	Engine counters.Set
	Port   fabric.Counts
	Down   atomic.Uint64 // 1 while the host has lost all addresses of the adapter
}
