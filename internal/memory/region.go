package memory

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/restrack"
)

// PD is the number of a protection domain. Zero is none.
type PD uint32

// Form is what the addresses of a region stand for.
type Form uint8

// The forms.
const (
	FormBuf      Form = iota // the bytes of a buffer
	FormImplicit             // the whole address space of the process
	FormNull                 // no memory: reads return zeros, and writes are discarded
)

const (
	// implicitEnd bounds the addresses of implicit regions: Linux gives no
	// program memory above it that did not ask for an address there.
	implicitEnd = 1 << 48
	// implicitStart is the end of the page at address 0. The runtime cannot
	// tell an access to it from a nil pointer of its own.
	implicitStart = 4096
	// nullAccess is the length of the longest access to a region without memory: the
	// payload of a packet.
	nullAccess = 4096
)

// Region is a registered memory region. It changes only through its table.
type Region struct {
	extent
	null          *nullMemory // only with FormNull
	key           uint32
	pd            PD
	form          Form
	access        ib.Access
	windows       uint32 // bound to it
	invalidatable bool
	invalidated   bool
	durable       bool
	by            string // RegionConfig.By

	Tracked // belongs to the adapter
}

// Tracked is the row of a region or a window in the adapter's table of objects, and what is in it.
// Without a table there is no row.
type Tracked struct {
	Track     restrack.Handle[restrack.MRInfo, restrack.NoCounts]
	TrackInfo restrack.MRInfo
}

// Retrack writes TrackInfo to the row, if there is one.
func (t *Tracked) Retrack() {
	if t.Track.Row != nil {
		t.Track.Set(&t.TrackInfo)
	}
}

// extent is memory, and the address of its first byte in work requests and for peers.
type extent struct {
	buf  []byte
	iova uint64
}

// LKey returns the key for local access.
func (r *Region) LKey() ib.LKey { return ib.LKey(r.key) }

// RKey returns the key for remote access: the same number as the LKey when the
// region has remote rights, otherwise 0.
func (r *Region) RKey() ib.RKey {
	if r.access&accessPeer == 0 {
		return 0
	}
	return ib.RKey(r.key)
}

// Addr returns the address of the first byte that work requests and peers use.
func (r *Region) Addr() uint64 { return r.iova }

// Len returns the length in bytes; of regions without a buffer, 2^64-1.
func (r *Region) Len() uint64 {
	if r.form != FormBuf {
		return math.MaxUint64
	}
	return uint64(len(r.buf))
}

// Form returns what the addresses of the region stand for.
func (r *Region) Form() Form { return r.form }

// Access returns the rights.
func (r *Region) Access() ib.Access { return r.access }

// PD returns the protection domain.
func (r *Region) PD() PD { return r.pd }

// Invalidated reports whether the region was invalidated: its key is unusable
// until it is registered again.
func (r *Region) Invalidated() bool { return r.invalidated }

// view returns n bytes at addr. The comparisons are safe for any addr and n
// from a peer: an address before the extent wraps to an offset past its end,
// because no extent goes past 2^64.
func (x *extent) view(addr, n uint64) ([]byte, bool) {
	size, off := uint64(len(x.buf)), addr-x.iova
	if n > size || off > size-n {
		return nil, false
	}
	return x.buf[off : off+n : off+n], true
}

// nullMemory takes the place of the memory that a region of FormNull lacks.
type nullMemory struct {
	zeros [nullAccess]byte // read
	sink  [nullAccess]byte // written
}

// unbuffered is view for accesses outside of a buffer: legal for the other
// forms.
func (r *Region) unbuffered(addr, n uint64, need ib.Access) ([]byte, Fault) {
	switch {
	case r.form == FormImplicit && addr >= implicitStart && addr < implicitEnd && n <= implicitEnd-addr:
		if b, err := RawBuf(uintptr(addr), n); err == nil {
			return b, FaultNone
		}
	case r.form == FormNull && n <= nullAccess && need&ib.AccessLocalWrite != 0:
		return r.null.sink[:n], FaultNone
	case r.form == FormNull && n <= nullAccess:
		return r.null.zeros[:n], FaultNone
	}
	return nil, FaultRange
}

