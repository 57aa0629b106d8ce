package writes

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/memory"
)

// The rules allow these variables, in this package alone: an adapter cannot learn of the others otherwise.
var (
	log    memory.WriteLog
	opened atomic.Uint64 // adapters that do not log, ever
	closed atomic.Uint64
	sink   atomic.Value // of package live
)

// Sink has the sink of the process, to which adapters report that the environment makes checked.
func Sink() *atomic.Value { return &sink }

// Log returns the log of the process.
func Log() *memory.WriteLog { return &log }

// Unlogged notes that an adapter which does not log is about to be opened. The caller calls ended once,
// when the adapter makes no more writes.
func Unlogged() (ended func()) {
	opened.Add(1)
	return func() { closed.Add(1) }
}

// recent is the number of writes before a mark that may not have ended: an adapter records a write before it copies.
const recent = 16

// Mark is a point in time.
type Mark struct{ logged, opened, closed uint64 }

// Now returns the mark of the current time.
func Now() Mark {
	m := Mark{closed: closed.Load()} // first: both only grow, and closed is never more than opened
	m.opened, m.logged = opened.Load(), log.Count()
	m.logged -= min(m.logged, recent)
	return m
}

// NotBefore returns a mark at which the first n writes have ended.
func (m Mark) NotBefore(n uint64) Mark {
	m.logged = max(m.logged, n)
	return m
}

// Wrote reports whether an adapter may have written to b since a mark, or was still writing then.
func (m Mark) Wrote(b []byte) bool {
	return m.opened != m.closed || opened.Load() != m.opened || log.Wrote(m.logged, b)
}
