package hca

import (
	"fmt"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/restrack"
)

// maxDMAlign is the base-2 logarithm of the largest alignment of device memory: a page.
const maxDMAlign = 12

// DM is device memory: memory of the adapter that a program reaches by copies
// and by work requests, but not by an address.
type DM struct {
	hca     *HCA
	whole   []byte // as allocated
	buf     []byte // the aligned part that the program asked for
	regions int    // that cover parts of it
	freed   bool
}

// AllocDM allocates size bytes of device memory, zeroed, at a multiple of
// 2^logAlign. EINVAL for no bytes, for more than the adapter ever has, and for
// an alignment beyond a page; ENOMEM if the adapter has less left.
func (h *HCA) AllocDM(size uint64, logAlign uint32) (*DM, error) {
	switch most := h.cfg.Limits.MaxDMSize; {
	case size == 0 || size > most:
		return nil, fmt.Errorf("%d bytes of device memory, the adapter has 1 to %d: %w", size, most, ib.EINVAL)
	case logAlign > maxDMAlign:
		return nil, fmt.Errorf("device memory at a multiple of 2^%d bytes, the adapter aligns to 2^%d: %w", logAlign, maxDMAlign, ib.EINVAL)
	case size > most-h.dmBytes:
		return nil, fmt.Errorf("%d bytes of device memory, the adapter has %d left: %w", size, most-h.dmBytes, ib.ENOMEM)
	}
	align := uint64(1) << logAlign
	whole, err := h.cfg.Queues.Take(int(size + align - 1))
	if err != nil {
		return nil, fmt.Errorf("device memory: %w", err)
	}
	d := &DM{hca: h, whole: whole}
	first := -uint64(uintptr(unsafe.Pointer(unsafe.SliceData(d.whole)))) & (align - 1)
	d.buf = d.whole[first : first+size : first+size]
	h.dmBytes += size
	return d, nil
}

// Bytes returns the memory itself, which is valid until Free.
func (d *DM) Bytes() []byte { return d.buf }

// Free frees the memory; EBUSY while regions cover it.
func (d *DM) Free() error {
	switch {
	case d.freed:
		return fmt.Errorf("device memory was freed: %w", ib.EINVAL)
	case d.regions != 0:
		return fmt.Errorf("device memory has %d regions: %w", d.regions, ib.ErrBusy)
	}
	d.freed = true
	d.hca.dmBytes -= uint64(len(d.buf))
	d.hca.cfg.Queues.Return(d.whole)
	return nil
}

// dmAccess are the rights that a region of device memory can have. It is
// neither on demand nor in huge pages.
const dmAccess = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind | ib.AccessZeroBased | 0x3ff00000

// RegDM registers n bytes of device memory from offset off on, as RegMR does.
// Addresses of the region count from c.IOVA. EINVAL for memory that was freed or
// is another adapter's, for a range that exceeds it, and for other rights than
// LOCAL_WRITE, the remote ones, MW_BIND, ZERO_BASED and the optional ones.
func (p *PD) RegDM(d *DM, off, n uint64, c memory.RegionConfig) (*memory.Region, error) {
	switch {
	case d == nil || d.hca != p.hca || d.freed:
		return nil, fmt.Errorf("no device memory of the adapter: %w", ib.EINVAL)
	case c.Access&^dmAccess != 0:
		return nil, fmt.Errorf("access %v to device memory: %w", c.Access&^dmAccess, ib.EINVAL)
	}
	if size := uint64(len(d.buf)); off > size || n > size-off {
		return nil, fmt.Errorf("%d bytes at %d of %d bytes of device memory: %w", n, off, size, ib.EINVAL)
	}
	c.Buf, c.HasIOVA, c.Form = d.buf[off:off+n:off+n], true, memory.FormBuf
	r, err := p.RegMR(c)
	if err != nil {
		return nil, err
	}
	d.regions++
	p.hca.onDM[r] = d
	p.hca.track.region(r, restrack.FormDeviceMemory)
	return r, nil
}

// leaveDM notes that a region does not cover device memory (any more).
func (h *HCA) leaveDM(r *memory.Region) {
	if d := h.onDM[r]; d != nil {
		d.regions--
		delete(h.onDM, r)
	}
}
