package restrack

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"unsafe"
)

// ErrLayout is the error of memory that is not a table of this version of softhca.
var ErrLayout = errors.New("not a table of this version of softhca")

// View is the reader's side of a table, over a mapping of its memory. Everything in it was written
// by another process: a View never trusts a number in it as an index or a length.
type View struct {
	mem    []byte
	header *Header
}

// NewView returns a view of a mapping, which is aligned to 8 bytes and stays mapped while the View
// is used. board is the size of the adapter's counters.
func NewView(mem []byte, board uintptr) (*View, error) {
	if len(mem) < ExtentSize {
		return nil, fmt.Errorf("%d bytes: %w", len(mem), ErrLayout)
	}
	h := (*Header)(unsafe.Pointer(unsafe.SliceData(mem)))
	if h.magic.Load() != Magic || h.layout.Load() != layoutNumber(board) {
		return nil, ErrLayout
	}
	return &View{mem, h}, nil
}

// ProcessOf returns the description of the process in a table of any version. It reports false for
// memory that is no table.
func ProcessOf(mem []byte) (p Process, ok bool) {
	if len(mem) < ExtentSize {
		return p, false
	}
	h := (*Header)(unsafe.Pointer(unsafe.SliceData(mem)))
	return h.process, h.magic.Load() == Magic
}

// Process describes the process that has the adapter.
func (v *View) Process() Process { return v.header.process }

// Failed reports whether the adapter failed.
func (v *View) Failed() bool { return v.header.failed.Load() != 0 }

// Missing returns how many objects of a kind got no row in the table.
func (v *View) Missing(k Kind) uint64 { return v.header.missing[k].Load() }

// Bytes returns the size of the table. If it is more than that of the mapping, the table has grown.
func (v *View) Bytes() int {
	return int(min(v.header.extents.Load(), MaxExtents)) * ExtentSize
}

// Rows returns how many rows of a kind the table has, in use or free.
func (v *View) Rows(k Kind) (n int) {
	for e := 1; e < min(v.Bytes(), len(v.mem))/ExtentSize; e++ {
		if Kind(v.header.kinds[e].Load()) == k {
			n += int(rowsPerExtent(k))
		}
	}
	return n
}

// Object is a row that was read.
type Object[I, C any] struct {
	Info   I
	Counts C
}

// Objects returns the objects of a kind, in the order of their rows. Each is consistent in itself;
// objects that appear or disappear meanwhile may be missing.
func objects[I, C any](v *View, k Kind) iter.Seq[Object[I, C]] {
	return func(yield func(Object[I, C]) bool) {
		n := min(v.Bytes(), len(v.mem)) / ExtentSize
		for e := 1; e < n; e++ {
			if Kind(v.header.kinds[e].Load()) != k {
				continue
			}
			base := unsafe.Pointer(&v.mem[e*ExtentSize])
			for i := range rowsPerExtent(k) {
				var o Object[I, C]
				row := (*Row[I, C])(unsafe.Add(base, uintptr(i)*rowSize[k]))
				if row.read(&o.Info, &o.Counts) && !yield(o) {
					return
				}
			}
		}
	}
}

// QPs returns the queue pairs and EE contexts.
func (v *View) QPs() iter.Seq[Object[QPInfo, QPCounts]] { return objects[QPInfo, QPCounts](v, KindQP) }

// CQs returns the completion queues.
func (v *View) CQs() iter.Seq[Object[CQInfo, CQCounts]] { return objects[CQInfo, CQCounts](v, KindCQ) }

// MRs returns the regions and windows.
func (v *View) MRs() iter.Seq[Object[MRInfo, NoCounts]] { return objects[MRInfo, NoCounts](v, KindMR) }

// PDs returns the protection domains.
func (v *View) PDs() iter.Seq[Object[PDInfo, PDCounts]] { return objects[PDInfo, PDCounts](v, KindPD) }

// SRQs returns the shared receive queues.
func (v *View) SRQs() iter.Seq[Object[SRQInfo, NoCounts]] {
	return objects[SRQInfo, NoCounts](v, KindSRQ)
}

// CMIDs returns the connections and listeners of the connection manager.
func (v *View) CMIDs() iter.Seq[Object[CMIDInfo, NoCounts]] {
	return objects[CMIDInfo, NoCounts](v, KindCMID)
}

// XRCDs returns the XRC domains.
func (v *View) XRCDs() iter.Seq[Object[XRCDInfo, NoCounts]] {
	return objects[XRCDInfo, NoCounts](v, KindXRCD)
}

// Text returns the text in a field that is padded with zeros.
func Text(field []byte) string {
	text, _, _ := bytes.Cut(field, []byte{0})
	return string(text)
}
