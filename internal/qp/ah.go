package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/memory"
)

// AH is an address handle: the resolved path to a UD destination.
type AH struct {
	PD   memory.PD
	Path Path
	pace flow.Pacer // of its static rate
}

// NewAH returns the address handle of an address vector that path resolves.
func NewAH(env *Env, pd memory.PD, path Path, rate ib.Rate) AH {
	return AH{PD: pd, Path: path, pace: env.staticPacer(rate)}
}

// AHTable holds the address handles of an adapter. A handle is an index and a
// generation of 40 bits, which never wraps in practice: a work request that
// outlives its handle finds no handle.
type AHTable struct {
	slots []ahSlot
	free  []uint32
	max   int
}

type ahSlot struct {
	ah    AH
	gen   uint64
	inUse bool
}

// ahGenShift leaves 24 bits of index below the generation.
const ahGenShift = 24

// NewAHTable returns an empty table for at most n address handles.
func NewAHTable(n int) *AHTable { return &AHTable{max: min(n, 1<<ahGenShift-1)} }

// Add stores an address handle. It reports false when the table is full.
func (t *AHTable) Add(ah AH) (ib.AHHandle, bool) {
	if len(t.free) == 0 {
		if len(t.slots) == t.max {
			return 0, false
		}
		t.free = append(t.free, uint32(len(t.slots)))
		t.slots = append(t.slots, ahSlot{})
	}
	i := t.free[0] // the one that has been free for longest
	t.free = t.free[1:]
	s := &t.slots[i]
	s.ah, s.inUse = ah, true
	return ib.AHHandle(i+1) | ib.AHHandle(s.gen)<<ahGenShift, true
}

// Get returns the address handle, nil when h names none. The pointer is valid
// until the next Add or Remove.
func (t *AHTable) Get(h ib.AHHandle) *AH {
	if s := t.slot(h); s != nil {
		return &s.ah
	}
	return nil
}

// Remove forgets a handle and reports whether there was one.
func (t *AHTable) Remove(h ib.AHHandle) bool {
	s := t.slot(h)
	if s == nil {
		return false
	}
	s.inUse = false
	s.gen++
	t.free = append(t.free, uint32(h&(1<<ahGenShift-1))-1)
	return true
}

func (t *AHTable) slot(h ib.AHHandle) *ahSlot {
	i := uint32(h & (1<<ahGenShift - 1))
	if i == 0 || i > uint32(len(t.slots)) {
		return nil
	}
	s := &t.slots[i-1]
	if !s.inUse || s.gen != uint64(h>>ahGenShift) {
		return nil
	}
	return s
}
