package restrack

import (
	"fmt"
	"unsafe"
)

// Memory is where a table is.
type Memory interface {
	// Extent returns extent i, of ExtentSize zeroed bytes aligned to 64, that stay where they are.
	// The table asks for each once, in order. An error means that the table cannot grow.
	Extent(i int) ([]byte, error)
}

// Table is the writer's side of a table. Only the control plane's thread calls it. A nil Table has no
// rows to give: objects then get rows on the heap, which no other process sees.
type Table struct {
	mem    Memory
	header *Header
	pools  [NumKinds]pool
	used   int // extents
}

// pool contains the free rows of a kind.
type pool struct {
	extents []unsafe.Pointer
	free    []uint32 // slots
	made    uint32   // slots that were used once
}

// rowSize contains the size of a row of each kind, in bytes.
var rowSize = [NumKinds]uintptr{
	KindQP: unsafe.Sizeof(QP{}), KindCQ: unsafe.Sizeof(CQ{}), KindMR: unsafe.Sizeof(MR{}), KindPD: unsafe.Sizeof(PD{}),
	KindSRQ: unsafe.Sizeof(SRQ{}), KindCMID: unsafe.Sizeof(CMID{}), KindXRCD: unsafe.Sizeof(XRCD{}),
}

// rowsPerExtent returns how many rows of a kind an extent has.
func rowsPerExtent(k Kind) uint32 { return uint32(ExtentSize / rowSize[k]) }

// New returns an empty table. board is the size of the adapter's counters. Readers do not accept the
// table before Publish.
func New(mem Memory, board uintptr) (*Table, error) {
	first, err := mem.Extent(0)
	if err != nil {
		return nil, err
	}
	if BoardAt+board > ExtentSize {
		return nil, fmt.Errorf("restrack: %d bytes of counters, room for %d", board, ExtentSize-BoardAt)
	}
	h := (*Header)(unsafe.Pointer(unsafe.SliceData(first)))
	h.extents.Store(1)
	h.layout.Store(layoutNumber(board))
	return &Table{mem: mem, header: h, used: 1}, nil
}

// Publish describes the process of the table and makes the table acceptable to readers.
func (t *Table) Publish(p *Process) {
	t.header.process = *p
	t.header.magic.Store(Magic)
}

// Missed counts an object for which the table had no row.
func (t *Table) Missed(k Kind) { t.header.missing[k].Add(1) }

// Fail notes that the adapter has failed. On nil it does nothing.
func (t *Table) Fail() {
	if t != nil {
		t.header.failed.Store(1)
	}
}

// Handle is a row that an object has.
type Handle[I, C any] struct {
	*Row[I, C]
	table *Table // nil: the row is on the heap
	kind  Kind
	slot  uint32
}

// Add gives an object a row and sets its identity. If the table is nil or full, the row is on the
// heap.
func Add[I, C any](t *Table, k Kind, info *I) Handle[I, C] {
	h := Handle[I, C]{kind: k}
	if t != nil {
		if at, slot := t.take(k); at != nil {
			h.Row, h.table, h.slot = (*Row[I, C])(at), t, slot
		} else {
			t.Missed(k)
		}
	}
	if h.Row == nil {
		h.Row = new(Row[I, C])
	}
	h.Set(info)
	return h
}

// Free takes the row back. Later writes of the object go to a row on the heap. A handle without a
// row in a table stays as it is.
func (h *Handle[I, C]) Free() {
	if h.table == nil {
		return
	}
	h.free()
	p := &h.table.pools[h.kind]
	p.free = append(p.free, h.slot)
	*h = Handle[I, C]{Row: new(Row[I, C])}
}

// Shared reports whether the row is in a table, and so in memory that does not move.
func (h *Handle[I, C]) Shared() bool { return h.table != nil }

// take returns a free row; nil if there is none.
func (t *Table) take(k Kind) (unsafe.Pointer, uint32) {
	p := &t.pools[k]
	per := rowsPerExtent(k)
	var slot uint32
	switch n := len(p.free); {
	case n > 0:
		slot = p.free[n-1]
		p.free = p.free[:n-1]
	case p.made == per*uint32(len(p.extents)) && !t.grow(k):
		return nil, 0
	default:
		slot = p.made
		p.made++
	}
	return unsafe.Add(p.extents[slot/per], uintptr(slot%per)*rowSize[k]), slot
}

// grow adds an extent of rows of a kind.
func (t *Table) grow(k Kind) bool {
	if t.used == MaxExtents {
		return false
	}
	mem, err := t.mem.Extent(t.used)
	if err != nil {
		return false
	}
	t.pools[k].extents = append(t.pools[k].extents, unsafe.Pointer(unsafe.SliceData(mem)))
	t.header.kinds[t.used].Store(uint32(k))
	t.used++
	t.header.extents.Store(uint64(t.used))
	return true
}
