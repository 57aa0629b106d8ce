package memory

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// PD is the number of a protection domain. Zero is none.
type PD uint32

// Region is a registered memory region. It changes only through its table.
type Region struct {
	buf           []byte
	iova          uint64
	key           uint32
	pd            PD
	access        ib.Access
	invalidatable bool
	invalidated   bool
}

// LKey returns the key for local access.
func (r *Region) LKey() ib.LKey { return ib.LKey(r.key) }

// RKey returns the key for remote access: the same number as the LKey when the
// region has remote rights, otherwise 0.
func (r *Region) RKey() ib.RKey {
	if r.access&ib.AccessRemote == 0 {
		return 0
	}
	return ib.RKey(r.key)
}

// Addr returns the address of the first byte that work requests and peers use.
func (r *Region) Addr() uint64 { return r.iova }

// Len returns the length in bytes.
func (r *Region) Len() uint64 { return uint64(len(r.buf)) }

// Access returns the rights.
func (r *Region) Access() ib.Access { return r.access }

// PD returns the protection domain.
func (r *Region) PD() PD { return r.pd }

// Invalidated reports whether the region was invalidated: its key is unusable
// until it is registered again.
func (r *Region) Invalidated() bool { return r.invalidated }

// view returns n bytes at addr. The comparisons are safe for any addr and n
// from a peer: an address before the region wraps to an offset past its end,
// because no region extends past 2^64.
func (r *Region) view(addr, n uint64) ([]byte, bool) {
	size, off := uint64(len(r.buf)), addr-r.iova
	if n > size || off > size-n {
		return nil, false
	}
	return r.buf[off : off+n : off+n], true
}

// RegionConfig configures a region.
type RegionConfig struct {
	PD  PD     // not 0
	Buf []byte // the memory; the region refers to it until it is deregistered
	// IOVA is the address of Buf[0] that work requests and peers use. 0 means
	// its address in memory or, if Access has ZERO_BASED, 0.
	IOVA   uint64
	Access ib.Access
	// Invalidatable regions can be invalidated by SEND with invalidate and
	// LOCAL_INV, like fast-register regions.
	Invalidatable bool
	// Foreign memory, which Go does not manage, may be unmapped or protected
	// while it is registered. Accesses to it then fail.
	Foreign bool
}

const (
	// accessHints are flags that may be ignored: HUGETLB, and bits 20 to 29,
	// which the verbs reserve for optional flags.
	accessHints = ib.AccessHugeTLB | 0x3ff00000
	accessKnown = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind | ib.AccessZeroBased | accessHints
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
	case c.Access&ib.AccessZeroBased != 0 && c.IOVA != 0:
		return fmt.Errorf("address %#x of a zero-based region: %w", c.IOVA, ib.EINVAL)
	case end < c.start() && end != 0:
		return fmt.Errorf("%d bytes at address %#x wrap: %w", len(c.Buf), c.start(), ib.EINVAL)
	}
	return nil
}

// start returns the address of the first byte.
func (c *RegionConfig) start() uint64 {
	if c.IOVA != 0 || c.Access&ib.AccessZeroBased != 0 {
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
