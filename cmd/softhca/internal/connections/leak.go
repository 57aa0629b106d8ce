package connections

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/verbs"
)

// Counts are the objects and memory that connections could leave behind.
type Counts struct {
	IDs        int             `json:"ids"`        // of rdmacm, both sides together
	Client     verbs.Resources `json:"client"`     // the adapter's objects
	Server     verbs.Resources `json:"server"`     // likewise
	Goroutines int             `json:"goroutines"` // of the process
	HeapBytes  uint64          `json:"heap_bytes"` // that are reachable
}

// parts is the number of parts of the cycles. Memory kept for reuse grows in steps to
// its maximum, in one part or another; leaked memory grows in each part.
const parts = 3

// Leaks compares the counts before the cycles and after each part of them.
type Leaks struct {
	Before Counts        `json:"before"` // the cycles
	After  [parts]Counts `json:"after"`  // each third of them
	Clean  bool          `json:"clean"`  // nothing is left over
}

// The allowed growth of the heap in each part but the first. The noise includes pages
// of two tables of QPNs that the first cycles did not use. The growth per cycle is less
// than the smallest object of a connection; many cycles in a short time fill tables
// with connections in TIMEWAIT.
const (
	heapNoise    = 192 << 10 // bytes
	heapPerCycle = 64
)

// judge sets Clean. cycles is the number of cycles in each part.
func (l *Leaks) judge(cycles int) {
	b, a := l.Before, l.After[parts-1]
	l.Clean = a.IDs == b.IDs && a.Client == b.Client && a.Server == b.Server && a.Goroutines <= b.Goroutines &&
		l.growth() <= heapNoise+heapPerCycle*int64(cycles)
}

// growth returns the smallest growth of the heap in the parts after the first.
func (l *Leaks) growth() int64 {
	least := int64(math.MaxInt64)
	for i := 1; i < parts; i++ {
		least = min(least, int64(l.After[i].HeapBytes)-int64(l.After[i-1].HeapBytes))
	}
	return least
}

// String describes the leaks.
func (l *Leaks) String() string {
	line, last := "nothing is left over", &l.After[parts-1]
	if !l.Clean {
		line = fmt.Sprintf("SOMETHING IS LEFT OVER: before %+v, after %+v", l.Before, *last)
	}
	line += fmt.Sprintf(": %s of a listener, %d + %d queue pairs, %d + %d connections, %d goroutines as before; heap", text.Count(last.IDs, "ID", "IDs"),
		last.Client.QPs, last.Server.QPs, last.Client.CMIDs, last.Server.CMIDs, last.Goroutines)
	for _, c := range l.After {
		line += fmt.Sprintf(" %d", c.HeapBytes>>10)
	}
	return line + " kB after each third"
}

// Limits of the wait for connections in TIMEWAIT, which lasts 2.2 s with the defaults of
// the protocol.
const (
	quietPoll = 20 * time.Millisecond
	quietMost = time.Minute
)

// count returns the counts when no connection is in TIMEWAIT, the server has ended all
// connections, and garbage is collected.
func (r *rerun) count(ctx context.Context) (c Counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, quietMost)
	defer cancel()
	tick := time.NewTicker(quietPoll)
	defer tick.Stop()
	for {
		if err := r.look(nil); err != nil {
			return c, err
		}
		if c.Client, err = r.client.Device.Resources(); err != nil {
			return c, err
		}
		if c.Server, err = r.server.st.Device.Resources(); err != nil {
			return c, err
		}
		if c.Client.CMIDs+c.Client.QPs+c.Server.CMIDs+c.Server.QPs == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, fmt.Errorf("wait for connections to be over: the client still has %d, the server %d: %w", c.Client.CMIDs, c.Server.CMIDs, context.Cause(ctx))
		}
	}
	c.IDs = r.client.IDs() + r.server.st.IDs()
	c.Goroutines = runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // collects objects with finalizers that the first one queued
	runtime.ReadMemStats(&m)
	c.HeapBytes = m.HeapAlloc
	return c, nil
}