// RegionConfig configures a region.
type RegionConfig struct {
	PD  PD     // not 0
	Buf []byte // the memory; the region refers to it until it is deregistered
	// IOVA is the address of Buf[0] that work requests and peers use. 0 means
	// its address in memory, unless HasIOVA is set or Access has ZERO_BASED.
	IOVA    uint64
	HasIOVA bool // IOVA is set, also if it is 0
	Access  ib.Access
	Form    Form // without FormBuf, the region has no Buf and no IOVA
	// Invalidatable regions can be invalidated by SEND with invalidate and
	// LOCAL_INV, like fast-register regions.
	Invalidatable bool
	// Foreign memory, which Go does not manage, may be unmapped or protected
	// while it is registered. Accesses to it then fail.
	Foreign bool
	// Durable memory can be written back to storage. FLUSH_PERSISTENT needs it.
	Durable bool
	// By is the function of the program that registers the region, for explanations. It may be empty.
	By string
}

const (
	// accessHints are flags without an effect: memory is never pinned, so all of
	// it is on demand, and no table of pages becomes smaller by HUGETLB. The verbs
	// reserve bits 20 to 29 for optional flags, such as RELAXED_ORDERING: writes
	// to memory keep their order.
	accessHints = ib.AccessOnDemand | ib.AccessHugeTLB | 0x3ff00000
	accessKnown = ib.AccessLocalWrite | accessPeer | ib.AccessMWBind | ib.AccessZeroBased | accessHints
	// accessPeer is every right of a peer: a region with one has an RKey.
	accessPeer = ib.AccessRemote | ib.AccessFlush
	// accessWrites are the remote rights that need LOCAL_WRITE.
	accessWrites = ib.AccessRemoteWrite | ib.AccessRemoteAtomic
)

// check returns an error if c cannot be registered.
func (c *RegionConfig) check() error {
	switch unknown, end := c.Access&^accessKnown, c.start()+uint64(len(c.Buf)); {
	case c.PD == 0:
		return fmt.Errorf("no protection domain: %w", ib.EINVAL)
	case unknown != 0:
		return fmt.Errorf("access %v: %w", unknown, ib.EOPNOTSUPP)
	case c.Access&accessWrites != 0 && c.Access&ib.AccessLocalWrite == 0:
		return fmt.Errorf("access %v without LOCAL_WRITE: %w", c.Access&accessWrites, ib.EINVAL)
	case c.Access&ib.AccessFlushPersistent != 0 && !c.Durable:
		return fmt.Errorf("access FLUSH_PERSISTENT to memory that is not a shared mapping of a file on storage: %w", ib.EINVAL)
	case c.Access&ib.AccessZeroBased != 0 && c.IOVA != 0:
		return fmt.Errorf("address %#x of a zero-based region: %w", c.IOVA, ib.EINVAL)
	case c.Form == FormImplicit && c.Access&ib.AccessOnDemand == 0:
		return fmt.Errorf("the address space without ON_DEMAND: %w", ib.EINVAL)
	case c.Form != FormBuf && (len(c.Buf) != 0 || c.IOVA != 0 || c.Access&ib.AccessZeroBased != 0):
		return fmt.Errorf("an address for a region without a buffer: %w", ib.EINVAL)
	case c.Form == FormNull && c.Access&^ib.AccessLocalWrite != 0:
		return fmt.Errorf("access %v to no memory: %w", c.Access, ib.EINVAL)
	case end < c.start() && end != 0:
		return fmt.Errorf("%d bytes at address %#x wrap: %w", len(c.Buf), c.start(), ib.EINVAL)
	}
	return nil
}

// foreign reports whether accesses to the region may fail.
func (c *RegionConfig) foreign() bool { return c.Foreign || c.Form == FormImplicit }

// start returns the address of the first byte.
func (c *RegionConfig) start() uint64 {
	if c.HasIOVA || c.IOVA != 0 || c.Access&ib.AccessZeroBased != 0 || c.Form != FormBuf {
		return c.IOVA
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(c.Buf))))
}

// RawBuf returns the n bytes of memory at addr, for memory that Go does not
// manage. The caller guarantees that it is mapped, readable and writable while
// the result is used. EINVAL if the range wraps, starts at address 0, or
// exceeds the maximum length of a slice.
func RawBuf(addr uintptr, n uint64) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case addr == 0 || n > math.MaxInt || uintptr(n-1) > ^uintptr(0)-addr:
		return nil, fmt.Errorf("%d bytes of memory at %#x: %w", n, addr, ib.EINVAL)
	}
	// The address is reinterpreted, not converted: it comes from outside of Go
	// and never was a Go pointer.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}
