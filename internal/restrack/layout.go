package restrack

import (
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The memory of a table consists of extents of ExtentSize bytes. Extent 0 contains the Header, and
// after it the counters of the adapter, from BoardAt on. Each other extent contains rows of one
// kind, end to end. A table begins with one extent and grows as objects are created; it never
// shrinks.
const (
	ExtentSize = 16 << 10
	// MaxExtents bounds a table: 32 MiB, or 65,000 queue pairs without other objects.
	MaxExtents = 2048
	// BoardAt is the offset of the adapter's counters in extent 0.
	BoardAt = 12 << 10
)

// The header ends before the counters.
var _ [BoardAt - unsafe.Sizeof(Header{})]byte

// Magic begins the memory of a table.
const Magic = 0x6b636172_74736572 // "restrack" in the byte order of x86 and arm64

// Kind is a kind of objects.
type Kind uint8

// The kinds. The memory contains these numbers.
const (
	KindNone Kind = iota
	KindQP        // queue pairs and EE contexts
	KindCQ
	KindMR // regions and windows
	KindPD
	KindSRQ
	KindCMID // connections and listeners of the connection manager
	KindXRCD
	NumKinds
)

var kindNames = [NumKinds]string{"none", "qp", "cq", "mr", "pd", "srq", "cm_id", "xrcd"}

// String returns the name of the kind, as iproute2's rdma command spells it.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Process describes the process that has the adapter, and the adapter. It does not change.
type Process struct {
	PID     uint64
	UID     uint64
	PIDNS   uint64 // inode number of the PID namespace in which PID counts
	NetNS   uint64 // inode number of the network namespace
	Ticks   uint64 // when the process started, in the kernel's ticks since it booted
	Started int64  // when the adapter was opened, in nanoseconds since 1970
	Epoch   int64  // the time of the engine's instant 0, in nanoseconds since 1970
	GUID    uint64
	Slot    uint64   // upper byte of the QPNs
	Addr    [16]byte // first address
	MTU     uint64   // of the port, in bytes of UDP payload
	Device  [32]byte // name, such as "softhca0"; padded with zeros
	Command [32]byte // name of the process; padded with zeros
	// Board is the path of the file that contains the adapter's counters, from byte BoardOffset
	// on. If Board is empty, they are at BoardAt in this table.
	Board       [256]byte
	BoardOffset uint64
}

// Header is the beginning of a table.
type Header struct {
	magic   atomic.Uint64
	layout  atomic.Uint64
	process Process
	extents atomic.Uint64             // extents in use, of which the last may just be added
	kinds   [MaxExtents]atomic.Uint32 // of the rows in each extent
	failed  atomic.Uint64             // 1 after the adapter failed
	missing [NumKinds]atomic.Uint64   // objects of each kind for which the table had no row
}

// layoutNumber returns a number that changes whenever the meaning of a table's bytes does. board is
// the size of the adapter's counters.
func layoutNumber(board uintptr) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, ExtentSize, BoardAt, board, typesNumber()) // writing to a hash never fails
	return h.Sum64()
}

// typesNumber returns the part of the layout number that depends on the types. It is computed once,
// because readers compare the number at each read.
var typesNumber = sync.OnceValue(func() uint64 {
	h := fnv.New64a()
	for _, t := range []reflect.Type{
		reflect.TypeFor[Header](), reflect.TypeFor[QP](), reflect.TypeFor[CQ](), reflect.TypeFor[MR](), reflect.TypeFor[PD](),
		reflect.TypeFor[SRQ](), reflect.TypeFor[CMID](), reflect.TypeFor[XRCD](),
	} {
		describeType(h, t)
	}
	return h.Sum64()
})

// describeType writes the name and the size of a type, and its fields.
func describeType(w io.Writer, t reflect.Type) {
	_, _ = fmt.Fprintln(w, t, t.Size()) // as in layoutNumber
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		_, _ = fmt.Fprintln(w, f.Name, f.Offset)
		describeType(w, f.Type)
	}
}
