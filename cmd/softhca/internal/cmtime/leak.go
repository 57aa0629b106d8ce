package cmtime

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/softhca/softhca/verbs"
)

// Counts are what connections could leave behind.
type Counts struct {
	IDs        int             `json:"ids"`    // of rdmacm, both sides together
	Client     verbs.Resources `json:"client"` // the adapter's objects
	Server     verbs.Resources `json:"server"`
	Goroutines int             `json:"goroutines"`
	HeapBytes  uint64          `json:"heap_bytes"` // that are reachable
}

// Leaks compares what there was before the cycles, after the first half of
// them, which fills what is kept for reuse, and after all.
type Leaks struct {
	Before Counts `json:"before"`
	Half   Counts `json:"half"`
	After  Counts `json:"after"`
	Clean  bool   `json:"clean"`
}

// What the heap may grow by in the second half: noise, and next to nothing for
// each cycle. Few cycles have not yet met all pages of the two adapters' tables
// of QPNs.
const (
	heapNoise    = 256 << 10
	heapPerCycle = 8
	heapQPNs     = 1 << 20
	fewCycles    = 5000
)

// judge sets Clean.
func (l *Leaks) judge(cycles int) {
	b, a := l.Before, l.After
	grown := int64(a.HeapBytes) - int64(l.Half.HeapBytes)
	most := heapNoise + heapPerCycle*int64(cycles)
	if cycles < fewCycles {
		most += heapQPNs
	}
	l.Clean = a.IDs == b.IDs && a.Client == b.Client && a.Server == b.Server && a.Goroutines <= b.Goroutines &&
		grown <= most
}

// String says what is left over.
func (l *Leaks) String() string {
	text := "nothing is left over"
	if !l.Clean {
		text = fmt.Sprintf("SOMETHING IS LEFT OVER: before %+v, after %+v", l.Before, l.After)
	}
	return fmt.Sprintf("%s: %d IDs, %d + %d queue pairs, %d + %d connections, %d goroutines as before; heap %d kB after half, %d kB after all",
		text, l.After.IDs, l.After.Client.QPs, l.After.Server.QPs, l.After.Client.CMIDs, l.After.Server.CMIDs, l.After.Goroutines,
		l.Half.HeapBytes>>10, l.After.HeapBytes>>10)
}

// Bounds of the wait for connections in TIMEWAIT, which takes 2.2 s with the
// defaults of the protocol.
const (
	quietPoll = 20 * time.Millisecond
	quietMost = time.Minute
)

// count counts once no connection is in TIMEWAIT, the server has ended its part
// of all, and garbage is collected.
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
			return c, fmt.Errorf("wait for connections to be over (client %+v, server %+v): %w", c.Client, c.Server, context.Cause(ctx))
		}
	}
	c.IDs = r.client.IDs() + r.server.st.IDs()
	c.Goroutines = runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one queued for finalizers
	runtime.ReadMemStats(&m)
	c.HeapBytes = m.HeapAlloc
	return c, nil
}
